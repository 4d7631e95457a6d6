//! From messages to prompt text: the model's own template, rendered as transformers renders it.

mod bounds;
mod clock;
mod dialect;
mod guard;
mod messages;
mod python;
mod template;

pub use clock::DateTime;
pub use messages::{MessageError, normalise_messages};
pub use template::{ChatTemplate, RenderInput, TemplateError};
