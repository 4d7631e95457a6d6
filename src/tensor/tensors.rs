//! Named tensors in memory, mapped from a file or owned.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

use super::{DType, Shape};

/// The bytes of one tensor. They always start at an address that is a multiple of 4.
#[derive(Clone, Debug)]
pub enum TensorBytes {
    /// A range of a mapped file.
    Mapped {
        /// The mapping, shared by all tensors of the file.
        map: Arc<Mmap>,
        /// Where in the mapping the tensor lies, in bytes.
        range: Range<usize>,
    },
    /// Bytes in anonymous memory. The vector's element type gives the alignment; `len_bytes` may end inside the last
    /// element.
    Owned {
        /// The storage.
        words: Arc<Vec<u32>>,
        /// Length in bytes.
        len_bytes: usize,
    },
}

impl TensorBytes {
    /// Copies `bytes` into aligned anonymous memory.
    pub fn owned(bytes: &[u8]) -> TensorBytes {
        let mut words = vec![0u32; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        TensorBytes::Owned { words: Arc::new(words), len_bytes: bytes.len() }
    }
}

impl Deref for TensorBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TensorBytes::Mapped { map, range } => &map[range.clone()],
            TensorBytes::Owned { words, len_bytes } => &bytemuck::cast_slice::<u32, u8>(words)[..*len_bytes],
        }
    }
}

/// A weight: type, shape and bytes. `bytes.len()` is exactly what `dtype` and `shape` ask for.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extents, fastest first: `[n_in, n_out]` for a matrix, whose memory is row-major `[n_out][n_in]`.
    pub shape: Shape,
    /// The data.
    pub bytes: TensorBytes,
}

impl Tensor {
    /// A tensor of f32 values in anonymous memory. Panics if `values` does not fill `shape`; for tests and derived
    /// weights.
    pub fn from_f32(shape: Shape, values: &[f32]) -> Tensor {
        assert_eq!(shape.n_elems(), values.len(), "values fill the shape");
        Tensor { dtype: DType::F32, shape, bytes: TensorBytes::owned(bytemuck::cast_slice(values)) }
    }

    /// Bytes of one row of `shape[0]` elements.
    pub fn row_bytes(&self) -> usize {
        self.dtype.bytes_for(self.shape.row_len()).expect("a Tensor's rows are whole blocks")
    }

    /// The bytes of row `row`.
    pub fn row(&self, row: usize) -> &[u8] {
        let n = self.row_bytes();
        &self.bytes[row * n..(row + 1) * n]
    }
}

/// All weights of a model by GGUF name.
#[derive(Clone, Debug, Default)]
pub struct TensorMap {
    by_name: HashMap<Box<str>, Tensor>,
}

impl TensorMap {
    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name)
    }

    /// Adds a tensor and returns the one that had the name before.
    pub fn insert(&mut self, name: &str, tensor: Tensor) -> Option<Tensor> {
        self.by_name.insert(name.into(), tensor)
    }

    /// Names and tensors, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.by_name.iter().map(|(name, tensor)| (&**name, tensor))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True if there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
