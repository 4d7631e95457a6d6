//! Runs the `minfer` program in an environment of the test's own.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses another part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A tiny model of `tests/reference`.
pub fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/tiny").join(name).with_extension("gguf")
}

/// The model that most tests run.
pub fn model() -> PathBuf {
    tiny("wide-qwen2-q4_k_m.gguf")
}

/// A JSON file of `tests/reference`.
pub fn reference_json(path: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(path);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The program with a store that is not there, no proxy, and nothing on standard input.
pub fn minfer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minfer"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_lowercase();
        if text.starts_with("minfer_") || text.starts_with("hf_") || text.ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command.env("MINFER_MODELS", "/nonexistent/minfer-store").stdin(Stdio::null());
    command
}

/// Runs to the end with `input` on standard input.
pub fn with_stdin(command: &mut Command, input: &[u8]) -> Output {
    use std::io::Write;
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Standard output of a run that must succeed.
pub fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as JSON.
pub fn json(command: &mut Command) -> serde_json::Value {
    serde_json::from_str(&stdout(command)).unwrap()
}
