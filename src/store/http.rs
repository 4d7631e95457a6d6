//! HTTP with what downloads need: redirects followed by hand (the hub sends digests with them), short connect
//! timeouts, a token that goes only to the host it belongs to.

use std::io::Read;
use std::time::Duration;

use ureq::http::{HeaderMap, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};

use super::error::StoreError;
use super::part::is_sha256;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Nothing received for so long means that the connection is dead.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 8;

/// An HTTP client.
pub(super) struct Client {
    agent: ureq::Agent,
    /// Origin (`scheme://host:port`) and the bearer token for it.
    token: Option<(String, String)>,
}

/// The final answer to a request.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// `X-Linked-Etag` of any answer on the way: the sha256 of the file if the hub knows it.
    pub(super) linked_sha256: Option<String>,
    /// `X-Linked-Size` of any answer on the way.
    pub(super) linked_size: Option<u64>,
    pub(super) body: ureq::Body,
}

impl Client {
    /// A client that sends `token` to the host of `endpoint` only.
    pub(super) fn new(endpoint: &str, token: Option<&str>) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(STALL_TIMEOUT))
            .timeout_per_read(Some(STALL_TIMEOUT))
            .user_agent(concat!("minfer/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build();
        Client {
            agent: ureq::Agent::new_with_config(config),
            token: token.map(|token| (origin(endpoint).to_string(), token.to_string())),
        }
    }

    /// Sends a GET request and follows redirects.
    pub(super) fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer, StoreError> {
        let (mut url, mut linked_sha256, mut linked_size) = (url.to_string(), None, None);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url, headers)?;
            let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            linked_sha256 = linked_sha256.or_else(|| text("x-linked-etag").and_then(sha256_of_etag));
            linked_size = linked_size.or_else(|| text("x-linked-size").and_then(|size| size.parse().ok()));
            let location = text("location").map(|location| join(&url, location));
            match location.filter(|_| response.status().is_redirection()) {
                Some(next) => url = self.check_redirect(&url, next)?,
                None => {
                    let (parts, body) = response.into_parts();
                    let (status, headers) = (parts.status, parts.headers);
                    return Ok(Answer { status, headers, linked_sha256, linked_size, body });
                }
            }
        }
        Err(StoreError::Protocol {
            url,
            what: format!("expected a file, got more than {MAX_REDIRECTS} redirects"),
        })
    }

    fn check_redirect(&self, from: &str, to: String) -> Result<String, StoreError> {
        let allowed =
            to.starts_with("https://") || (to.starts_with("http://") && from.starts_with("http://"));
        match allowed {
            true => Ok(to),
            false => Err(StoreError::Protocol {
                url: from.to_string(),
                what: format!("expected a redirect to https, got {to}"),
            }),
        }
    }

    fn request(
        &self,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<ureq::http::Response<ureq::Body>, StoreError> {
        let mut request = self.agent.get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some((_, token)) = self.token.as_ref().filter(|(home, _)| home == origin(url)) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| unreachable(url, &error))
    }

    /// Fetches a small JSON document.
    pub(super) fn get_json(
        &self,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<(serde_json::Value, HeaderMap), StoreError> {
        let mut answer = self.get(url, headers)?;
        if answer.status != StatusCode::OK {
            return Err(StoreError::Status { url: url.to_string(), status: answer.status.as_u16() });
        }
        let mut bytes = Vec::new();
        let read = answer.body.as_reader().take(MAX_JSON_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::Unreachable {
            host: host(url).to_string(),
            reason: error.to_string(),
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok((value, answer.headers)),
            Err(error) => Err(StoreError::Protocol {
                url: url.to_string(),
                what: format!("expected JSON, got {error}"),
            }),
        }
    }
}

/// More than any listing of a repository page has.
const MAX_JSON_BYTES: u64 = 16 << 20;

fn unreachable(url: &str, error: &ureq::Error) -> StoreError {
    let reason = match error {
        ureq::Error::HostNotFound => "the name cannot be resolved".to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_string(),
        other => other.to_string(),
    };
    StoreError::Unreachable { host: host(url).to_string(), reason }
}

/// `scheme://host:port` of a URL.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

fn host(url: &str) -> &str {
    let origin = origin(url);
    origin.split_once("://").map_or(origin, |(_, host)| host)
}

/// Resolves a `Location` header against the URL it came from.
fn join(base: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_string();
    }
    if let Some(rest) = location.strip_prefix("//") {
        let scheme = base.split("://").next().unwrap_or("https");
        return format!("{scheme}://{rest}");
    }
    if location.starts_with('/') {
        return format!("{}{location}", origin(base));
    }
    let path = base.split(['?', '#']).next().unwrap_or(base);
    let folder = path.rfind('/').map_or(path, |at| &path[..=at]);
    format!("{folder}{location}")
}

/// The digest in an entity tag of the hub: `"<64 hexadecimal digits>"`.
fn sha256_of_etag(etag: &str) -> Option<String> {
    let digits = etag.trim_start_matches("W/").trim_matches('"');
    is_sha256(digits).then(|| digits.to_ascii_lowercase())
}

/// Percent-encodes each part of a path for a URL.
pub(super) fn encode_url_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().fold(String::new(), |mut out, byte| {
        match plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_resolve_against_the_url_they_came_from() {
        let base = "https://a.org:8/x/y?q=1";
        assert_eq!(join(base, "https://b.org/z"), "https://b.org/z");
        assert_eq!(join(base, "//b.org/z"), "https://b.org/z");
        assert_eq!(join(base, "/z?k"), "https://a.org:8/z?k");
        assert_eq!(join(base, "z"), "https://a.org:8/x/z");
    }

    #[test]
    fn only_a_sha256_counts_as_a_digest() {
        let digest = "AB".repeat(32);
        assert_eq!(sha256_of_etag(&format!("\"{digest}\"")), Some("ab".repeat(32)));
        assert_eq!(sha256_of_etag("\"d41d8cd98f00b204e9800998ecf8427e\""), None);
    }

    #[test]
    fn the_origin_keeps_the_port() {
        assert_eq!(origin("http://127.0.0.1:80/x"), "http://127.0.0.1:80");
        assert_eq!(host("https://a.org?x"), "a.org");
    }
}
