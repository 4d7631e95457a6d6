//! Models split over several files.
//!
//! Part `i` of `n` is named `PREFIX-0000i-of-0000n.gguf`, counted from 1. Inside, `split.no` counts from 0,
//! `split.count` is `n` and `split.tensors.count` is the number of tensors of all parts. Only the first part
//! has the model's metadata.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{GgufErrorKind, Metadata};

/// What a part says about itself.
#[derive(Clone, Copy)]
pub(super) struct PartKeys {
    /// Counted from 1.
    no: u64,
    count: u64,
    /// Tensors in all parts together.
    n_tensors: Option<u64>,
}

impl PartKeys {
    /// The keys, or `None` if the file does not call itself a part.
    pub(super) fn read(metadata: &Metadata) -> Result<Option<PartKeys>, GgufErrorKind> {
        let Some(count) = metadata.u64("split.count")? else { return Ok(None) };
        let no = metadata.u64("split.no")?.unwrap_or(0);
        if no >= count {
            return Err(GgufErrorKind::PartNumber { no, count });
        }
        Ok(Some(PartKeys { no: no + 1, count, n_tensors: metadata.u64("split.tensors.count")? }))
    }
}

/// What a part's name says. Prints as that name.
#[derive(Clone, Copy)]
pub(crate) struct PartName<'a> {
    /// What stands before the numbers.
    pub(crate) prefix: &'a str,
    /// Counted from 1.
    pub(crate) no: u64,
    pub(crate) count: u64,
}

impl<'a> PartName<'a> {
    /// Reads a name such as `PREFIX-00002-of-00004.gguf`; the prefix may contain folders.
    pub(crate) fn parse(name: &'a str) -> Option<PartName<'a>> {
        let stem = name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, no) = rest.rsplit_once('-')?;
        let number = |digits: &str| -> Option<u64> {
            let plain = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
            if plain { digits.parse().ok() } else { None }
        };
        let (no, count) = (number(no)?, number(count)?);
        (1..=count).contains(&no).then_some(PartName { prefix, no, count })
    }

    /// All parts of the set in order.
    pub(crate) fn all(self) -> impl Iterator<Item = PartName<'a>> {
        (1..=self.count).map(move |no| PartName { no, ..self })
    }

    fn of_file(path: &'a Path) -> Option<PartName<'a>> {
        PartName::parse(path.file_name()?.to_str()?)
    }
}

impl fmt::Display for PartName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartName { prefix, no, count } = self;
        write!(f, "{prefix}-{no:05}-of-{count:05}.gguf")
    }
}

/// The files of the set that `path` belongs to, in order, and which of them `path` is. A file that is not
/// split is a set of one.
pub(super) fn resolve(path: &Path, keys: Option<PartKeys>) -> Result<(Vec<PathBuf>, usize), GgufErrorKind> {
    let alone = || Ok((vec![path.to_owned()], 0));
    let (name, keys) = match (PartName::of_file(path), keys) {
        (None, None | Some(PartKeys { count: 1, .. })) => return alone(),
        (None, Some(keys)) => return Err(unnamed(path, keys)),
        (Some(name), None) if name.count == 1 => return alone(),
        (Some(name), None) => return Err(GgufErrorKind::PartWithoutKeys { named_count: name.count }),
        (Some(name), Some(keys)) => (name, keys),
    };
    check_name(&name, &keys)?;
    let paths: Vec<PathBuf> = name.all().map(|part| path.with_file_name(part.to_string())).collect();
    for (no, path) in (1..).zip(&paths) {
        if !path.exists() {
            return Err(GgufErrorKind::PartMissing { no, count: name.count, path: path.clone() });
        }
    }
    Ok((paths, (name.no - 1) as usize))
}

/// Checks that the file at `path`, one of those that [`resolve`] named, is the part its name says.
pub(super) fn check_sibling(path: &Path, keys: Option<PartKeys>) -> Result<(), GgufErrorKind> {
    match (PartName::of_file(path), keys) {
        (Some(name), Some(keys)) => check_name(&name, &keys),
        (Some(name), None) => Err(GgufErrorKind::PartWithoutKeys { named_count: name.count }),
        (None, _) => Ok(()),
    }
}

/// Checks the number of tensors in all parts against the first part's key.
pub(super) fn check_tensor_count(keys: Option<PartKeys>, got: u64) -> Result<(), GgufErrorKind> {
    match keys.and_then(|keys| keys.n_tensors) {
        Some(expected) if expected != got => Err(GgufErrorKind::PartTensorCount { expected, got }),
        _ => Ok(()),
    }
}

fn check_name(name: &PartName, keys: &PartKeys) -> Result<(), GgufErrorKind> {
    if (name.no, name.count) == (keys.no, keys.count) {
        return Ok(());
    }
    let (named_no, named_count) = (name.no, name.count);
    Err(GgufErrorKind::PartMismatch { named_no, named_count, no: keys.no, count: keys.count })
}

fn unnamed(path: &Path, keys: PartKeys) -> GgufErrorKind {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let other = if keys.no == 1 { 2 } else { 1 };
    let missing = PartName { prefix: &stem, no: other, count: keys.count }.to_string();
    GgufErrorKind::PartUnnamed { no: keys.no, count: keys.count, missing }
}
