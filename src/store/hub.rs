//! Hugging Face: which files a repository has, and where they are.

use super::error::StoreError;
use super::http::{Client, encode_url_path};
use super::names::stays_below;
use super::part::Expected;

/// A file of a repository.
#[derive(Clone, Debug)]
pub(super) struct RemoteFile {
    pub(super) path: String,
    pub(super) expected: Expected,
}

/// Pages of a listing that are read; a repository with more files than that is no model.
const MAX_PAGES: usize = 20;

/// The address of a file.
pub(super) fn file_url(endpoint: &str, repo: &str, file: &str) -> String {
    format!("{endpoint}/{repo}/resolve/main/{}", encode_url_path(file))
}

/// Lists all files of a repository.
pub(super) fn list_files(client: &Client, endpoint: &str, repo: &str) -> Result<Vec<RemoteFile>, StoreError> {
    let mut url = format!("{endpoint}/api/models/{repo}/tree/main?recursive=true");
    let mut files = Vec::new();
    for _ in 0..MAX_PAGES {
        let (page, headers) = match client.get_json(&url, &[]) {
            // Mirrors often have the older call only.
            Err(StoreError::Status { status: 404, .. }) if files.is_empty() => {
                return list_siblings(client, endpoint, repo);
            }
            other => other?,
        };
        let Some(entries) = page.as_array() else {
            return Err(StoreError::Protocol {
                url,
                what: "expected a list of files, got other JSON".into(),
            });
        };
        files.extend(entries.iter().filter_map(|entry| remote_file(entry, "path")));
        let link = headers.get("link").and_then(|value| value.to_str().ok());
        match link.and_then(next_page) {
            Some(next) => url = next,
            None => break,
        }
    }
    Ok(files)
}

fn list_siblings(client: &Client, endpoint: &str, repo: &str) -> Result<Vec<RemoteFile>, StoreError> {
    let url = format!("{endpoint}/api/models/{repo}?blobs=true");
    let (info, _) = client.get_json(&url, &[])?;
    match info["siblings"].as_array() {
        Some(files) => Ok(files.iter().filter_map(|entry| remote_file(entry, "rfilename")).collect()),
        None => Err(StoreError::Protocol { url, what: "expected `siblings`, got other JSON".into() }),
    }
}

fn remote_file(entry: &serde_json::Value, path_key: &str) -> Option<RemoteFile> {
    let path = entry[path_key].as_str().filter(|_| entry["type"] != "directory")?;
    // A listing is input from outside: a path that leads out of the store is not taken.
    if !stays_below(path) {
        return None;
    }
    let lfs = &entry["lfs"];
    let sha256 = lfs["oid"].as_str().or_else(|| lfs["sha256"].as_str());
    let size_bytes = lfs["size"].as_u64().or_else(|| entry["size"].as_u64());
    let sha256 = sha256.map(|digest| digest.trim_start_matches("sha256:").to_ascii_lowercase());
    Some(RemoteFile { path: path.to_string(), expected: Expected { size_bytes, sha256 } })
}

/// The address with `rel="next"` in a `Link` header.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find(|part| part.contains("rel=\"next\"")).and_then(|part| {
        let (start, end) = (part.find('<')?, part.find('>')?);
        part.get(start + 1..end).map(str::to_string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_in_a_link_header() {
        let link = "<https://h/a?cursor=1>; rel=\"prev\", <https://h/a?cursor=2>; rel=\"next\"";
        assert_eq!(next_page(link).as_deref(), Some("https://h/a?cursor=2"));
        assert_eq!(next_page("<https://h/a>; rel=\"prev\""), None);
    }

    #[test]
    fn a_listing_cannot_lead_out_of_the_store() {
        let evil = serde_json::json!({"type": "file", "path": "../../x.gguf", "size": 1});
        assert!(remote_file(&evil, "path").is_none());
        let escapes = serde_json::json!({"type": "file", "path": "a\u{1b}[31m.gguf", "size": 1});
        assert!(remote_file(&escapes, "path").is_none());
    }
}
