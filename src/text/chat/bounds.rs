//! Bounds on what a template builds, where minijinja's own fuel does not reach.
//!
//! Fuel counts instructions and bytes, but a list that holds another list twice costs no more than two slots, and forty
//! such steps make a value that nothing can walk to its end. So every value that gets a name goes through a filter
//! (`dialect` puts it there) that walks it once, within limits, and turns lazy sequences into real ones. A namespace is
//! the only value that can change, so none may be inside another value: then nothing can contain itself.

use minijinja::value::{Object, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Name of the filter for values of variables; see [`kept`].
pub(super) const KEPT: &str = "__kept";
/// Name of the filter for values of a namespace's fields; see [`stored`].
pub(super) const STORED: &str = "__stored";

/// Deepest nesting of lists and maps: more than JSON readers take, and safe on a small thread stack.
const MAX_DEPTH: usize = 128;
/// Items of a value, nested ones included.
const MAX_ITEMS: usize = 200_000;
/// Items that cost one step.
const ITEMS_PER_STEP: usize = 16;
/// Widest field that `str.format` makes.
const MAX_WIDTH: usize = 1000;

/// The filter behind [`KEPT`]: the value itself, if it is small enough to be walked.
pub(super) fn kept(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, 0)
}

/// The filter behind [`STORED`]: as [`kept`], but for values inside of a namespace.
pub(super) fn stored(state: &State, value: Value) -> Result<Value, Error> {
    bounded(state, value, 1)
}

fn bounded(state: &State, value: Value, depth: usize) -> Result<Value, Error> {
    let mut walk = Walk { n_items: 0 };
    let value = walk.visit(value, depth)?;
    state.consume_fuel((walk.n_items / ITEMS_PER_STEP) as u64)?;
    Ok(value)
}

struct Walk {
    n_items: usize,
}

impl Walk {
    fn visit(&mut self, value: Value, depth: usize) -> Result<Value, Error> {
        self.n_items += 1;
        if self.n_items > MAX_ITEMS {
            return Err(too_big("too many items"));
        }
        match value.kind() {
            ValueKind::Map | ValueKind::Seq | ValueKind::Iterable if depth > MAX_DEPTH => {
                Err(too_big("nested too deeply"))
            }
            ValueKind::Map if depth > 0 && is_namespace(&value) => {
                Err(too_big("a namespace inside another value"))
            }
            ValueKind::Map => self.map(value, depth),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth),
            _ => Ok(value),
        }
    }

    fn map(&mut self, value: Value, depth: usize) -> Result<Value, Error> {
        let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
        for (_, item) in pairs.into_iter().flatten() {
            self.visit(item, depth + 1)?;
        }
        Ok(value)
    }

    fn sequence(&mut self, value: Value, depth: usize) -> Result<Value, Error> {
        let is_real = value.downcast_object_ref::<Vec<Value>>().is_some() || is::<Tuple>(&value);
        let mut items = Vec::new();
        for item in value.try_iter()? {
            let item = self.visit(item, depth + 1)?;
            if !is_real {
                items.push(item);
            }
        }
        Ok(if is_real { value } else { Value::from(items) })
    }
}

fn is<T: Object + 'static>(value: &Value) -> bool {
    value.downcast_object_ref::<T>().is_some()
}

/// The type is minijinja's own secret; its name is all that can be seen.
fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

fn too_big(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("value is too big: {what}"))
}

/// Python's methods, without fields of any width that `str.format` would make.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if name == "format" && value.as_str().is_some_and(has_wide_field) {
        return Err(too_big("a format with too wide a field"));
    }
    unknown_method_callback(state, value, name, args)
}

fn has_wide_field(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.into_iter().any(|digits| digits.parse().is_ok_and(|n: usize| n > MAX_WIDTH) || digits.len() > 18)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use crate::text::chat::{ChatTemplate, DateTime, RenderInput, TemplateError};

    fn render(source: &str) -> Result<String, TemplateError> {
        ChatTemplate::new(source, None, None)?.render(&RenderInput {
            messages: &json!([{"role": "user", "content": "hi"}]),
            tools: None,
            kwargs: None,
            add_generation_prompt: true,
            now: DateTime::from_unix_seconds(0),
        })
    }

    #[test]
    fn values_that_cannot_be_walked_are_refused_at_once() {
        let again = |step: &str| format!("{{% set a = [1] %}}{}{{{{ a }}}}", step.repeat(60));
        let field = |expression: &str| {
            let line = format!("{{% set n.a = {expression} %}}");
            format!(
                "{{% set n = namespace(a=[1]) %}}{{% for i in range(9000) %}}{line}{{% endfor %}}{{{{ n.a }}}}"
            )
        };
        let sources = [
            again("{% set a = [a, a] %}"),
            again("{% set a = a + a %}"),
            again("{%- set a = {'x': a, 'y': a} -%}"),
            again("{% set a, b = [a, a], 1 %}"),
            again("{% with b = [a, a] %}{% set a = b %}") + &"{% endwith %}".repeat(60),
            field("[n.a, n.a]"),
            field("[n.a]"),
            field("n.a + n.a"),
            "{% macro m(x, n=20) %}{{ m([x, x, x, x], n - 1) if n else x }}{% endmacro %}{{ m(1) }}"
                .to_string(),
            "{% for x in [1] recursive %}{{ loop([x, x, x]) if loop.depth < 30 else x }}{% endfor %}"
                .to_string(),
            "{% set n = namespace() %}{% set n.a = n %}{{ n }}".to_string(),
            "{% set n = namespace() %}{% set n.a = [{'b': n}] %}{{ n.a | tojson }}".to_string(),
            format!("{{% set n = 1 %}}{}{{{{ n }}}}", "{% set n = namespace(a=n) %}".repeat(9)),
            "{{ '{:>1000000000}'.format(1) }}".to_string(),
            "{{ '{:.1000000000f}'.format(1.0) }}".to_string(),
        ];
        for source in sources {
            let start = Instant::now();
            assert!(render(&source).is_err(), "{source}");
            assert!(start.elapsed() < Duration::from_secs(5), "{source}");
        }
    }

    #[test]
    fn code_that_would_nest_without_end_is_refused_on_a_small_stack() {
        let sources = [
            format!("{{{{ {}1 }}}}", "-".repeat(50_000)),
            format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
            format!("{{{{ 1{} }}}}", " + 1".repeat(50_000)),
            format!("\n{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(50_000)),
            format!("{{{{ x{} }}}}", ".x".repeat(50_000)),
            format!("{{% set x = {}1 %}}", "-".repeat(50_000)),
        ];
        for source in sources {
            let error = render(&source).expect_err("too long");
            assert!(matches!(error, TemplateError::Syntax { line: 1 | 2, .. }), "{error}");
        }
        // What is just allowed must fit into the stack of a thread.
        for source in [
            format!("{{{{ {}1 }}}}", "-".repeat(1900)),
            format!("{{{{ 1{} }}}}", " + 1".repeat(900)),
            format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(190)),
        ] {
            render(&source).expect("allowed");
        }
    }

    #[test]
    fn ordinary_values_keep_their_text() {
        for (source, expected) in [
            ("{% set a = messages[0:] + [{'role': 'x'}] %}{{ a | length }}{{ a[1].role }}", "2x"),
            ("{% set a, b = 1, [2] %}{{ a }}{{ b }}", "1[2]"),
            (
                "{%- set n = namespace(l=[]) -%} {%- for i in range(3) -%} {%- set n.l = n.l + [i] -%} {%- endfor -%} {{ n.l }}",
                "[0, 1, 2]",
            ),
            ("{% set a = b if false %}{{ a is defined }}", "False"),
            ("{% set a %}x{% endset %}{{ a }}", "x"),
            ("{% macro m(a, b='(,') -%}\n {{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m([1]) }}", "1(,[1](,"),
            ("{% macro m(a) %}\n{{ a is defined }}{% endmacro %}{{ m() }}", "False"),
            ("{% with a = 1, b = [2] %}\n{{ a }}{{ b }}{% endwith %}", "1[2]"),
            ("{{ '{:>3}|{}'.format(1, 'b') }}", "  1|b"),
        ] {
            assert_eq!(render(source).expect(source), expected, "{source}");
        }
    }
}
