//! A file in progress: bytes are hashed while they are written, and the final name is given only after the check.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::StoreError;
use super::names::{file_name, meta_path, part_path};
use crate::gguf::LooksLike;

/// What is known about a file before it is there.
#[derive(Clone, Default, Debug)]
pub(super) struct Expected {
    /// Size in bytes.
    pub(super) size_bytes: Option<u64>,
    /// Digest, 64 hexadecimal digits in lower case.
    pub(super) sha256: Option<String>,
}

/// Whether a text is a SHA-256 digest in hexadecimal digits.
#[cfg(feature = "hub")]
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is remembered beside the bytes in progress.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(super) struct PartMeta {
    /// Where the bytes came from.
    pub(super) url: Option<String>,
    /// The server's strong entity tag for them.
    pub(super) etag: Option<String>,
    /// Whole packages that are in, and where the last one ended.
    pub(super) packages_done: u32,
    /// Length of the file after the last whole package.
    pub(super) packages_bytes: u64,
}

/// A file in progress. Only one process at a time has it open; the store's lock file sees to that.
pub(super) struct Part {
    name: String,
    target: PathBuf,
    file: File,
    hasher: Sha256,
    head: Vec<u8>,
    len: u64,
    pub(super) meta: PartMeta,
}

impl Part {
    /// Opens the bytes in progress of `target`, creating folders and an empty file where there are none. Bytes of an
    /// earlier attempt stay and are hashed.
    pub(super) fn open(target: &Path, cancel: &AtomicBool) -> Result<Part, StoreError> {
        if let Some(dir) = target.parent() {
            std::fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        }
        let path = part_path(target);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let meta = std::fs::read(meta_path(target)).ok();
        let mut part = Part {
            name: file_name(target),
            target: target.to_path_buf(),
            file: file.map_err(StoreError::io("write", &path))?,
            hasher: Sha256::new(),
            head: Vec::new(),
            len: 0,
            meta: meta.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default(),
        };
        part.hash_existing(u64::MAX, cancel)?;
        // What a crash or another program left there is not worth keeping.
        if part.len > 0 && !part.head.starts_with(MAGIC) {
            part.restart(cancel)?;
        }
        Ok(part)
    }

    /// Bytes that are there.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Hashes what the file holds, up to `limit` bytes.
    fn hash_existing(&mut self, limit: u64, cancel: &AtomicBool) -> Result<(), StoreError> {
        let path = part_path(&self.target);
        self.hasher = Sha256::new();
        self.head.clear();
        self.len = 0;
        self.file.seek(SeekFrom::Start(0)).map_err(StoreError::io("read", &path))?;
        let mut buffer = vec![0; 1 << 18];
        while self.len < limit {
            if cancel.load(Ordering::Relaxed) {
                return Err(StoreError::Cancelled);
            }
            let n_wanted = usize::try_from(limit - self.len).unwrap_or(usize::MAX).min(buffer.len());
            let n_read = self.file.read(&mut buffer[..n_wanted]).map_err(StoreError::io("read", &path))?;
            if n_read == 0 {
                break;
            }
            self.take_in(&buffer[..n_read]);
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8]) {
        let n_missing = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..n_missing]);
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// Throws away everything after the first `len` bytes.
    pub(super) fn truncate(&mut self, len: u64, cancel: &AtomicBool) -> Result<(), StoreError> {
        let path = part_path(&self.target);
        if len < self.len {
            self.file.set_len(len).map_err(StoreError::io("write", &path))?;
            self.hash_existing(len, cancel)?;
        }
        self.file.seek(SeekFrom::Start(self.len)).map_err(StoreError::io("write", &path))?;
        Ok(())
    }

    /// Starts again from nothing.
    pub(super) fn restart(&mut self, cancel: &AtomicBool) -> Result<(), StoreError> {
        self.meta = PartMeta::default();
        self.truncate(0, cancel)
    }

    /// Appends bytes. Refuses at once what is no GGUF file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let path = part_path(&self.target);
        self.take_in(bytes);
        if self.head.len() >= MAGIC.len() && !self.head.starts_with(MAGIC) {
            return Err(self.refuse_content());
        }
        self.file.write_all(bytes).map_err(StoreError::io("write", &path))
    }

    /// The error for bytes that are no model; nothing of them stays.
    pub(super) fn refuse_content(&self) -> StoreError {
        let found = LooksLike::guess(&self.head);
        self.discard();
        StoreError::NotGguf { name: self.name.clone(), found }
    }

    /// Writes down what is known about the bytes.
    pub(super) fn save_meta(&self) -> Result<(), StoreError> {
        let path = meta_path(&self.target);
        let text = serde_json::to_vec(&self.meta).unwrap_or_default();
        std::fs::write(&path, text).map_err(StoreError::io("write", &path))
    }

    /// Checks size, digest and magic, and gives the file its final name.
    pub(super) fn commit(mut self, expected: &Expected) -> Result<PathBuf, StoreError> {
        if !self.head.starts_with(MAGIC) {
            return Err(self.refuse_content());
        }
        if let Some(size) = expected.size_bytes.filter(|size| *size != self.len) {
            return Err(self.mismatch("size", format!("{size} bytes"), format!("{} bytes", self.len)));
        }
        let digest = hex(&std::mem::take(&mut self.hasher).finalize());
        if let Some(sha256) = expected.sha256.as_ref().filter(|sha256| **sha256 != digest) {
            return Err(self.mismatch("sha256", sha256.clone(), digest));
        }
        let path = part_path(&self.target);
        self.file.sync_all().map_err(StoreError::io("write", &path))?;
        drop(self.file);
        std::fs::rename(&path, &self.target).map_err(StoreError::io("rename", &path))?;
        let _ = std::fs::remove_file(meta_path(&self.target));
        Ok(self.target)
    }

    fn mismatch(&self, what: &'static str, expected: String, got: String) -> StoreError {
        self.discard();
        StoreError::Mismatch { name: self.name.clone(), what, expected, got }
    }

    /// Removes the bytes in progress. Failing to do so is no reason to hide the error that led here.
    pub(super) fn discard(&self) {
        let _ = self.file.set_len(0);
        let _ = std::fs::remove_file(part_path(&self.target));
        let _ = std::fs::remove_file(meta_path(&self.target));
    }
}

const MAGIC: &[u8] = b"GGUF";
const HEAD_BYTES: usize = 64;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn bytes_of_an_earlier_attempt_count_for_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/m.gguf");
        let mut first = Part::open(&target, &GO).unwrap();
        first.write(b"GGUFab").unwrap();
        drop(first);
        let mut second = Part::open(&target, &GO).unwrap();
        assert_eq!(second.len(), 6);
        second.write(b"c").unwrap();
        let sha256 = Some(hex(&Sha256::digest(b"GGUFabc")));
        second.commit(&Expected { size_bytes: Some(7), sha256 }).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"GGUFabc");
        assert_eq!(std::fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn truncation_forgets_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m.gguf");
        let mut part = Part::open(&target, &GO).unwrap();
        part.write(b"GGUFabcdef").unwrap();
        part.truncate(6, &GO).unwrap();
        part.write(b"X").unwrap();
        part.commit(&Expected { sha256: Some(hex(&Sha256::digest(b"GGUFabX"))), ..Expected::default() })
            .unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"GGUFabX");
    }

    #[test]
    fn a_wrong_digest_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m.gguf");
        let mut part = Part::open(&target, &GO).unwrap();
        part.write(b"GGUF").unwrap();
        let error =
            part.commit(&Expected { sha256: Some("0".repeat(64)), ..Expected::default() }).unwrap_err();
        assert!(matches!(error, StoreError::Mismatch { what: "sha256", .. }), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_model_is_named() {
        for (bytes, found) in [
            (&b"<!DOCTYPE html>"[..], "an HTML page"),
            (b"version https://git-lfs.github.com/spec/v1", "a git-lfs pointer"),
            (b"{\"error\":1}", "JSON"),
            (b"\x00\x01\x02\x03", "expected it to start with \"GGUF\""),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let error = Part::open(&dir.path().join("m.gguf"), &GO).unwrap().write(bytes).unwrap_err();
            assert!(error.to_string().contains(found), "{error}");
        }
    }
}
