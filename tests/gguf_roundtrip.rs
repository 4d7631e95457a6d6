//! What the writer writes, the reader reads back; and the reader agrees with files that other tools wrote.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::PathBuf;

use minfer::gguf::{Array, Gguf, GgufBuilder, Metadata, OpenOptions, StrArray, Value, WriteError};
use minfer::tensor::{DType, Shape};
use proptest::collection::vec;
use proptest::prelude::*;

fn strings() -> impl Strategy<Value = StrArray> {
    vec(vec(any::<u8>(), 0..6), 0..5).prop_map(StrArray::from_iter)
}

fn flat_array() -> impl Strategy<Value = Array> {
    prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Array::U8),
        vec(any::<i8>(), 0..5).prop_map(Array::I8),
        vec(any::<u16>(), 0..5).prop_map(Array::U16),
        vec(any::<i16>(), 0..5).prop_map(Array::I16),
        vec(any::<u32>(), 0..5).prop_map(Array::U32),
        vec(any::<i32>(), 0..5).prop_map(Array::I32),
        vec(any::<u64>(), 0..5).prop_map(Array::U64),
        vec(any::<i64>(), 0..5).prop_map(Array::I64),
        vec(proptest::num::f32::NORMAL, 0..5).prop_map(Array::F32),
        vec(proptest::num::f64::NORMAL, 0..5).prop_map(Array::F64),
        vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        strings().prop_map(Array::Str),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        proptest::num::f32::NORMAL.prop_map(Value::F32),
        proptest::num::f64::NORMAL.prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::Str),
        Just(Value::NonUtf8([0xff].into())),
        flat_array().prop_map(Value::Array),
        vec(flat_array(), 0..3).prop_map(|arrays| Value::Array(Array::Nested(arrays))),
    ]
}

/// A type, extents whose rows are whole blocks, and bytes to fill them.
fn tensor() -> impl Strategy<Value = (DType, Shape, Vec<u8>)> {
    let dtype = proptest::sample::select(DType::all().collect::<Vec<_>>());
    (dtype, 1..3usize, 1..4usize, 1..3usize, 1..3usize, any::<u8>()).prop_map(
        |(dtype, n0, n1, n2, n3, seed)| {
            let shape = Shape([n0 * dtype.block_elems(), n1, n2, n3]);
            let n_bytes = dtype.bytes_for(shape.n_elems()).unwrap();
            (dtype, shape, (0..n_bytes).map(|i| seed.wrapping_mul(31).wrapping_add(i as u8)).collect())
        },
    )
}

proptest! {
    #[test]
    fn a_written_model_reads_back_equal(
        values in vec(value(), 0..6),
        tensors in vec(tensor(), 0..5),
        alignment in proptest::option::of(proptest::sample::select(vec![8u32, 32, 64, 4096])),
    ) {
        let mut metadata = Metadata::default();
        if let Some(alignment) = alignment {
            metadata.insert("general.alignment", alignment);
        }
        for (i, value) in values.into_iter().enumerate() {
            metadata.insert(&format!("key.{i}"), value);
        }
        let mut builder = GgufBuilder::new(metadata.clone());
        for (i, (dtype, shape, bytes)) in tensors.iter().enumerate() {
            builder.tensor(&format!("tensor.{i}"), *dtype, *shape, &bytes[..]).unwrap();
        }
        let gguf = Gguf::from_bytes(&builder.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(gguf.metadata(), &metadata);
        prop_assert_eq!(gguf.tensor_infos().len(), tensors.len());
        let map = gguf.tensors().unwrap();
        for (i, (dtype, shape, bytes)) in tensors.iter().enumerate() {
            let read = map.get(&format!("tensor.{i}")).unwrap();
            prop_assert_eq!((read.dtype, read.shape), (*dtype, *shape));
            prop_assert_eq!(&*read.bytes, &bytes[..]);
            prop_assert_eq!(read.bytes.as_ptr() as usize % 4, 0);
        }
    }
}

fn tiny_models() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference/tiny");
    let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let models: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    assert!(models.len() >= 20, "{} models in {}", models.len(), directory.display());
    models
}

#[test]
fn files_of_other_tools_are_reproduced_byte_for_byte() {
    for path in tiny_models() {
        let gguf = Gguf::open(&path, &OpenOptions::default()).unwrap();
        let tensors = gguf.tensors().unwrap();
        let mut builder = GgufBuilder::new(gguf.metadata().clone());
        for info in gguf.tensor_infos() {
            let tensor = tensors.get(&info.name).unwrap();
            builder.tensor(&info.name, tensor.dtype, tensor.shape, &*tensor.bytes).unwrap();
        }
        assert!(builder.to_bytes().unwrap() == fs::read(&path).unwrap(), "{}", path.display());
    }
}

#[test]
fn typed_access_converts_what_fits_and_refuses_the_rest() {
    let mut metadata = Metadata::default();
    metadata.insert("small", 7u8);
    metadata.insert("negative", -1i32);
    metadata.insert("large", u64::from(u32::MAX) + 1);
    metadata.insert("flag", true);
    metadata.insert("text", "hi\nthere");
    metadata.insert("double", 0.5f64);
    metadata.insert("double.large", 1e300f64);
    metadata.insert("list", vec![1i32, 2, -3]);
    assert_eq!(metadata.u32("small"), Ok(Some(7)));
    assert_eq!(metadata.require_u64("large"), Ok(1 << 32));
    assert_eq!(metadata.f32("double"), Ok(Some(0.5)));
    assert_eq!(metadata.require_i64_array("list"), Ok(vec![1, 2, -3]));
    assert_eq!(metadata.u32("absent"), Ok(None));
    let message = |error: minfer::gguf::MetadataError| error.to_string();
    let number = "expected an integer from 0 to 4294967295";
    assert_eq!(
        message(metadata.u32("negative").unwrap_err()),
        format!("metadata key `negative`: {number}, got I32 -1")
    );
    assert_eq!(
        message(metadata.u32("large").unwrap_err()),
        format!("metadata key `large`: {number}, got U64 4294967296")
    );
    assert_eq!(
        message(metadata.u32("flag").unwrap_err()),
        format!("metadata key `flag`: {number}, got bool true")
    );
    assert_eq!(
        message(metadata.require_u32("absent").unwrap_err()),
        format!("metadata key `absent`: {number}, but the file has no such key")
    );
    assert_eq!(
        message(metadata.f32("text").unwrap_err()),
        r#"metadata key `text`: expected a float, got string "hi\nthere""#
    );
    assert!(metadata.f32("double.large").is_err());
    assert!(metadata.u32_array("list").is_err());
    assert_eq!(
        message(metadata.str_array("list").unwrap_err()),
        "metadata key `list`: expected an array of strings, got array of 3 I32s"
    );
}

#[test]
fn keys_keep_their_order_through_changes() {
    let mut metadata = Metadata::default();
    for key in ["a", "b", "c", "d"] {
        assert_eq!(metadata.insert(key, 1u8), None);
    }
    assert_eq!(metadata.insert("c", 2u8), Some(Value::U8(1)));
    assert_eq!(metadata.remove("b"), Some(Value::U8(1)));
    assert_eq!(metadata.remove("b"), None);
    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["a", "c", "d"]);
    assert_eq!(metadata.get("d"), Some(&Value::U8(1)));
    assert_eq!(metadata.get("c"), Some(&Value::U8(2)));
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut builder = GgufBuilder::default();
    let mut tensor = |name: &str, dtype, shape, n_bytes: usize| {
        builder.tensor(name, dtype, shape, vec![0; n_bytes]).map(|_| ())
    };
    assert!(matches!(
        tensor("t", DType::F32, Shape::d1(2), 7),
        Err(WriteError::TensorSize { expected: 8, .. })
    ));
    assert!(matches!(tensor("t", DType::Q4_0, Shape::d2(16, 2), 18), Err(WriteError::TensorShape { .. })));
    assert!(matches!(tensor("t", DType::F32, Shape::d2(4, 0), 0), Err(WriteError::TensorShape { .. })));
    assert!(matches!(tensor("", DType::F32, Shape::d1(1), 4), Err(WriteError::Name { .. })));
    assert!(matches!(tensor(&"x".repeat(65), DType::F32, Shape::d1(1), 4), Err(WriteError::Name { .. })));
    tensor("t", DType::F32, Shape::d1(1), 4).unwrap();
    assert!(matches!(tensor("t", DType::F32, Shape::d1(1), 4), Err(WriteError::DuplicateTensor(_))));
    builder.metadata_mut().insert("general.alignment", 12u32);
    assert!(matches!(builder.to_bytes(), Err(WriteError::Alignment(12))));
    builder.metadata_mut().insert("general.alignment", 16u32);
    builder.metadata_mut().insert("", 1u8);
    assert!(matches!(builder.to_bytes(), Err(WriteError::Name { .. })));
}

#[test]
fn writing_replaces_a_mapped_file_without_touching_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let write = |value: f32| {
        let mut builder = GgufBuilder::default();
        builder.tensor_f32("t", Shape::d1(1), &[value]).unwrap();
        builder.write_to(&path).unwrap();
    };
    write(1.0);
    let old = Gguf::open(&path, &OpenOptions::default()).unwrap();
    write(2.0);
    assert_eq!(old.tensors().unwrap().get("t").unwrap().bytes[..], 1.0f32.to_le_bytes());
    let new = Gguf::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(new.tensors().unwrap().get("t").unwrap().bytes[..], 2.0f32.to_le_bytes());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}
