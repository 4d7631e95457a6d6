//! Messages as clients send them, made into what templates expect.

use serde_json::{Map, Value};

use crate::error::Hint;

/// Why messages cannot be given to a template.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The messages are not a list.
    #[error("messages: expected a list, got {got}")]
    NotAList {
        /// JSON type found.
        got: &'static str,
    },
    /// A message is not an object with a role.
    #[error("messages[{index}]: expected an object with a string 'role'")]
    NoRole {
        /// Which message.
        index: usize,
    },
    /// The content of a message is neither text nor a list of parts.
    #[error("messages[{index}].content: expected a string, null or a list of parts, got {got}")]
    Content {
        /// Which message.
        index: usize,
        /// JSON type found.
        got: &'static str,
    },
    /// A part of a message is not text.
    #[error("messages[{index}].content[{part}]: expected a part of type 'text', got '{got}'")]
    Part {
        /// Which message.
        index: usize,
        /// Which part.
        part: usize,
        /// The part's type.
        got: String,
    },
}

impl Hint for MessageError {
    fn hint(&self) -> Option<String> {
        matches!(self, Self::Part { .. }).then(|| "only text can be given to this model".into())
    }
}

/// Makes every `content` a string: null and absent become empty, a list of text parts is joined with newlines. Most
/// templates handle nothing else, and clients send back answers whose content is null beside tool calls.
///
/// # Errors
/// [`MessageError`] for anything that is not a message, and for parts that are not text.
pub fn normalise_messages(messages: &mut Value) -> Result<(), MessageError> {
    let got = type_name(messages);
    let Value::Array(list) = messages else { return Err(MessageError::NotAList { got }) };
    for (index, message) in list.iter_mut().enumerate() {
        let Value::Object(message) = message else { return Err(MessageError::NoRole { index }) };
        if !message.get("role").is_some_and(Value::is_string) {
            return Err(MessageError::NoRole { index });
        }
        normalise_content(index, message)?;
    }
    Ok(())
}

fn normalise_content(index: usize, message: &mut Map<String, Value>) -> Result<(), MessageError> {
    let text = match message.get("content") {
        Some(Value::String(_)) => return Ok(()),
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(parts)) => {
            let texts: Result<Vec<&str>, _> =
                parts.iter().enumerate().map(|(part, value)| part_text(index, part, value)).collect();
            texts?.join("\n")
        }
        Some(other) => return Err(MessageError::Content { index, got: type_name(other) }),
    };
    message.insert("content".into(), Value::String(text));
    Ok(())
}

fn part_text(index: usize, part: usize, value: &Value) -> Result<&str, MessageError> {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or("");
    match value.get("text").and_then(Value::as_str) {
        Some(text) if kind == "text" => Ok(text),
        _ => Err(MessageError::Part { index, part, got: kind.into() }),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalised(mut messages: Value) -> Result<Value, String> {
        normalise_messages(&mut messages).map(|()| messages).map_err(|error| error.to_string())
    }

    #[test]
    fn null_absent_and_split_content_become_one_string() {
        let given = json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": null, "tool_calls": [1]},
            {"role": "assistant", "tool_calls": [1]},
            {"role": "user", "content": "plain"},
        ]);
        let contents: Vec<Value> = normalised(given)
            .expect("valid")
            .as_array()
            .expect("list")
            .iter()
            .map(|m| m["content"].clone())
            .collect();
        assert_eq!(contents, [json!("a\nb"), json!(""), json!(""), json!("plain")]);
    }

    #[test]
    fn what_is_not_text_is_refused_by_place() {
        let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]);
        assert_eq!(
            normalised(image).expect_err("an image"),
            "messages[0].content[0]: expected a part of type 'text', got 'image_url'"
        );
        let error = |messages| normalised(messages).expect_err("invalid");
        assert_eq!(error(json!({})), "messages: expected a list, got an object");
        assert_eq!(error(json!([{"content": "x"}])), "messages[0]: expected an object with a string 'role'");
        assert!(error(json!([{"role": "user", "content": 3}])).contains("got a number"));
    }
}
