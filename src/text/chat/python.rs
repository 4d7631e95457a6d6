//! JSON as Python writes it: the `tojson` filter of transformers' templates.

use minijinja::value::{Kwargs, Serde};
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

/// Deepest nesting that is written; templates see nothing deeper.
const MAX_DEPTH: usize = 128;

/// How `json.dumps` lays out its text.
struct Style {
    /// Spaces or text per level; `None` writes everything on one line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

/// The filter: `value | tojson(ensure_ascii, indent, separators, sort_keys)`. Insertion order and no escapes by
/// default.
pub(super) fn tojson(value: Serde<Json>, options: Kwargs) -> Result<Value, Error> {
    let style = Style::from_options(&options)?;
    options.assert_all_used()?;
    let mut out = String::new();
    style.write(&value.0, 0, &mut out)?;
    Ok(Value::from_safe_string(out))
}

impl Style {
    fn from_options(options: &Kwargs) -> Result<Self, Error> {
        let indent = match options.get::<Option<Value>>("indent")? {
            None => None,
            Some(value) if value.is_none() => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(usize::from(u8::try_from(value)?)),
            }),
        };
        let separators: Option<Vec<String>> = options.get("separators")?;
        let [item_separator, key_separator] = match separators.map(<[String; 2]>::try_from) {
            None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
            Some(Ok(pair)) => pair,
            Some(Err(_)) => {
                return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators are two strings"));
            }
        };
        let flag = |name| options.get::<Option<bool>>(name).map(|flag| flag.unwrap_or(false));
        Ok(Self {
            indent,
            item_separator,
            key_separator,
            sort_keys: flag("sort_keys")?,
            ensure_ascii: flag("ensure_ascii")?,
        })
    }

    fn write(&self, value: &Json, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: value is nested too deeply"));
        }
        match value {
            Json::Null => out.push_str("null"),
            Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => out.push_str(&float_repr(float)),
                None => out.push_str(&number.to_string()),
            },
            Json::String(text) => self.write_string(text, out),
            Json::Array(items) => {
                let write = |item: &Json, out: &mut String| self.write(item, depth + 1, out);
                self.write_items(['[', ']'], items.iter(), depth, out, write)?;
            }
            Json::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                if self.sort_keys {
                    entries.sort_by_key(|(key, _)| key.as_str());
                }
                self.write_items(['{', '}'], entries.into_iter(), depth, out, |(key, value), out| {
                    self.write_string(key, out);
                    out.push_str(&self.key_separator);
                    self.write(value, depth + 1, out)
                })?;
            }
        }
        Ok(())
    }

    fn write_items<T>(
        &self,
        [open, close]: [char; 2],
        items: impl ExactSizeIterator<Item = T>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(T, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_empty = items.len() == 0;
        out.push(open);
        for (i, item) in items.enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.write_line_break(depth + 1, out);
            write(item, out)?;
        }
        if !is_empty {
            self.write_line_break(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn write_line_break(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A float as Python's `repr` writes it: shortest digits, exponent outside 1e-4 … 1e16.
fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_like_python() {
        for (value, text) in [
            (0.5, "0.5"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (123456.789, "123456.789"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }
}
