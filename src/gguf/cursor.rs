//! A reading position in the bytes of a file. Nothing is read, and no count believed, beyond the bytes that
//! are left.

use super::{Field, GgufErrorKind};

pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    n_bytes: usize,
    /// What is being read, for errors.
    pub(super) field: Field,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, n_bytes: bytes.len(), field: Field::Header }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.n_bytes - self.rest.len()
    }

    pub(super) fn take(&mut self, n: u64) -> Result<&'a [u8], GgufErrorKind> {
        let parts = usize::try_from(n).ok().and_then(|n| self.rest.split_at_checked(n));
        let (head, rest) = parts.ok_or_else(|| self.unexpected_end(n))?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufErrorKind> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.unexpected_end(N as u64));
        };
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufErrorKind> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufErrorKind> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string: its length, then its bytes.
    pub(super) fn string(&mut self) -> Result<&'a [u8], GgufErrorKind> {
        let n_bytes = self.u64()?;
        self.take(n_bytes)
    }

    /// Checks that `count` items of at least `min_bytes` bytes each can be left in the file.
    pub(super) fn bounded(
        &self,
        count: u64,
        min_bytes: usize,
        what: &'static str,
    ) -> Result<usize, GgufErrorKind> {
        let left = self.rest.len();
        let fits = usize::try_from(count).ok().filter(|&count| count <= left / min_bytes);
        fits.ok_or_else(|| GgufErrorKind::Count { field: self.field.clone(), what, count, left })
    }

    /// A name: a string of 1 to `limit` bytes of UTF-8.
    pub(super) fn name(&mut self, limit: usize) -> Result<&'a str, GgufErrorKind> {
        let bytes = self.string()?;
        let name_error = |got| GgufErrorKind::Name { field: self.field.clone(), limit, got };
        if bytes.is_empty() || bytes.len() > limit {
            return Err(name_error(format!("{} bytes", bytes.len())));
        }
        let bad_text = |_| name_error(format!("\"{}\"", bytes[..bytes.len().min(64)].escape_ascii()));
        std::str::from_utf8(bytes).map_err(bad_text)
    }

    fn unexpected_end(&self, needed: u64) -> GgufErrorKind {
        GgufErrorKind::UnexpectedEnd { field: self.field.clone(), needed, left: self.rest.len() }
    }
}
