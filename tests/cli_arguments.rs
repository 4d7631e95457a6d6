//! Arguments that make no sense, and files that are not there.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::process::Command;

use program::{minfer, model, stderr};

fn refused(command: &mut Command, code: i32, named: &str) {
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {text}");
    assert!(text.contains(named), "{command:?} does not name {named}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_argument_error_names_the_flag_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["-n", "abc"], "--n-predict"),
        (&["-n", "-2"], "--n-predict"),
        (&["-c", "-5"], "--ctx-size"),
        (&["-t", "100000"], "--threads"),
        (&["-t", "-7"], "--threads"),
        (&["--temp", "nan"], "--temp"),
        (&["--temp", "-1"], "--temp"),
        (&["--top-p", "1.5"], "--top-p"),
        (&["--min-p", "inf"], "--min-p"),
        (&["--repeat-penalty", "0"], "--repeat-penalty"),
        (&["--presence-penalty", "3"], "--presence-penalty"),
        (&["--gpu-layers", "many"], "--gpu-layers"),
        (&["--gpu-layers", "-1"], "--gpu-layers"),
        (&["--gpu-memory", "-1"], "--gpu-memory"),
        (&["--repeat-last-n", "-2"], "--repeat-last-n"),
        (&["--kv", "q2"], "--kv"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--backend", "abacus"], "abacus"),
        (&["--backend", "cuda"], "cuda"),
        (&["one", "two", "three"], "three"),
    ];
    for (args, named) in cases {
        refused(minfer().arg("run").args(["-p", "x"]).arg("-m").arg(model()).args(*args), 2, named);
    }
    refused(minfer().arg("run").args(["-p", "x", "-m"]), 2, "--model");
    refused(minfer().arg("jog"), 2, "jog");
    refused(minfer().arg("verify").arg(model()), 2, "--backend");
    refused(
        minfer().arg("verify").arg(model()).args(["--backend", "cpu", "--against", "abacus"]),
        2,
        "abacus",
    );
    for (command, flag, value) in [
        ("bench", "--n-prompt", "-1"),
        ("bench", "--n-gen", "-1"),
        ("bench", "--n-depth", "-1"),
        ("bench", "--repetitions", "-1"),
        ("logits", "--ids", "-1"),
        ("logits", "--top", "-1"),
        ("graph", "--prefill", "-1"),
        ("graph", "--outputs", "-1"),
        ("verify", "--n-predict", "-1"),
        ("perplexity", "--chunks", "-1"),
        ("perplexity", "--chunks", "0"),
    ] {
        refused(minfer().arg(command).arg(model()).args([flag, value]), 2, flag);
    }
}

#[test]
fn a_missing_or_unfit_file_is_named_and_exits_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder.gguf");
    std::fs::create_dir(&folder).unwrap();
    let html = dir.path().join("page.gguf");
    std::fs::write(&html, "<!DOCTYPE html><html></html>").unwrap();
    for path in [dir.path().join("no.gguf"), folder, html] {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        for command in ["run", "info", "tokenize", "logits", "graph", "bench"] {
            let mut program = minfer();
            program.arg(command).arg(&path);
            if matches!(command, "run" | "tokenize" | "logits") {
                program.args(["-p", "x"]);
            }
            refused(&mut program, 1, &name);
        }
    }
}

#[test]
fn odd_file_names_work() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["with space.gguf", "🦀.gguf", "new\nline.gguf"] {
        let path = dir.path().join(name);
        std::fs::copy(model(), &path).unwrap();
        let output = minfer().arg("tokenize").arg(&path).args(["-p", "a"]).output().unwrap();
        assert!(output.status.success(), "{name:?}: {}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_refused_without_a_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = OsStr::from_bytes(b"\xff.gguf");
    refused(minfer().arg("run").arg("-m").arg(model()).arg("-p").arg(bytes), 2, "PROMPT");
    refused(minfer().arg("run").arg(bytes).args(["-p", "x"]), 1, "model file");
    refused(minfer().arg(OsStr::from_bytes(b"\xff")), 2, "error");
}

#[test]
fn settings_of_the_environment_are_checked() {
    let run = |name: &str, value: &str| {
        let mut command = minfer();
        command.arg("run").arg(model()).args(["-p", "x", "-n", "1"]).env(name, value);
        command
    };
    refused(&mut run("MINFER_ISA", "mmx"), 2, "MINFER_ISA");
    refused(&mut run("MINFER_THREADS", "lots"), 2, "MINFER_THREADS");
    refused(&mut run("MINFER_THREADS", "100000"), 2, "MINFER_THREADS");
    refused(&mut run("MINFER_BACKENDS", "abacus"), 2, "abacus");
}

#[test]
fn a_context_beyond_all_memory_is_refused_with_its_size() {
    let mut command = minfer();
    command.arg("run").arg(model()).args(["-p", "x", "-c", "2000000000"]);
    refused(&mut command, 1, "MiB");
    let mut command = minfer();
    command.arg("run").arg(model()).args(["-p", "x", "-c", "1000000000000"]);
    refused(&mut command, 1, "1000000000000");
}

#[test]
fn sizes_beyond_all_memory_are_refused_before_anything_is_taken() {
    let max = usize::MAX.to_string();
    let nearly = (usize::MAX - 1).to_string();
    for args in [
        ["bench", "-p", &max, "-d", "2", "-n", "0"],
        ["bench", "-n", "3", "-d", &nearly, "-p", "0"],
        ["graph", "--prefill", "99999999999", "--outputs", "1", "--format", "census"],
    ] {
        refused(minfer().args(args).arg("-m").arg(model()), 1, "MiB");
    }
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_lengths() {
    let ids = ["1"; 40].join(",");
    for args in [
        ["logits", "-c", "32", "--ids", &ids],
        ["run", "-c", "32", "--raw", &format!("-p{}", "a ".repeat(200))],
    ] {
        refused(
            minfer().args(args).arg("-m").arg(model()),
            1,
            "expected at most 32, the length of the context",
        );
    }
}

#[test]
fn an_unknown_model_name_comes_with_a_hint() {
    let output = minfer().args(["run", "smolm2:135m", "hi"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("hint: did you mean smollm2:135m?"), "{}", stderr(&output));
}
