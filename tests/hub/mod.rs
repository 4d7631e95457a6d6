//! A hub on 127.0.0.1 that answers as a test tells it to, and may hang up in the middle.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses another part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the client asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path with query.
    pub path: String,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Where a `Range: bytes=N-` request starts.
    pub fn range_start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What the hub answers.
#[derive(Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Hang up after so many bytes of the body.
    pub cut_after: Option<usize>,
    /// Stay silent for a minute after the body, without closing.
    pub stall: bool,
}

impl Reply {
    /// 200 with a body.
    pub fn ok(body: &[u8]) -> Reply {
        Reply { status: 200, body: body.to_vec(), ..Reply::default() }
    }

    /// An empty answer.
    pub fn status(status: u16) -> Reply {
        Reply { status, ..Reply::default() }
    }

    /// Adds a header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }

    /// Hangs up early.
    pub fn cut(mut self, after: usize) -> Reply {
        self.cut_after = Some(after);
        self
    }

    /// Answers a request for `body`, with 206 if a range was asked for.
    pub fn ranged(request: &Request, body: &[u8]) -> Reply {
        match request.range_start() {
            Some(start) if start < body.len() => {
                let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
                Reply { status: 206, body: body[start..].to_vec(), ..Reply::default() }
                    .with("Content-Range", range)
            }
            Some(_) => Reply::status(416).with("Content-Range", format!("bytes */{}", body.len())),
            None => Reply::ok(body),
        }
    }
}

/// A running hub.
pub struct Hub {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Hub {
    /// Starts a hub that answers with `answer`.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    let index = {
                        let mut log = log.lock().unwrap();
                        log.push(request.clone());
                        log.len() - 1
                    };
                    send(stream, &answer(&request, index));
                });
            }
        });
        Hub { url, requests }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_string();
    let mut headers = Vec::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
    Some(Request { path, headers })
}

fn send(mut stream: TcpStream, reply: &Reply) {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        head += &format!("Content-Length: {}\r\n", reply.body.len());
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let n_sent = reply.cut_after.unwrap_or(reply.body.len()).min(reply.body.len());
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(&reply.body[..n_sent]);
    let _ = stream.flush();
    if reply.stall {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

/// A body that looks like a model: magic, then bytes that differ everywhere.
pub fn fake_model(n_bytes: usize) -> Vec<u8> {
    let noise = (0..n_bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    b"GGUF".iter().copied().chain(noise).take(n_bytes).collect()
}
