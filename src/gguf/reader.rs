//! Opens a model: one file, or a set of parts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::parse::{Index, parse};
use super::split::{self, PartKeys};
use super::{Field, GgufError, GgufErrorKind, LooksLike, Metadata, OpenOptions, TensorInfo, source};
use crate::tensor::{Tensor, TensorBytes, TensorMap};

/// An open GGUF model.
#[derive(Debug)]
pub struct Gguf {
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    paths: Vec<PathBuf>,
    /// The contents of the files, in the order of `paths`.
    maps: Vec<Arc<Mmap>>,
}

/// One file of a model.
struct Part {
    map: Mmap,
    index: Index,
    keys: Option<PartKeys>,
}

impl Part {
    fn open(path: &Path, options: &OpenOptions) -> Result<Part, GgufError> {
        source::load(path, options).and_then(Part::new).map_err(|kind| GgufError::new(path, kind))
    }

    /// Opens a part that was found by its name, and checks that it is the one its name says.
    fn open_sibling(path: &Path, options: &OpenOptions) -> Result<Part, GgufError> {
        let part = Part::open(path, options)?;
        split::check_sibling(path, part.keys).map_err(|kind| GgufError::new(path, kind))?;
        Ok(part)
    }

    fn new(map: Mmap) -> Result<Part, GgufErrorKind> {
        let index = parse(&map)?;
        let keys = PartKeys::read(&index.metadata)?;
        Ok(Part { map, index, keys })
    }
}

impl Gguf {
    /// Opens the model at `path`, which may name any part of a split model; the others are found beside it.
    ///
    /// Element types this crate cannot compute with are no error here, so that such a file can be looked at;
    /// they are one in [`Gguf::tensors`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Gguf, GgufError> {
        let named = Part::open(path, options)?;
        let resolved = split::resolve(path, named.keys);
        let (paths, position) = resolved.map_err(|kind| GgufError::new(path, kind))?;
        let mut named = Some(named);
        let mut parts = Vec::with_capacity(paths.len());
        for (i, path) in paths.iter().enumerate() {
            let part = match named.take_if(|_| i == position) {
                Some(part) => part,
                None => Part::open_sibling(path, options)?,
            };
            parts.push(part);
        }
        Gguf::assemble(paths, parts)
    }

    /// Opens a model that is in memory, in one part. Errors call the file `(memory)`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Gguf, GgufError> {
        let path = Path::new("(memory)");
        let map = if bytes.is_empty() {
            Err(GgufErrorKind::NotGguf(LooksLike::Empty))
        } else {
            source::copy(bytes)
        };
        let part = map.and_then(Part::new).map_err(|kind| GgufError::new(path, kind))?;
        Gguf::assemble(vec![path.to_owned()], vec![part])
    }

    /// Joins the parts, of which there is at least one.
    fn assemble(paths: Vec<PathBuf>, parts: Vec<Part>) -> Result<Gguf, GgufError> {
        let keys = parts[0].keys;
        let mut model =
            Gguf { version: 0, metadata: Metadata::default(), tensors: Vec::new(), paths, maps: Vec::new() };
        for (i, part) in parts.into_iter().enumerate() {
            if i == 0 {
                model.version = part.index.version;
                model.metadata = part.index.metadata;
            }
            model.tensors.extend(part.index.tensors.into_iter().map(|info| TensorInfo { part: i, ..info }));
            model.maps.push(Arc::new(part.map));
        }
        split::check_tensor_count(keys, model.tensors.len() as u64)
            .map_err(|kind| GgufError::new(&model.paths[0], kind))?;
        model.check_names()?;
        Ok(model)
    }

    fn check_names(&self) -> Result<(), GgufError> {
        let mut seen = HashSet::with_capacity(self.tensors.len());
        match self.tensors.iter().find(|info| !seen.insert(&info.name)) {
            Some(info) => Err(self.error(info, GgufErrorKind::DuplicateTensor(info.name.to_string()))),
            None => Ok(()),
        }
    }

    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The model's metadata; of a split model, that of the first part.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, part by part in file order. Names are unique.
    pub fn tensor_infos(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Number of elements of all tensors.
    pub fn n_params(&self) -> u64 {
        self.tensors.iter().map(|info| info.shape.n_elems() as u64).sum()
    }

    /// The files of the model in order.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Size of all files together, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.maps.iter().map(|map| map.len() as u64).sum()
    }

    /// All tensors by name, without copying their data. Fails on an element type this crate cannot read.
    pub fn tensors(&self) -> Result<TensorMap, GgufError> {
        let mut tensors = TensorMap::default();
        for info in &self.tensors {
            let (Some(dtype), Some(n_bytes)) = (info.tensor_type.dtype(), info.n_bytes) else {
                let (field, tensor_type) = (Field::Tensor(info.name.to_string()), info.tensor_type);
                return Err(self.error(info, GgufErrorKind::UnsupportedType { field, tensor_type }));
            };
            let map = Arc::clone(&self.maps[info.part]);
            let bytes = TensorBytes::Mapped { map, range: info.offset..info.offset + n_bytes };
            tensors.insert(&info.name, Tensor { dtype, shape: info.shape, bytes });
        }
        Ok(tensors)
    }

    fn error(&self, info: &TensorInfo, kind: GgufErrorKind) -> GgufError {
        GgufError::new(&self.paths[info.part], kind)
    }
}
