//! From what the user asks to token ids.

use std::borrow::Cow;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::error::CliError;
use super::output::{read_stdin, warn};
use crate::engine::Engine;
use crate::text::chat::DateTime;
use crate::text::{ChatTemplate, RenderInput, Specials};

pub(super) fn read_template(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(CliError::file("read", path))
}

pub(super) fn prompt_from_stdin() -> Result<String, CliError> {
    let bytes = read_stdin("prompt")?;
    let text = String::from_utf8_lossy(&bytes);
    if matches!(text, Cow::Owned(_)) {
        warn("the prompt is not all UTF-8 text; the other bytes become U+FFFD");
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(CliError::Usage {
            what: "PROMPT",
            expected: "text as an argument or on standard input".to_string(),
            got: "nothing".to_string(),
            hint: Some("minfer run \"Why is the sky blue?\"".to_string()),
        });
    }
    Ok(text.to_string())
}

/// The prompt as token ids: through the chat template, or as it is.
pub(super) fn prompt_ids(
    engine: &Engine,
    prompt: &str,
    system: Option<&str>,
    raw: bool,
) -> Result<Vec<u32>, CliError> {
    let tokenizer = engine.tokenizer();
    let template = match (raw, engine.template()) {
        (true, _) => None,
        (false, Some(Ok(template))) => Some(template),
        (false, Some(Err(_))) => return Err(CliError::NoTemplate { what: "the model's own cannot be used" }),
        (false, None) if system.is_some() => return Err(CliError::NoTemplate { what: "--system" }),
        (false, None) => {
            warn("this model has no chat template; the prompt is continued as it is");
            None
        }
    };
    match template {
        Some(template) => chat_ids(template, engine, system, prompt),
        None => Ok(tokenizer.encode_sequence(prompt, Specials::Parse)?),
    }
}

fn chat_ids(
    template: &ChatTemplate,
    engine: &Engine,
    system: Option<&str>,
    prompt: &str,
) -> Result<Vec<u32>, CliError> {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let mut messages: Vec<Value> = system.map(|text| message("system", text)).into_iter().collect();
    messages.push(message("user", prompt));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let input = RenderInput {
        messages: &Value::Array(messages),
        tools: None,
        kwargs: None,
        add_generation_prompt: true,
        now: DateTime::from_unix_seconds(i64::try_from(seconds).unwrap_or(0)),
    };
    let rendered = template.prompt(&input, engine.tokenizer())?;
    Ok(engine.tokenizer().encode_prompt(&rendered)?)
}
