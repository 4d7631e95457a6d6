//! Files that lie: each is refused with one line that names the field, quickly and in little memory.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "support/raw_gguf.rs"]
mod raw_gguf;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use minfer::error::Hint;
use minfer::gguf::{Gguf, GgufError, GgufErrorKind, OpenOptions};
use proptest::prelude::*;
use raw_gguf::{ARRAY, BOOL, RawGguf, RawTensor, STR, U8, U32, U64, array_head};

/// Opens the file and asks for its tensors, as a model load does.
fn load(bytes: &[u8]) -> Result<Gguf, GgufError> {
    let gguf = Gguf::from_bytes(bytes)?;
    gguf.tensors()?;
    Ok(gguf)
}

fn header(n_tensors: u64, n_keys: u64) -> Vec<u8> {
    [&b"GGUF\x03\0\0\0"[..], &n_tensors.to_le_bytes(), &n_keys.to_le_bytes()].concat()
}

/// A valid file with one lie about tensor `b`.
fn b(change: impl FnOnce(&mut RawTensor)) -> Vec<u8> {
    RawGguf::valid().b(change).bytes()
}

/// A valid file with one more key `x`.
fn x(value_type: u32, value: &[u8]) -> Vec<u8> {
    RawGguf::valid().key(b"x", value_type, value).bytes()
}

fn aligned(alignment: u32) -> Vec<u8> {
    RawGguf::valid().aligned(U32, &alignment.to_le_bytes(), 32).bytes()
}

type Case = (&'static str, Vec<u8>, &'static str);

/// Name, file, and what the message has to say.
fn header_cases() -> Vec<Case> {
    let valid = RawGguf::valid();
    let version = |version| RawGguf { version, ..valid.clone() }.bytes();
    vec![
        ("empty", vec![], "it is empty"),
        ("magic only", b"GGUF".to_vec(), "header: expected 4 more bytes"),
        ("header one byte short", valid.bytes()[..23].to_vec(), "header: expected 8 more bytes, but only 7"),
        ("old magic", RawGguf { magic: *b"GGML", ..valid.clone() }.bytes(), "it looks like a GGML file"),
        ("html", b"<!DOCTYPE html><html>404</html>".to_vec(), "it looks like an HTML page"),
        (
            "lfs",
            b"version https://git-lfs.github.com/spec/v1\noid".to_vec(),
            "it looks like a git-lfs pointer",
        ),
        ("other", b"abcd".to_vec(), "expected it to start with \"GGUF\", got \"abcd\""),
        ("version 0", version(0), "version: expected 2 or 3, got 0"),
        ("version 1", version(1), "version: expected 2 or 3, got 1"),
        ("version 99", version(99), "version: expected 2 or 3, got 99"),
        ("big-endian", version(3u32.swap_bytes()), "big-endian file"),
        (
            "2^64-1 keys",
            header(0, u64::MAX),
            "18446744073709551615 metadata entries cannot fit in the 0 bytes",
        ),
        ("5e8 keys", header(0, 500_000_000), "500000000 metadata entries cannot fit"),
        ("2^64-1 tensors", header(u64::MAX, 0), "18446744073709551615 tensors cannot fit in the 0 bytes"),
        ("2^62 tensors", header(1 << 62, 0), "4611686018427387904 tensors cannot fit"),
        ("one key too many", RawGguf { n_keys: Some(4), ..valid.clone() }.bytes(), "name of tensor 0"),
    ]
}

fn key_cases() -> Vec<Case> {
    let key_length = |length: u64| [header(0, 1), length.to_le_bytes().to_vec(), vec![0; 8]].concat();
    let nested = [array_head(ARRAY, 1).repeat(10_000), array_head(U8, 0)].concat();
    let key = |name: &[u8]| RawGguf::valid().key(name, U32, &[1, 0, 0, 0]).bytes();
    let array = |element_type, n, rest: &[u8]| x(ARRAY, &[&array_head(element_type, n)[..], rest].concat());
    vec![
        (
            "key of 2^48 bytes",
            key_length((1 << 48) - 1),
            "metadata key 0: expected 281474976710655 more bytes",
        ),
        (
            "key of 2^64-1 bytes",
            key_length(u64::MAX),
            "metadata key 0: expected 18446744073709551615 more bytes",
        ),
        ("string of 1 GiB", x(STR, &(1u64 << 30).to_le_bytes()), "`x`: expected 1073741824 more bytes"),
        ("array of 2^63", array(U8, 1 << 63, &[]), "`x`: 9223372036854775808 array elements cannot fit"),
        ("array of 2^61+1 U64", array(U64, (1 << 61) + 1, &[]), "`x`: 2305843009213693953 array elements"),
        ("array of 2^60 strings", array(STR, 1 << 60, &[]), "`x`: 1152921504606846976 array elements"),
        (
            "string in array of 1 GiB",
            array(STR, 1, &(1u64 << 30).to_le_bytes()),
            "`x`: expected 1073741824 more",
        ),
        ("array of type 99", array(99, 1, &[0; 8]), "`x`: expected a value type from 0 to 12, got 99"),
        ("arrays 10000 deep", x(ARRAY, &nested), "`x`: expected arrays nested at most 8 deep"),
        ("value type 13", x(13, &[0; 8]), "`x`: expected a value type from 0 to 12, got 13"),
        ("value type 2^32-1", x(u32::MAX, &[0; 8]), "got 4294967295"),
        ("bool 2", x(BOOL, &[2]), "`x`: expected a bool stored as 0 or 1, got 2"),
        ("empty key", key(b""), "metadata key 3: expected 1 to 65535 bytes of UTF-8 text, got 0 bytes"),
        (
            "key not UTF-8",
            key(b"\xff\xfe"),
            "metadata key 3: expected 1 to 65535 bytes of UTF-8 text, got \"\\xff",
        ),
        ("key of 65536 bytes", key(&[b'k'; 65536]), "metadata key 3: expected 1 to 65535 bytes"),
        (
            "duplicate key",
            key(b"general.architecture"),
            "metadata key `general.architecture`: expected it once",
        ),
        ("alignment 0", aligned(0), "`general.alignment`: expected a power of two from 8 to 1048576, got 0"),
        ("alignment 3", aligned(3), "`general.alignment`: expected a power of two from 8 to 1048576, got 3"),
        ("alignment 4", aligned(4), "`general.alignment`: expected a power of two from 8 to 1048576, got 4"),
        ("alignment 2^31", aligned(1 << 31), "got 2147483648"),
        (
            "alignment is text",
            RawGguf::valid().aligned(STR, &raw_gguf::string(b"32"), 32).bytes(),
            "`general.alignment`: expected an integer from 0 to 18446744073709551615, got string \"32\"",
        ),
    ]
}

fn tensor_cases() -> Vec<Case> {
    let valid = RawGguf::valid().bytes();
    let n = valid.len();
    let twice = {
        let mut file = RawGguf::valid();
        file.tensors.push(file.tensors[1].clone());
        file.bytes()
    };
    vec![
        ("no dimension", b(|t| t.dims.clear()), "tensor `b`: expected 1 to 4 dimensions, got 0"),
        (
            "5 dimensions",
            b(|t| t.dims = vec![8, 4, 1, 1, 1]),
            "tensor `b`: expected 1 to 4 dimensions, got 5",
        ),
        ("2^32-1 dimensions", b(|t| t.n_dims = Some(u32::MAX)), "got 4294967295"),
        (
            "zero dimension",
            b(|t| t.dims = vec![8, 0]),
            "tensor `b`: expected every dimension to be at least 1",
        ),
        (
            "product wraps to 4",
            b(|t| t.dims = vec![4194305, 4194305, 211106198978564]),
            "tensor `b`: expected a size",
        ),
        ("dimension -1", b(|t| t.dims = vec![8, u64::MAX]), "tensor `b`: expected a size below 2^63 bytes"),
        (
            "2^63-1 by 2",
            b(|t| t.dims = vec![i64::MAX as u64, 2]),
            "tensor `b`: expected a size below 2^63 bytes",
        ),
        (
            "byte size wraps",
            b(|t| t.dims = vec![8, (1 << 59) + 1]),
            "tensor `b`: expected a size below 2^63 bytes",
        ),
        (
            "size beyond the file",
            b(|t| t.dims = vec![8, 1 << 40]),
            "tensor `b`: offset: expected 35184372088832 bytes",
        ),
        (
            "removed type",
            b(|t| t.type_id = 4),
            "tensor `b`: element type: expected one that can be computed with, got Q4_2",
        ),
        ("type without kernels", b(|t| (t.type_id, t.dims) = (17, vec![256, 1])), "got IQ2_XS"),
        ("unknown type", b(|t| t.type_id = 239), "got unknown type 239"),
        ("type 2^32-1", b(|t| t.type_id = u32::MAX), "got unknown type 4294967295"),
        (
            "partial block",
            b(|t| (t.type_id, t.dims) = (8, vec![40, 2])),
            "whole Q8_0 blocks of 32, got a row length of 40",
        ),
        ("offset 1", b(|t| t.offset = Some(1)), "tensor `b`: offset: expected a multiple of 32, got 1"),
        (
            "offset 2^40",
            b(|t| t.offset = Some(1 << 40)),
            "tensor `b`: offset: expected 128 bytes inside the file's 224",
        ),
        ("offset wraps", b(|t| t.offset = Some(u64::MAX - 31)), "got offset 18446744073709551584"),
        ("offset of another", b(|t| t.offset = Some(0)), "shares them with `a`"),
        ("part of another", b(|t| t.offset = Some(96)), "tensor `c`: offset: expected bytes of its own"),
        ("empty name", b(|t| t.name.clear()), "name of tensor 1: expected 1 to 64 bytes"),
        (
            "name of 1000 bytes",
            b(|t| t.name = vec![b'x'; 1000]),
            "name of tensor 1: expected 1 to 64 bytes of UTF-8",
        ),
        ("name not UTF-8", b(|t| t.name = b"\xff".to_vec()), "name of tensor 1"),
        (
            "line break in a name",
            b(|t| (t.name, t.dims) = (b"b\nc".to_vec(), vec![])),
            "tensor `b\\nc`: expected 1 to 4",
        ),
        ("duplicate name", twice, "tensor `b`: expected the name once"),
        (
            "one byte short",
            valid[..n - 1].to_vec(),
            "truncated file: expected 512 bytes for all tensors, got 511",
        ),
        ("half", valid[..n / 2].to_vec(), "expected"),
    ]
}

fn all_cases() -> Vec<Case> {
    [header_cases(), key_cases(), tensor_cases()].concat()
}

#[test]
fn every_lie_is_refused_in_one_line_that_names_the_field() {
    for (name, bytes, expected) in all_cases() {
        let error = load(&bytes).expect_err(name).to_string();
        assert!(error.starts_with("(memory): ") && error.contains(expected), "{name}: {error}");
        assert!(error.len() < 400 && !error.contains(char::is_control), "{name}: {error}");
    }
}

#[test]
fn a_refusal_is_quick() {
    for (name, bytes, _) in all_cases() {
        // The best of a few tries, since a busy machine may stop any one of them.
        let one = || {
            let start = Instant::now();
            load(&bytes).expect_err(name);
            start.elapsed()
        };
        let best = (0..5).map(|_| one()).min().unwrap();
        assert!(best < Duration::from_millis(50), "{name}: {best:?}");
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the peak memory from /proc")]
fn refusals_need_little_memory() {
    for (name, bytes, _) in all_cases() {
        load(&bytes).expect_err(name);
    }
    let peak_kib = memory_kib("VmHWM");
    assert!(peak_kib < 50 * 1024, "{peak_kib} KiB");
}

/// A memory figure of this process, such as `VmRSS`.
fn memory_kib(figure: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).expect("Linux has this line");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the memory in use from /proc")]
fn opening_reads_no_tensor_data() {
    let mut file = RawGguf::valid();
    file.tensors[2].dims = vec![8, 16 << 20];
    let bytes = file.bytes();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.gguf");
    fs::write(&path, &bytes).unwrap();
    fs::File::options().append(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let before = memory_kib("VmRSS");
    let tensors = Gguf::open(&path, &OpenOptions::default()).unwrap().tensors().unwrap();
    assert_eq!(tensors.get("c").unwrap().bytes.len(), 512 << 20);
    assert!(memory_kib("VmRSS") < before + 16 * 1024);
}

#[test]
fn the_untouched_file_loads() {
    let gguf = load(&RawGguf::valid().bytes()).unwrap();
    assert_eq!(gguf.metadata().str("general.architecture"), Ok(Some("llama")));
    let words: Vec<&[u8]> = gguf.metadata().str_array("words").unwrap().unwrap().iter().collect();
    assert_eq!(words, [&b"x"[..], b"yz"]);
    let tensors = gguf.tensors().unwrap();
    let b: Vec<u8> = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    assert_eq!(&*tensors.get("b").unwrap().bytes, &b[..]);
    assert_eq!(tensors.get("c").unwrap().shape.to_string(), "[8, 2]");
}

#[test]
fn version_2_and_alignment_64_load() {
    let version_2 = RawGguf { version: 2, ..RawGguf::valid() };
    assert_eq!(load(&version_2.bytes()).unwrap().version(), 2);
    load(&RawGguf::valid().aligned(U32, &64u32.to_le_bytes(), 64).bytes()).unwrap();
    load(&RawGguf::valid().aligned(U64, &16u64.to_le_bytes(), 16).bytes()).unwrap();
}

#[test]
fn text_that_is_not_utf8_is_an_error_only_when_it_is_asked_for() {
    let gguf = load(&x(STR, &raw_gguf::string(b"\xff\xff"))).unwrap();
    let error = gguf.metadata().str("x").unwrap_err().to_string();
    assert_eq!(error, "metadata key `x`: expected a UTF-8 string, got string of 2 bytes that is not UTF-8");
}

#[test]
fn a_file_of_unsupported_types_can_be_looked_at() {
    let gguf = Gguf::from_bytes(&b(|t| (t.type_id, t.dims) = (17, vec![256, 1]))).unwrap();
    assert_eq!(gguf.metadata().len(), 3);
    let info = &gguf.tensor_infos()[1];
    assert_eq!((info.tensor_type.to_string().as_str(), info.n_bytes), ("IQ2_XS", Some(74)));
    let error = gguf.tensors().unwrap_err();
    assert!(error.hint().unwrap().contains("Q4_K"), "{:?}", error.hint());
}

#[test]
fn no_prefix_of_a_file_loads() {
    let bytes = RawGguf::valid().bytes();
    for n in 0..bytes.len() {
        load(&bytes[..n]).expect_err("a truncated file");
    }
}

#[test]
fn no_changed_byte_leads_outside_the_file() {
    let valid = RawGguf::valid().bytes();
    for position in 0..valid.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = valid.clone();
            bytes[position] ^= change;
            let Ok(gguf) = load(&bytes) else { continue };
            let tensors = gguf.tensors().unwrap();
            assert!(tensors.iter().all(|(_, tensor)| tensor.bytes.len() <= bytes.len()));
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_after_the_header_cause_no_panic(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&[&header(1, 1)[..], &rest].concat());
    }
}

#[test]
fn things_that_are_not_model_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| Gguf::open(path, &OpenOptions::default()).expect_err("not a model");
    let error = open(directory.path());
    assert!(error.to_string().ends_with("not a GGUF file: it is a directory"), "{error}");
    let missing = directory.path().join("missing.gguf");
    let error = open(&missing);
    assert!(matches!(error.kind(), GgufErrorKind::Io { .. }), "{error}");
    assert!(error.to_string().starts_with(&missing.display().to_string()), "{error}");
    let unfinished = directory.path().join("model.gguf.part");
    fs::write(&unfinished, &RawGguf::valid().bytes()[..100]).unwrap();
    assert!(open(&unfinished).hint().unwrap().contains("did not finish"));
}

#[test]
fn a_file_read_into_memory_equals_a_mapped_one_and_survives_its_truncation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, RawGguf::valid().bytes()).unwrap();
    let mapped = Gguf::open(&path, &OpenOptions { mmap: true }).unwrap();
    let read = Gguf::open(&path, &OpenOptions { mmap: false }).unwrap();
    assert_eq!(mapped.tensor_infos(), read.tensor_infos());
    let (mapped_tensors, tensors) = (mapped.tensors().unwrap(), read.tensors().unwrap());
    for (name, tensor) in tensors.iter() {
        assert_eq!(&*tensor.bytes, &*mapped_tensors.get(name).unwrap().bytes, "{name}");
    }
    drop((mapped, mapped_tensors));
    fs::File::create(&path).unwrap();
    assert_eq!(tensors.get("a").unwrap().bytes[4..8], 1.0f32.to_le_bytes());
}
