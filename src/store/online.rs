//! What a [`Puller`] fetches over HTTP.

use std::path::{Path, PathBuf};

use super::download::Download;
use super::error::StoreError;
use super::names::relative_path;
use super::part::Expected;
use super::pull::{PullOptions, Puller};
use super::quants::{all_parts, choose, file_sets};
use super::reference::{HubPick, ModelRef};
use super::{hub, ollama};

/// One file to download.
struct Job {
    url: String,
    relative: PathBuf,
    expected: Expected,
}

impl Puller<'_> {
    pub(super) fn pull_http(&self, reference: &ModelRef) -> Result<PathBuf, StoreError> {
        let jobs = self.locate(reference)?;
        let paths: Vec<PathBuf> = jobs.into_iter().map(|job| self.run_job(job)).collect::<Result<_, _>>()?;
        paths
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::NoMatch { name: reference.to_string(), choices: vec![] })
    }

    pub(super) fn pull_hub_file(
        &self,
        repo: &str,
        file: &str,
        relative: &Path,
        expected: Expected,
    ) -> Result<PathBuf, StoreError> {
        let url = hub::file_url(&self.options.endpoints.hub, repo, file);
        self.run_job(Job { url, relative: relative.to_path_buf(), expected })
    }

    /// The files that make the model, in order.
    fn locate(&self, reference: &ModelRef) -> Result<Vec<Job>, StoreError> {
        let endpoints = &self.options.endpoints;
        let one = |url: String, expected: Expected| {
            let relative = relative_path(reference).unwrap_or_default();
            vec![Job { url, relative, expected }]
        };
        match reference {
            ModelRef::Url(url) => Ok(one(url.clone(), Expected::default())),
            ModelRef::Ollama { name, tag } => {
                let (url, expected) = ollama::locate(&self.client, &endpoints.ollama, name, tag)?;
                Ok(one(url, expected))
            }
            ModelRef::Hub { repo, pick: HubPick::File(file) } => {
                Ok(all_parts(file).iter().map(|file| self.hub_job(repo, file, Expected::default())).collect())
            }
            ModelRef::Hub { repo, pick } => {
                let files = hub::list_files(&self.client, &endpoints.hub, repo)?;
                let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
                let set = choose(repo, pick, &file_sets(&paths))?;
                let expected_of = |path: &String| {
                    let file = files.iter().find(|file| file.path == *path);
                    file.map(|file| file.expected.clone()).unwrap_or_default()
                };
                Ok(set.files.iter().map(|path| self.hub_job(repo, path, expected_of(path))).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn hub_job(&self, repo: &str, file: &str, expected: Expected) -> Job {
        let reference = ModelRef::Hub { repo: repo.to_string(), pick: HubPick::File(file.to_string()) };
        let url = hub::file_url(&self.options.endpoints.hub, repo, file);
        Job { url, relative: relative_path(&reference).unwrap_or_default(), expected }
    }

    fn run_job(&self, job: Job) -> Result<PathBuf, StoreError> {
        let target = self.store.dir().join(&job.relative);
        if target.is_file() {
            return Ok(target);
        }
        let Some(_lock) = self.lock(&job.relative, &target)? else { return Ok(target) };
        let PullOptions { cancel, progress, .. } = self.options;
        let Job { url, expected, .. } = job;
        let (client, begun) = (&self.client, false);
        Download { client, url: &url, target: &target, expected, cancel, progress, begun }.run()
    }
}
