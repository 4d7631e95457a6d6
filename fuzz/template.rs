//! Chat templates: a hostile template, given ordinary messages.

use minfer::text::chat::DateTime;
use minfer::text::{ChatTemplate, RenderInput};

/// A short conversation with every kind of value that a template may ask about.
const MESSAGES: &str = r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "a <b> é 1"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}]"#;

/// Compiling and rendering `data` must end, in text or in an error.
pub fn template(data: &[u8]) {
    let source = String::from_utf8_lossy(data);
    let Ok(template) = ChatTemplate::new(&source, Some("<s>"), Some("</s>")) else { return };
    let Ok(messages) = MESSAGES.parse() else { return };
    let now = DateTime::from_unix_seconds(i64::from(data.len() as u32) << 12);
    let input =
        RenderInput { messages: &messages, tools: None, kwargs: None, add_generation_prompt: true, now };
    // Either outcome is right: only a panic, an overflow or endless work is not.
    drop(template.render(&input));
}
