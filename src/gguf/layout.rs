//! Where the tensors of a file lie, checked against the file's size.

use super::{Field, GgufErrorKind, TensorType};
use crate::tensor::Shape;

/// A tensor of a file: name, shape, type and place.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorInfo {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: Box<str>,
    /// Extents, fastest first; every one is at least 1.
    pub shape: Shape,
    /// Element type, which may be one this crate cannot read.
    pub tensor_type: TensorType,
    /// Which file of a set the tensor is in, counted from 0.
    pub part: usize,
    /// Where the tensor starts in its file, in bytes.
    pub offset: usize,
    /// Size in bytes; `None` if the type's block layout is unknown. `offset + n_bytes` is within the file.
    pub n_bytes: Option<usize>,
}

/// A line of the tensor table as the file has it.
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) tensor_type: TensorType,
    /// Bytes from the start of the data.
    pub(super) offset: u64,
}

/// A tensor with its size; `n_bytes` is `None` for a type whose block layout is unknown.
struct Measured {
    entry: TensorEntry,
    shape: Shape,
    n_bytes: Option<u64>,
}

/// Turns the table into checked places. The data starts at the first multiple of `alignment` that is not
/// before `table_end`.
pub(super) fn place(
    entries: Vec<TensorEntry>,
    table_end: u64,
    file_bytes: u64,
    alignment: u64,
) -> Result<Vec<TensorInfo>, GgufErrorKind> {
    let measured: Vec<Measured> = entries.into_iter().map(measure).collect::<Result<_, _>>()?;
    let data_start = table_end.next_multiple_of(alignment);
    check_bounds(&measured, data_start, file_bytes, alignment)?;
    check_overlap(&measured)?;
    let info = |tensor: Measured| TensorInfo {
        name: tensor.entry.name.into(),
        shape: tensor.shape,
        tensor_type: tensor.entry.tensor_type,
        part: 0,
        // The file is in memory, so places inside it fit in usize.
        offset: (data_start + tensor.entry.offset) as usize,
        n_bytes: tensor.n_bytes.map(|n| n as usize),
    };
    Ok(measured.into_iter().map(info).collect())
}

/// Checks a tensor's extents and computes its size.
fn measure(entry: TensorEntry) -> Result<Measured, GgufErrorKind> {
    let field = || Field::Tensor(entry.name.clone());
    if entry.dims.contains(&0) {
        return Err(GgufErrorKind::ZeroDimension { field: field(), dims: entry.dims.clone() });
    }
    let too_large = || GgufErrorKind::TensorSize {
        field: field(),
        dims: entry.dims.clone(),
        tensor_type: entry.tensor_type,
    };
    let n_elems = entry.dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let n_elems = n_elems.filter(|&n| n <= isize::MAX as u64).ok_or_else(too_large)?;
    let mut shape = Shape::d1(1);
    for (extent, &dim) in shape.0.iter_mut().zip(&entry.dims) {
        *extent = usize::try_from(dim).map_err(|_| too_large())?;
    }
    let Some((block_elems, block_bytes)) = entry.tensor_type.block_layout() else {
        return Ok(Measured { entry, shape, n_bytes: None });
    };
    let row_len = entry.dims[0];
    if !row_len.is_multiple_of(block_elems as u64) {
        let (field, tensor_type) = (field(), entry.tensor_type);
        return Err(GgufErrorKind::PartialBlock { field, tensor_type, block_elems, row_len });
    }
    let n_bytes = (n_elems / block_elems as u64).checked_mul(block_bytes as u64);
    let n_bytes = n_bytes.filter(|&n| n <= isize::MAX as u64).ok_or_else(too_large)?;
    Ok(Measured { entry, shape, n_bytes: Some(n_bytes) })
}

fn check_bounds(
    tensors: &[Measured],
    data_start: u64,
    file_bytes: u64,
    alignment: u64,
) -> Result<(), GgufErrorKind> {
    let data_bytes = file_bytes.saturating_sub(data_start);
    for tensor in tensors {
        let (offset, n_bytes) = (tensor.entry.offset, tensor.n_bytes.unwrap_or(0));
        let field = || Field::Tensor(tensor.entry.name.clone());
        if !offset.is_multiple_of(alignment) {
            return Err(GgufErrorKind::Misaligned { field: field(), alignment, offset });
        }
        if offset > data_bytes || n_bytes > data_bytes - offset {
            // If the tensors follow each other without a gap, the table is right and the file is short.
            return Err(match packed_bytes(tensors, alignment).and_then(|n| n.checked_add(data_start)) {
                Some(expected) => GgufErrorKind::Truncated { expected, got: file_bytes },
                None => GgufErrorKind::OutOfBounds { field: field(), n_bytes, data_bytes, offset },
            });
        }
    }
    Ok(())
}

/// The size of the data if each tensor is at the first aligned place after the one before it in the table.
fn packed_bytes(tensors: &[Measured], alignment: u64) -> Option<u64> {
    tensors.iter().try_fold(0u64, |end, tensor| {
        let start = end.checked_next_multiple_of(alignment)?;
        if start == tensor.entry.offset { start.checked_add(tensor.n_bytes?) } else { None }
    })
}

fn check_overlap(tensors: &[Measured]) -> Result<(), GgufErrorKind> {
    let mut in_file_order: Vec<&Measured> = tensors.iter().collect();
    in_file_order.sort_by_key(|tensor| tensor.entry.offset);
    for pair in in_file_order.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        if second.entry.offset - first.entry.offset < first.n_bytes.unwrap_or(0) {
            let (field, other) = (Field::Tensor(second.entry.name.clone()), first.entry.name.clone());
            return Err(GgufErrorKind::Overlap { field, other });
        }
    }
    Ok(())
}
