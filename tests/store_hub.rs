//! Downloads from a hub that misbehaves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(feature = "hub")]

mod hub;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hub::{Hub, Reply, fake_model};
use minfer::store::{Endpoints, ModelRef, Progress, PullOptions, Puller, Silent, Store, StoreError};
use sha2::{Digest, Sha256};

const FILE: &str = "hf:o/r/m.gguf";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn endpoints(url: &str) -> Endpoints {
    Endpoints { hub: url.to_string(), hub_token: Some("secret".to_string()), ollama: url.to_string() }
}

fn pull_with(dir: &Path, url: &str, reference: &str, offline: bool) -> Result<PathBuf, StoreError> {
    let (store, cancel) = (Store::new(dir), AtomicBool::new(false));
    let options = PullOptions { endpoints: endpoints(url), offline, cancel: &cancel, progress: &Silent };
    let reference = ModelRef::parse(OsStr::new(reference)).unwrap();
    Puller::new(&store, options).ensure(&reference).map(|pulled| pulled.path)
}

fn pull(dir: &Path, hub: &Hub, reference: &str) -> Result<PathBuf, StoreError> {
    pull_with(dir, &hub.url, reference, false)
}

/// Names of all files in the store, locks aside.
fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true if entry.ends_with(".locks") => {}
                true => folders.push(entry),
                false => found.push(entry.file_name().unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_is_fetched_once_and_then_used_without_any_request() {
    let body = fake_model(300_000);
    let served = body.clone();
    let hub = Hub::start(move |request, _| Reply::ranged(request, &served));
    let dir = tempfile::tempdir().unwrap();
    let path = pull(dir.path(), &hub, FILE).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), body);
    assert_eq!(hub.requests()[0].path, "/o/r/resolve/main/m.gguf");
    assert_eq!(hub.requests()[0].header("authorization"), Some("Bearer secret"));
    for reference in [FILE, "hf:o/r"] {
        assert_eq!(pull_with(dir.path(), "http://127.0.0.1:1", reference, true).unwrap(), path);
    }
    assert_eq!(hub.requests().len(), 1);
    assert_eq!(files(dir.path()), ["m.gguf"]);
}

#[test]
fn a_connection_that_breaks_is_resumed_where_it_broke() {
    let body = fake_model(1_000_000);
    let served = body.clone();
    let hub = Hub::start(move |request, index| {
        let reply = Reply::ranged(request, &served).with("ETag", "\"v1\"");
        if index < 3 { reply.cut(200_000) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let path = pull(dir.path(), &hub, FILE).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    let requests = hub.requests();
    let starts: Vec<_> = requests.iter().map(|request| request.range_start()).collect();
    assert_eq!(starts, [None, Some(200_000), Some(400_000), Some(600_000)]);
    assert_eq!(requests[1].header("if-range"), Some("\"v1\""));
}

#[test]
fn a_body_that_always_ends_early_is_an_error_and_stays_a_part() {
    let body = fake_model(1000);
    let hub = Hub::start(move |_, _| Reply::ok(&body).with("X-Linked-Etag", "\"v1\"").cut(500));
    let dir = tempfile::tempdir().unwrap();
    let error = pull(dir.path(), &hub, FILE).unwrap_err();
    assert!(matches!(error, StoreError::BrokeOff { .. }), "{error}");
    assert_eq!(files(dir.path()), ["m.gguf.part", "m.gguf.part.json"]);
    assert_eq!(Store::new(dir.path()).models().unwrap(), []);
}

#[test]
fn a_server_that_ignores_the_range_starts_the_file_again() {
    let body = fake_model(100_000);
    let served = body.clone();
    let hub = Hub::start(move |_, index| {
        let reply = Reply::ok(&served).with("ETag", "\"v1\"");
        if index == 0 { reply.cut(40_000) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let path = pull(dir.path(), &hub, FILE).unwrap();
    assert_eq!(hub.requests()[1].range_start(), Some(40_000));
    assert_eq!(std::fs::read(path).unwrap(), body);
}

#[test]
fn a_range_from_another_place_is_not_appended() {
    let body = fake_model(100_000);
    let served = body.clone();
    let hub = Hub::start(move |request, index| match (index, request.range_start()) {
        (0, _) => Reply::ok(&served).with("ETag", "\"v1\"").cut(40_000),
        (_, Some(_)) => {
            let reply = Reply { status: 206, body: served[50_000..].to_vec(), ..Reply::default() };
            reply.with("Content-Range", "bytes 50000-99999/100000")
        }
        _ => Reply::ok(&served),
    });
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(std::fs::read(pull(dir.path(), &hub, FILE).unwrap()).unwrap(), body);
}

#[test]
fn a_wrong_digest_is_refused_and_nothing_stays() {
    let body = fake_model(1000);
    let hub = Hub::start(move |request, _| match request.path.starts_with("/cdn") {
        true => Reply::ok(&body),
        false => Reply::status(302)
            .with("Location", "/cdn/m.gguf")
            .with("X-Linked-Etag", format!("\"{}\"", "0".repeat(64))),
    });
    let dir = tempfile::tempdir().unwrap();
    let error = pull(dir.path(), &hub, FILE).unwrap_err();
    assert!(matches!(error, StoreError::Mismatch { what: "sha256", .. }), "{error}");
    assert_eq!(files(dir.path()), [] as [String; 0]);
}

#[test]
fn a_web_page_is_no_model() {
    let page = b"<!DOCTYPE html><html>please log in</html>";
    for kind in ["text/html; charset=utf-8", "application/octet-stream"] {
        let hub = Hub::start(move |_, _| Reply::ok(page).with("Content-Type", kind));
        let dir = tempfile::tempdir().unwrap();
        let error = pull(dir.path(), &hub, FILE).unwrap_err();
        assert!(error.to_string().contains("an HTML page"), "{error}");
        assert!(!files(dir.path()).contains(&"m.gguf".to_string()));
    }
}

/// Puts bytes in progress where an earlier attempt would have left them.
fn leave_part(store: &Path, hub: &Hub, bytes: &[u8]) {
    let part = store.join("hf/o/r/m.gguf.part");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, bytes).unwrap();
    let meta = format!(
        "{{\"url\":\"{}/o/r/resolve/main/m.gguf\",\"etag\":\"\\\"v\\\"\",\"packages_done\":0,\"packages_bytes\":0}}",
        hub.url
    );
    std::fs::write(part.with_extension("part.json"), meta).unwrap();
}

#[test]
fn a_whole_part_needs_no_byte_more() {
    let body = fake_model(1000);
    let (served, digest) = (body.clone(), sha256(&body));
    let hub = Hub::start(move |request, _| {
        Reply::ranged(request, &served).with("X-Linked-Etag", format!("\"{digest}\""))
    });
    let dir = tempfile::tempdir().unwrap();
    leave_part(dir.path(), &hub, &body);
    assert_eq!(std::fs::read(pull(dir.path(), &hub, FILE).unwrap()).unwrap(), body);
    assert_eq!(hub.requests().len(), 1, "the 416 answer says that all is there");
}

#[test]
fn leftovers_of_another_file_do_not_spoil_the_download() {
    let body = fake_model(1000);
    let (served, digest) = (body.clone(), sha256(&body));
    let hub = Hub::start(move |request, _| {
        Reply::ranged(request, &served).with("X-Linked-Etag", format!("\"{digest}\""))
    });
    let dir = tempfile::tempdir().unwrap();
    leave_part(dir.path(), &hub, b"GGUF from somewhere else");
    assert_eq!(std::fs::read(pull(dir.path(), &hub, FILE).unwrap()).unwrap(), body);
}

#[test]
fn the_token_does_not_follow_a_redirect_to_another_host() {
    let body = fake_model(1000);
    let served = body.clone();
    let cdn = Hub::start(move |_, _| Reply::ok(&served));
    let there = format!("{}/blob", cdn.url);
    let hub = Hub::start(move |_, _| Reply::status(307).with("Location", there.clone()));
    let dir = tempfile::tempdir().unwrap();
    pull(dir.path(), &hub, FILE).unwrap();
    assert_eq!(cdn.requests()[0].header("authorization"), None);
}

#[test]
fn a_listing_gives_the_quantisation_with_all_its_shards() {
    let (one, two) = (fake_model(500), fake_model(700));
    let listing = serde_json::json!([
        {"type": "file", "path": "m-Q8_0.gguf", "size": 1},
        {"type": "file", "path": "m-Q4_K_M-00001-of-00002.gguf", "size": 500, "lfs": {"oid": sha256(&one), "size": 500}},
        {"type": "file", "path": "m-Q4_K_M-00002-of-00002.gguf", "size": 700, "lfs": {"oid": sha256(&two), "size": 700}},
        {"type": "directory", "path": "sub"},
    ]);
    let hub = Hub::start(move |request, _| match request.path.as_str() {
        "/api/models/o/r/tree/main?recursive=true" => Reply::ok(listing.to_string().as_bytes()),
        path if path.ends_with("00001-of-00002.gguf") => Reply::ok(&one),
        path if path.ends_with("00002-of-00002.gguf") => Reply::ok(&two),
        _ => Reply::status(404),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = pull(dir.path(), &hub, "hf:o/r:q4_k_m").unwrap();
    assert!(path.ends_with("m-Q4_K_M-00001-of-00002.gguf"));
    assert_eq!(files(dir.path()).len(), 2);
    let n_requests = hub.requests().len();
    pull(dir.path(), &hub, "hf:o/r:Q4_K_M").unwrap();
    assert_eq!(hub.requests().len(), n_requests);
}

#[test]
fn an_ambiguous_reference_lists_the_choices_and_downloads_nothing() {
    let listing = r#"{"siblings":[{"rfilename":"a-Q8_0.gguf"},{"rfilename":"b-Q8_0.gguf"}]}"#;
    let hub = Hub::start(move |request, _| match request.path.as_str() {
        "/api/models/o/r?blobs=true" => Reply::ok(listing.as_bytes()),
        _ => Reply::status(404),
    });
    let dir = tempfile::tempdir().unwrap();
    let error = pull(dir.path(), &hub, "hf:o/r").unwrap_err();
    assert!(error.to_string().contains("hf:o/r/a-Q8_0.gguf, hf:o/r/b-Q8_0.gguf"), "{error}");
}

#[test]
fn an_ollama_name_is_resolved_through_its_manifest() {
    let body = fake_model(900);
    let manifest = serde_json::json!({"layers": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:1", "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{}", sha256(&body)), "size": 900},
    ]});
    let blob = format!("/v2/library/smollm2/blobs/sha256:{}", sha256(&body));
    let hub = Hub::start(move |request, _| match request.path.as_str() {
        "/v2/library/smollm2/manifests/135m" => Reply::ok(manifest.to_string().as_bytes()),
        path if path == blob => Reply::ok(&body),
        _ => Reply::status(404),
    });
    let dir = tempfile::tempdir().unwrap();
    pull(dir.path(), &hub, "ollama:smollm2:135m").unwrap();
    assert_eq!(Store::new(dir.path()).models().unwrap()[0].name, "ollama:smollm2:135m");
}

#[test]
fn a_download_without_a_byte_leaves_no_file() {
    let hub = Hub::start(|_, _| Reply::status(404));
    let dir = tempfile::tempdir().unwrap();
    assert!(pull(dir.path(), &hub, "hf:o/r/m.gguf").is_err());
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn offline_sends_nothing() {
    let hub = Hub::start(|_, _| Reply::status(500));
    let dir = tempfile::tempdir().unwrap();
    let error = pull_with(dir.path(), &hub.url, FILE, true).unwrap_err();
    assert!(matches!(error, StoreError::Offline { .. }), "{error}");
    assert!(hub.requests().is_empty());
}

/// Sets the flag as soon as bytes arrive.
struct CancelAt<'a>(&'a AtomicBool);

impl Progress for CancelAt<'_> {
    fn note(&self, _line: &str) {}
    fn begin(&self, _name: &str, _done: u64, _total: Option<u64>) {}
    fn at(&self, _bytes: u64) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn end(&self) {}
}

#[test]
fn cancelling_leaves_a_part_that_the_next_pull_resumes() {
    let body = fake_model(3_000_000);
    let served = body.clone();
    let hub = Hub::start(move |request, _| Reply::ranged(request, &served).with("ETag", "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let (store, cancel) = (Store::new(dir.path()), AtomicBool::new(false));
    let progress = CancelAt(&cancel);
    let options =
        PullOptions { endpoints: endpoints(&hub.url), offline: false, cancel: &cancel, progress: &progress };
    let reference = ModelRef::parse(OsStr::new(FILE)).unwrap();
    let error = Puller::new(&store, options).ensure(&reference).unwrap_err();
    assert!(matches!(error, StoreError::Cancelled), "{error}");
    let path = pull(dir.path(), &hub, FILE).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    assert!(hub.requests()[1].range_start().is_some_and(|start| start > 0));
}

#[test]
fn two_pulls_of_one_file_download_it_once() {
    let body = fake_model(2_000_000);
    let served = body.clone();
    let hub = Hub::start(move |request, _| {
        std::thread::sleep(Duration::from_millis(200));
        Reply::ranged(request, &served)
    });
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| pull(dir.path(), &hub, FILE).unwrap());
        }
    });
    assert_eq!(hub.requests().len(), 1);
}

#[test]
fn a_hub_that_is_not_there_is_noticed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let error = pull_with(dir.path(), "http://127.0.0.1:1", FILE, false).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[test]
fn missing_and_forbidden_files_say_so() {
    for status in [401, 403, 404] {
        let hub = Hub::start(move |_, _| Reply::status(status));
        let dir = tempfile::tempdir().unwrap();
        let error = pull(dir.path(), &hub, FILE).unwrap_err();
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(hub.requests().len(), 1, "no use trying again");
    }
}
