//! The two small models that some tests need, fetched with our own binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process::{cargo, run, target_folder};

/// A model the tests know: what to pull, the name the tests look for, and the size of the very file they were made
/// with.
struct TestModel {
    reference: &'static str,
    file_name: &'static str,
    size_bytes: u64,
}

const TEST_MODELS: [TestModel; 2] = [
    TestModel { reference: "smollm2:135m", file_name: "smollm2-135m.gguf", size_bytes: 98_362_432 },
    TestModel {
        reference: "qwen2.5-coder:0.5b",
        file_name: "qwen2.5-coder-0.5b.gguf",
        size_bytes: 491_400_064,
    },
];

/// The folder with both models under the names that tests use. `MINFER_TEST_MODELS` may name one that has them.
pub(crate) fn fetch(root: &Path) -> Result<PathBuf, Error> {
    if let Some(given) = std::env::var_os("MINFER_TEST_MODELS").map(PathBuf::from)
        && TEST_MODELS.iter().all(|model| has_size(&given.join(model.file_name), model.size_bytes))
    {
        return Ok(given);
    }
    let folder = target_folder(root).join("test-models");
    let store = folder.join("store");
    fs::create_dir_all(&store).map_err(Error::file(&store))?;
    for model in &TEST_MODELS {
        let named = folder.join(model.file_name);
        if !has_size(&named, model.size_bytes) {
            let stored = pull(root, &store, model)?;
            let _stale = fs::remove_file(&named);
            fs::hard_link(&stored, &named).map_err(Error::file(&named))?;
        }
    }
    Ok(folder)
}

/// Downloads `model` into `store` and finds the file there. This is all that xtask knows about the program's commands.
fn pull(root: &Path, store: &Path, model: &TestModel) -> Result<PathBuf, Error> {
    run(&mut cargo(root, "build --release --package minfer --bin minfer"))?;
    let program = target_folder(root).join("release").join(format!("minfer{}", std::env::consts::EXE_SUFFIX));
    run(Command::new(program).args(["pull", model.reference]).env("MINFER_MODELS", store))?;
    find_by_size(store, model.size_bytes)?.ok_or_else(|| Error::ModelMissing {
        reference: model.reference,
        size_bytes: model.size_bytes,
        store: store.to_path_buf(),
    })
}

/// The first file of exactly this size below `folder`: how the store names its files is its own business.
fn find_by_size(folder: &Path, size_bytes: u64) -> Result<Option<PathBuf>, Error> {
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        let found = if path.is_dir() {
            find_by_size(&path, size_bytes)?
        } else {
            has_size(&path, size_bytes).then_some(path)
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn has_size(path: &Path, size_bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() == size_bytes)
}
