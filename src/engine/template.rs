//! The chat template of a loaded model.

use serde_json::json;

use super::EngineError;
use crate::gguf::Metadata;
use crate::text::chat::DateTime;
use crate::text::{ChatTemplate, RenderInput, TemplateError, Tokenizer};

/// Where GGUF files keep the template.
const KEY: &str = "tokenizer.chat_template";

/// A template, if it can be used.
pub(super) type Loaded = Option<Result<ChatTemplate, TemplateError>>;

/// The caller's template, which must be usable, or the file's, which need not be: a model answers plain prompts
/// without it.
pub(super) fn load(
    metadata: &Metadata,
    tokenizer: &Tokenizer,
    given: Option<&str>,
) -> Result<Loaded, EngineError> {
    let text = |id: Option<u32>| id.map(|id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned());
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
    let compile = |source: &str| ChatTemplate::new(source, bos.as_deref(), eos.as_deref());
    if let Some(source) = given {
        return Ok(Some(Ok(compile(source)?)));
    }
    Ok(metadata.str(KEY).ok().flatten().map(compile))
}

/// What is wrong with a template: it does not compile, or not even a greeting can be rendered with it.
pub(super) fn warning(template: Option<&Result<ChatTemplate, TemplateError>>) -> Option<String> {
    let error = match template? {
        Err(error) => error.to_string(),
        Ok(template) => {
            let messages = json!([{"role": "user", "content": "hello"}]);
            let input = RenderInput {
                messages: &messages,
                tools: None,
                kwargs: None,
                add_generation_prompt: true,
                now: DateTime::from_unix_seconds(0),
            };
            template.render(&input).err()?.to_string()
        }
    };
    Some(format!("{error}; chat will not work"))
}
