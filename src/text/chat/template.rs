//! A model's Jinja template, rendered with transformers' settings and bounded work.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};

use super::clock::DateTime;
use super::guard;
use super::python;
use super::{bounds, dialect};
use crate::error::Hint;
use crate::text::{Prompt, Tokenizer};

/// Name of the one template of an environment.
const NAME: &str = "chat";

/// Instructions (and 64-byte steps of new text) that one render may take.
const FUEL: u64 = 2_000_000;

/// Deepest nesting of macro calls and loops: far above any real template, and safe on a small thread stack.
const RECURSION_LIMIT: usize = 120;

/// Why a template cannot be used, or messages cannot be rendered with it.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error("chat template: line {line}: {message}")]
    Syntax {
        /// Line of the template, from 1; 0 when unknown.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template itself refuses these messages.
    #[error("chat template: {message}")]
    Raised {
        /// The template's own words.
        message: String,
    },
    /// Rendering takes more work than any conversation needs.
    #[error("chat template: line {line}: too much work: expected at most {limit} steps", limit = FUEL)]
    TooMuchWork {
        /// Line of the template, from 1; 0 when unknown.
        line: usize,
    },
    /// The template does something impossible with these messages.
    #[error("chat template: line {line}: {message}")]
    Render {
        /// Line of the template, from 1; 0 when unknown.
        line: usize,
        /// What is wrong there.
        message: String,
    },
}

impl Hint for TemplateError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Raised { .. } => {
                Some("change the order or roles of the messages to what the model expects".into())
            }
            Self::Syntax { .. } | Self::TooMuchWork { .. } => Some("give a different chat template".into()),
            Self::Render { .. } => None,
        }
    }
}

/// What a template is given.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The list of messages; key order is kept. See [`normalise_messages`](super::normalise_messages).
    pub messages: &'a Json,
    /// The list of tools, or `None`.
    pub tools: Option<&'a Json>,
    /// Further variables, such as `enable_thinking`. They cannot replace `messages` or `tools`.
    pub kwargs: Option<&'a Map<String, Json>>,
    /// Whether the text ends with the start of an answer.
    pub add_generation_prompt: bool,
    /// What `strftime_now` prints.
    pub now: DateTime,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    /// `bos_token` and `eos_token`, where the model has them.
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// Compiles `source`; `bos` and `eos` are the texts of those tokens.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] with the line of the template.
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(syntax_error)?);
        environment.set_unknown_method_callback(bounds::method);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION_LIMIT);
        environment.add_filter("tojson", python::tojson);
        environment.add_filter(dialect::ITERATED, dialect::iterated);
        environment.add_filter(bounds::KEPT, bounds::kept);
        environment.add_filter(bounds::STORED, bounds::stored);
        environment.add_test("iterable", is_iterable);
        environment.add_function("raise_exception", raise_exception);
        let adapted = dialect::adapted(source).map_err(|dialect::TooComplex { line, what }| {
            TemplateError::Syntax { line, message: format!("too many {what}") }
        })?;
        environment.add_template_owned(NAME, adapted).map_err(syntax_error)?;
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens = tokens.into_iter().filter_map(|(name, text)| Some((name, text?.to_owned()))).collect();
        Ok(Self { environment, source: source.to_owned(), tokens })
    }

    /// The template as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt text. Nothing tells the user's text from the template's: see [`prompt`](Self::prompt).
    ///
    /// # Errors
    /// [`TemplateError`]; never a panic, whatever the messages and the template are.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, TemplateError> {
        let template = self.environment.get_template(NAME).map_err(render_error)?;
        template.render(self.variables(input)).map_err(render_error)
    }

    /// The prompt with the places marked in which the messages, tools or variables spell out control tokens of
    /// `tokenizer`; [`Tokenizer::encode_prompt`] makes text of those.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn prompt(&self, input: &RenderInput<'_>, tokenizer: &Tokenizer) -> Result<Prompt, TemplateError> {
        guard::prompt(self, input, tokenizer)
    }

    fn variables(&self, input: &RenderInput<'_>) -> Value {
        let mut variables = BTreeMap::new();
        for (name, text) in &self.tokens {
            variables.insert((*name).to_owned(), Value::from(text.as_str()));
        }
        for (name, value) in input.kwargs.into_iter().flatten() {
            variables.insert(name.clone(), Value::from(Serde(value)));
        }
        let now = input.now;
        variables.insert("messages".into(), Value::from(Serde(input.messages)));
        variables
            .insert("tools".into(), input.tools.map_or(Value::from(()), |tools| Value::from(Serde(tools))));
        variables.entry("documents".into()).or_insert(Value::from(()));
        variables.insert("add_generation_prompt".into(), Value::from(input.add_generation_prompt));
        variables
            .insert("strftime_now".into(), Value::from_function(move |format: &str| now.strftime(format)));
        Value::from(variables)
    }
}

/// Marks an error as the template's own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RaisedByTemplate(String);

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(RaisedByTemplate(message)))
}

fn syntax_error(error: Error) -> TemplateError {
    TemplateError::Syntax { line: error.line().unwrap_or(0), message: message_of(&error) }
}

fn render_error(error: Error) -> TemplateError {
    let line = error.line().unwrap_or(0);
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        if let Some(RaisedByTemplate(message)) = cause.downcast_ref() {
            return TemplateError::Raised { message: message.clone() };
        }
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TemplateError::TooMuchWork { line },
        _ => TemplateError::Render { line, message: message_of(&error) },
    }
}

fn message_of(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Python cannot loop over `None`; undefined values are empty.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str) -> Result<String, TemplateError> {
        let messages = json!([{"role": "user", "content": "hi <b>"}]);
        let kwargs = json!({"flag": false, "map": {"b": 1.0, "a": ["é", null, 1e-7]}});
        ChatTemplate::new(source, Some("<s>"), None)?.render(&RenderInput {
            messages: &messages,
            tools: None,
            kwargs: kwargs.as_object(),
            add_generation_prompt: true,
            now: DateTime::from_unix_seconds(0),
        })
    }

    #[test]
    fn a_syntax_error_names_the_line() {
        let error = render("a\n{% if %}").expect_err("no condition");
        assert!(matches!(error, TemplateError::Syntax { line: 2, .. }), "{error}");
    }

    #[test]
    fn the_template_speaks_for_itself_when_it_refuses() {
        let error = render("\n{{ raise_exception('roles must alternate') }}").expect_err("raised");
        assert_eq!(error.to_string(), "chat template: roles must alternate");
        let nested =
            render("{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}").expect_err("raised");
        assert!(matches!(nested, TemplateError::Raised { .. }), "{nested}");
    }

    #[test]
    fn work_and_recursion_are_bounded() {
        let slow = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
        assert!(matches!(render(slow), Err(TemplateError::TooMuchWork { .. })));
        let deep = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
        assert!(matches!(render(deep), Err(TemplateError::Render { .. })));
        let big = "{% set n = namespace(s='x' * 1000) %}{% for a in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}";
        assert!(render(big).is_err());
    }

    #[test]
    fn tojson_writes_what_python_writes() {
        assert_eq!(render("{{ map | tojson }}").expect("valid"), r#"{"b": 1.0, "a": ["é", null, 1e-07]}"#);
        assert_eq!(
            render("{{ map | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}")
                .expect("valid"),
            r#"{"a":["\u00e9",null,1e-07],"b":1.0}"#
        );
        assert_eq!(
            render("{{ map | tojson(indent=2) }}").expect("valid"),
            "{\n  \"b\": 1.0,\n  \"a\": [\n    \"é\",\n    null,\n    1e-07\n  ]\n}"
        );
        assert_eq!(render("{{ messages[0].content | tojson }}").expect("valid"), r#""hi <b>""#);
    }

    #[test]
    fn booleans_arrive_as_booleans_and_generation_tags_vanish() {
        assert_eq!(render("{% if flag is false %}no{% endif %}").expect("valid"), "no");
        assert_eq!(render("a {%- generation %}\n b{% endgeneration -%} c").expect("valid"), "a bc");
        assert_eq!(
            render("{{ strftime_now('%d %b %Y') }}{{ bos_token }}{{ eos_token }}").expect("valid"),
            "01 Jan 1970<s>"
        );
    }
}
