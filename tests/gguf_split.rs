//! Models in several files: any part opens the whole set, and whatever is wrong with the set is named.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

use minfer::gguf::{Gguf, GgufBuilder, GgufError, Metadata, OpenOptions};
use minfer::tensor::Shape;
use tempfile::TempDir;

/// A part with one tensor of one element.
fn part(no: u16, count: u16, n_tensors: i32, tensor: &str) -> GgufBuilder<'static> {
    let mut metadata = Metadata::default();
    if no == 0 {
        metadata.insert("general.architecture", "llama");
    }
    metadata.insert("split.no", no);
    metadata.insert("split.count", count);
    metadata.insert("split.tensors.count", n_tensors);
    let mut builder = GgufBuilder::new(metadata);
    builder.tensor_f32(tensor, Shape::d1(1), &[f32::from(no)]).unwrap();
    builder
}

fn name(no: u16, count: u16) -> String {
    format!("model-{no:05}-of-{count:05}.gguf")
}

/// A directory with a set of three parts.
fn set_of_three() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (no, tensor) in ["a", "b", "c"].into_iter().enumerate() {
        let no = no as u16;
        part(no, 3, 3, tensor).write_to(&directory.path().join(name(no + 1, 3))).unwrap();
    }
    directory
}

fn open(path: &Path) -> Result<Gguf, GgufError> {
    Gguf::open(path, &OpenOptions::default())
}

fn refusal(path: PathBuf) -> String {
    open(&path).expect_err("the set is broken").to_string()
}

#[test]
fn any_part_opens_the_whole_set() {
    let directory = set_of_three();
    for no in 1..=3 {
        let gguf = open(&directory.path().join(name(no, 3))).unwrap();
        assert_eq!(gguf.metadata().str("general.architecture"), Ok(Some("llama")));
        let names: Vec<&str> = gguf.tensor_infos().iter().map(|info| &*info.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let tensors = gguf.tensors().unwrap();
        assert_eq!(tensors.get("c").unwrap().bytes[..], 2.0f32.to_le_bytes());
        let sizes = gguf.paths().iter().map(|path| fs::metadata(path).unwrap().len());
        assert_eq!(gguf.file_bytes(), sizes.sum::<u64>());
    }
}

#[test]
fn a_missing_part_is_named() {
    let directory = set_of_three();
    fs::remove_file(directory.path().join(name(2, 3))).unwrap();
    for no in [1, 3] {
        let message = refusal(directory.path().join(name(no, 3)));
        assert!(message.contains("part 2 of 3 is missing") && message.ends_with(&name(2, 3)), "{message}");
    }
}

#[test]
fn swapped_parts_are_noticed() {
    let directory = set_of_three();
    let path = |no| directory.path().join(name(no, 3));
    fs::rename(path(2), directory.path().join("kept")).unwrap();
    fs::rename(path(3), path(2)).unwrap();
    fs::rename(directory.path().join("kept"), path(3)).unwrap();
    let message = refusal(path(1));
    assert!(
        message.contains("-00002-of-00003.gguf: split.no, split.count: expected part 2 of 3"),
        "{message}"
    );
    assert!(message.contains("got part 3 of 3"), "{message}");
}

#[test]
fn a_renamed_part_says_which_part_it_is() {
    let directory = set_of_three();
    let renamed = directory.path().join("renamed.gguf");
    fs::rename(directory.path().join(name(2, 3)), &renamed).unwrap();
    let message = refusal(renamed);
    assert!(message.contains("the file is part 2 of 3"), "{message}");
    assert!(message.contains("such as renamed-00001-of-00003.gguf"), "{message}");
}

#[test]
fn the_number_of_tensors_in_all_parts_is_checked() {
    let directory = set_of_three();
    part(0, 3, 22, "a").write_to(&directory.path().join(name(1, 3))).unwrap();
    let message = refusal(directory.path().join(name(1, 3)));
    assert!(
        message.contains("split.tensors.count: expected 22 tensors in all parts together, got 3"),
        "{message}"
    );
}

#[test]
fn a_tensor_in_two_parts_is_refused() {
    let directory = set_of_three();
    part(2, 3, 3, "a").write_to(&directory.path().join(name(3, 3))).unwrap();
    let message = refusal(directory.path().join(name(1, 3)));
    assert!(message.contains("-00003-of-00003.gguf: tensor `a`: expected the name once"), "{message}");
}

#[test]
fn a_part_of_another_set_is_refused() {
    let directory = set_of_three();
    part(1, 2, 3, "b").write_to(&directory.path().join(name(2, 3))).unwrap();
    let message = refusal(directory.path().join(name(1, 3)));
    assert!(message.contains("expected part 2 of 3 by its name, got part 2 of 2"), "{message}");
}

#[test]
fn a_part_number_beyond_the_count_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (no, count) in [(3, 3), (0, 0)] {
        let path = directory.path().join("model.gguf");
        part(no, count, 1, "a").write_to(&path).unwrap();
        let message = refusal(path);
        assert!(message.contains("expected split.no below split.count"), "{message}");
    }
}

#[test]
fn a_name_without_keys_is_no_set() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name(1, 2));
    GgufBuilder::new(Metadata::default()).write_to(&path).unwrap();
    let message = refusal(path);
    assert!(message.contains("split.count: expected 2 parts by the file's name"), "{message}");
}

#[test]
fn a_single_part_loads_with_and_without_keys() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name(1, 1));
    GgufBuilder::new(Metadata::default()).write_to(&path).unwrap();
    open(&path).unwrap();
    part(0, 1, 1, "a").write_to(&path).unwrap();
    assert_eq!(open(&path).unwrap().tensor_infos().len(), 1);
    let renamed = directory.path().join("renamed.gguf");
    fs::rename(&path, &renamed).unwrap();
    open(&renamed).unwrap();
}
