//! One file over HTTP: resumed where an earlier attempt ended, retried when the connection breaks, checked at the end.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ureq::http::StatusCode;

use super::error::StoreError;
use super::http::{Answer, Client};
use super::names::file_name;
use super::part::{Expected, Part};
use super::progress::Progress;
use crate::gguf::LooksLike;

/// Attempts in a row that bring no byte before giving up.
const MAX_FRUITLESS: u32 = 4;
/// Attempts altogether, against servers that hang up after every few bytes.
const MAX_ATTEMPTS: u32 = 50;

/// A download to make.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) url: &'a str,
    pub(super) target: &'a Path,
    pub(super) expected: Expected,
    pub(super) cancel: &'a AtomicBool,
    pub(super) progress: &'a dyn Progress,
    /// True once the watchers have been told that the file starts.
    pub(super) begun: bool,
}

/// Why one attempt ended early.
enum Trouble {
    /// Another attempt may go on from where this one ended.
    Broken(String),
    /// The bytes on disk do not belong to what the server has now.
    Stale,
    /// Trying again is no use.
    Fatal(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Fatal(error)
    }
}

impl Download<'_> {
    /// Runs it and returns the path of the complete file.
    pub(super) fn run(mut self) -> Result<PathBuf, StoreError> {
        let mut part = Part::open(self.target, self.cancel)?;
        let resumed = part.len() > 0;
        let filled = self.fill(&mut part);
        self.progress.end();
        if filled.is_err() && part.len() == 0 {
            part.discard();
        }
        filled?;
        match part.commit(&self.expected) {
            // An earlier attempt may have left bytes of another file; only fresh ones can be blamed on the server.
            Err(StoreError::Mismatch { .. } | StoreError::NotGguf { .. }) if resumed => {
                let mut part = Part::open(self.target, self.cancel)?;
                self.fill(&mut part)?;
                part.commit(&self.expected)
            }
            outcome => outcome,
        }
    }

    fn name(&self) -> String {
        file_name(self.target)
    }

    /// Makes attempts until the file is whole.
    fn fill(&mut self, part: &mut Part) -> Result<(), StoreError> {
        let mut n_fruitless = 0;
        for attempt in 1.. {
            let before = part.len();
            let reason = match self.attempt(part) {
                Ok(()) => return Ok(()),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Stale) => {
                    part.restart(self.cancel)?;
                    "the file changed on the server".to_string()
                }
                Err(Trouble::Broken(reason)) => reason,
            };
            n_fruitless = if part.len() > before { 0 } else { n_fruitless + 1 };
            if n_fruitless >= MAX_FRUITLESS || attempt >= MAX_ATTEMPTS {
                let (url, total) = (self.url.to_string(), self.expected.size_bytes);
                return Err(StoreError::BrokeOff { url, done: part.len(), total, reason });
            }
            self.pause(Duration::from_millis(200 << n_fruitless))?;
        }
        Ok(())
    }

    fn pause(&self, time: Duration) -> Result<(), StoreError> {
        let slice = Duration::from_millis(50);
        for _ in 0..time.as_millis() / slice.as_millis() {
            self.check_cancel()?;
            std::thread::sleep(slice);
        }
        Ok(())
    }

    fn check_cancel(&self) -> Result<(), StoreError> {
        if self.cancel.load(Ordering::Relaxed) { Err(StoreError::Cancelled) } else { Ok(()) }
    }

    fn attempt(&mut self, part: &mut Part) -> Result<(), Trouble> {
        self.check_cancel()?;
        if part.len() > 0 && self.expected.size_bytes == Some(part.len()) {
            return Ok(());
        }
        let same_url = part.meta.url.as_deref() == Some(self.url);
        // Without a digest only the entity tag says that the rest belongs to what is here.
        let etag = part.meta.etag.clone().filter(|_| same_url);
        if part.len() > 0 && etag.is_none() && self.expected.sha256.is_none() {
            part.restart(self.cancel)?;
        }
        let range = format!("bytes={}-", part.len());
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if part.len() > 0 {
            headers.push(("Range", &range));
            headers.extend(etag.as_deref().map(|etag| ("If-Range", etag)));
        }
        let answer = match self.client.get(self.url, &headers) {
            // A host that answered before may only be away for a moment.
            Err(StoreError::Unreachable { reason, .. }) if part.meta.url.is_some() && same_url => {
                return Err(Trouble::Broken(reason));
            }
            other => other?,
        };
        self.learn(&answer)?;
        if !self.place(&answer, part)? {
            return Ok(());
        }
        self.receive(answer, part)
    }

    /// Takes over what the answer says about the whole file, and refuses a file that is not the promised one.
    fn learn(&mut self, answer: &Answer) -> Result<(), Trouble> {
        match (&self.expected.sha256, &answer.linked_sha256) {
            (Some(expected), Some(got)) if expected != got => {
                let (expected, got) = (expected.clone(), got.clone());
                return Err(StoreError::Mismatch { name: self.name(), what: "sha256", expected, got }.into());
            }
            (None, Some(_)) => self.expected.sha256 = answer.linked_sha256.clone(),
            _ => {}
        }
        self.expected.size_bytes = self.expected.size_bytes.or(answer.linked_size);
        Ok(())
    }

    /// Brings the bytes on disk in line with where the body starts. `false` if the file is whole already.
    fn place(&mut self, answer: &Answer, part: &mut Part) -> Result<bool, Trouble> {
        let range = header(answer, "content-range").and_then(parse_content_range);
        let total = match (answer.status, range) {
            (StatusCode::OK, _) => {
                self.refuse_page(answer)?;
                part.restart(self.cancel)?;
                header(answer, "content-length").and_then(|length| length.parse().ok())
            }
            (StatusCode::PARTIAL_CONTENT, Some((Some(start), total))) if start == part.len() => total,
            (StatusCode::RANGE_NOT_SATISFIABLE, Some((None, Some(total)))) if total == part.len() => {
                return Ok(false);
            }
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, _) => {
                return Err(Trouble::Stale);
            }
            (status, _) => return Err(self.refuse_status(status)),
        };
        if let (Some(expected), Some(got)) = (self.expected.size_bytes, total)
            && expected != got
        {
            let what = format!("wrong size: expected {expected} bytes, got {got}");
            return Err(StoreError::Protocol { url: self.url.to_string(), what }.into());
        }
        self.expected.size_bytes = self.expected.size_bytes.or(total);
        part.truncate(part.len(), self.cancel)?;
        self.remember(answer, part)?;
        Ok(true)
    }

    /// A server that has no such file often sends a page that says so.
    fn refuse_page(&self, answer: &Answer) -> Result<(), StoreError> {
        match header(answer, "content-type").is_some_and(|kind| kind.starts_with("text/html")) {
            true => Err(StoreError::NotGguf { name: self.name(), found: LooksLike::HtmlPage }),
            false => Ok(()),
        }
    }

    fn refuse_status(&self, status: StatusCode) -> Trouble {
        match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            true => Trouble::Broken(format!("the server answered with status {}", status.as_u16())),
            false => StoreError::Status { url: self.url.to_string(), status: status.as_u16() }.into(),
        }
    }

    /// Writes down what the bytes belong to, and tells the watchers that they come.
    fn remember(&mut self, answer: &Answer, part: &mut Part) -> Result<(), StoreError> {
        if !self.begun {
            self.progress.begin(&self.name(), part.len(), self.expected.size_bytes);
            self.begun = true;
        }
        part.meta.url = Some(self.url.to_string());
        let strong = |etag: &&str| !etag.starts_with("W/");
        part.meta.etag = header(answer, "etag").filter(strong).map(str::to_string);
        part.save_meta()
    }

    /// Reads the body to its end.
    fn receive(&self, mut answer: Answer, part: &mut Part) -> Result<(), Trouble> {
        let mut body = answer.body.as_reader();
        let mut buffer = vec![0; 1 << 17];
        loop {
            self.check_cancel()?;
            let n_read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) => return Err(Trouble::Broken(error.to_string())),
            };
            part.write(&buffer[..n_read])?;
            self.progress.at(part.len());
        }
        match self.expected.size_bytes {
            Some(total) if part.len() < total => {
                Err(Trouble::Broken("the connection closed early".to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reads `bytes 5-9/10` and `bytes */10` as start and total.
fn parse_content_range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes")?.trim_start().split_once('/')?;
    let start = match range {
        "*" => None,
        range => Some(range.split_once('-')?.0.parse().ok()?),
    };
    Some((start, total.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((Some(5), Some(10))));
        assert_eq!(parse_content_range("bytes 5-9/*"), Some((Some(5), None)));
        assert_eq!(parse_content_range("bytes */10"), Some((None, Some(10))));
        assert_eq!(parse_content_range("items 1-2/3"), None);
    }
}
