//! The Ollama registry: a manifest names the digest of the model's layer, and the layer is a GGUF file.

use super::error::StoreError;
use super::http::Client;
use super::part::{Expected, is_sha256};

const MODEL_LAYER: &str = "application/vnd.ollama.image.model";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// The address of the model's file, and what it must be.
pub(super) fn locate(
    client: &Client,
    endpoint: &str,
    name: &str,
    tag: &str,
) -> Result<(String, Expected), StoreError> {
    let url = format!("{endpoint}/v2/{name}/manifests/{tag}");
    let (manifest, _) = client.get_json(&url, &[("Accept", MANIFEST)])?;
    let layers = manifest["layers"].as_array();
    let layer = layers.and_then(|layers| layers.iter().find(|layer| layer["mediaType"] == MODEL_LAYER));
    let digest = layer.and_then(|layer| layer["digest"].as_str());
    let Some(sha256) = digest.and_then(|d| d.strip_prefix("sha256:")).filter(|d| is_sha256(d)) else {
        return Err(StoreError::Protocol {
            url,
            what: "expected a model layer with a sha256 digest, got none".into(),
        });
    };
    let expected = Expected {
        size_bytes: layer.and_then(|layer| layer["size"].as_u64()),
        sha256: Some(sha256.to_ascii_lowercase()),
    };
    Ok((format!("{endpoint}/v2/{name}/blobs/sha256:{sha256}"), expected))
}
