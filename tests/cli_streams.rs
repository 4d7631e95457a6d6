//! What goes to which stream, and what comes from standard input.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use program::{minfer, model, stderr, stdout, with_stdin};

#[test]
fn standard_output_is_the_answer_and_one_newline() {
    let json =
        program::json(minfer().arg("run").arg(model()).args(["hi", "-n", "8", "--seed", "7", "--json"]));
    let output = minfer().arg("run").arg(model()).args(["hi", "-n", "8", "--seed", "7"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        json["text"].as_str().unwrap().to_string() + "\n"
    );
    assert_eq!(json["ids"].as_array().unwrap().len(), 8);
}

#[test]
fn there_are_no_escapes_where_there_is_no_terminal() {
    // Random weights may choose any byte, so the answer itself is left out.
    let verbose = minfer().arg("run").arg(model()).args(["hi", "-n", "4", "-v", "--json"]).output().unwrap();
    let wrong = minfer().args(["run", "--no-such-flag"]).output().unwrap();
    let help = minfer().arg("--help").output().unwrap();
    for bytes in [verbose.stderr, wrong.stderr, help.stdout] {
        assert!(!bytes.is_empty());
        assert!(!bytes.contains(&b'\x1b') && !bytes.contains(&b'\r'), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn piped_text_is_the_prompt_without_its_final_newline() {
    let flags = ["--temp", "0", "-n", "6", "--json"];
    let piped = with_stdin(minfer().arg("run").arg(model()).args(flags), b"hello you\n");
    let given = stdout(minfer().arg("run").arg(model()).args(["-p", "hello you"]).args(flags));
    let ids = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["prompt_ids"].clone();
    assert_eq!(ids(&String::from_utf8_lossy(&piped.stdout)), ids(&given));
}

#[test]
fn a_prompt_flag_does_not_wait_for_standard_input() {
    let mut command = minfer();
    command.arg("run").arg(model()).args(["-p", "x", "-n", "2"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > Duration::from_secs(60) => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let _ = child.kill();
    assert!(status.is_some_and(|status| status.success()));
}

#[test]
fn bytes_that_are_no_text_are_not_measured_as_something_else() {
    for command in ["tokenize", "logits", "perplexity"] {
        let output = with_stdin(minfer().arg(command).arg(model()), b"ab\xe6\xad");
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(
            output.stdout.is_empty() && stderr(&output).contains("utf-8"),
            "{command}: {}",
            stderr(&output)
        );
    }
    let run = with_stdin(minfer().args(["run", "-n", "1", "--raw", "-m"]).arg(model()), b"ab\xe6\xad");
    assert!(run.status.success() && stderr(&run).contains("warning: the prompt is not all UTF-8"));
}

#[test]
fn no_prompt_at_all_is_a_usage_error() {
    let output = minfer().arg("run").arg(model()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("PROMPT"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_goes_away_ends_every_command_quietly() {
    let model = model();
    let model = model.to_str().unwrap();
    let commands: &[&[&str]] = &[
        &["--help"],
        &["run", "--help"],
        &["run", model, "hi", "-n", "200"],
        &["run", model, "hi", "-n", "20", "--json"],
        &["info", model, "--tensors"],
        &["tokenize", model, "-p", "some text"],
        &["logits", model, "--ids", "1,2,3"],
        &["graph", model],
        &["list", "--all"],
        &["doctor", "--vars"],
        &["bench", model, "-p", "8", "-n", "4", "-r", "1"],
        &["completions", "bash"],
    ];
    for args in commands {
        let mut child = minfer().args(*args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 141)) && errors.is_empty(), "{args:?}: {code:?} {errors}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_text_with_a_newline() {
    let mut command = minfer();
    command.arg("run").arg(model()).args(["hi", "-n", "-1", "-c", "100000", "--raw"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut bytes = vec![0; 16];
    out.read_exact(&mut bytes[..1]).unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: sends a signal to the child that this test started and has not waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let start = Instant::now();
    out.read_to_end(&mut bytes).unwrap();
    let status = child.wait().unwrap();
    // A tiny model may have ended the answer by itself before.
    assert!(matches!(status.code(), Some(130 | 0)), "{status:?}");
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(bytes.last(), Some(&b'\n'));
}
