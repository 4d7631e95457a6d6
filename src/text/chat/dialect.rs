//! Small rewrites of a template's source, where minijinja and Jinja2 as transformers sets it up differ.
//!
//! - `{% generation %}` only marks answers for training: it becomes a condition that always holds.
//! - A loop over `none` is an error in Python and an empty loop here: what is looped over goes through a filter.
//! - What gets a name goes through the filters of `bounds`.
//!
//! White-space control and line numbers stay as they are; comments, strings and raw blocks are left alone.

use super::bounds::{KEPT, STORED};

/// Words of one expression or tag. The compiler nests as deeply as there are operators in a row.
const MAX_WORDS: usize = 2000;
/// `elif` tags of a template, each of which the compiler nests in the one before.
const MAX_ELIFS: usize = 200;

/// Name of the filter that refuses `none`; see [`iterated`].
pub(super) const ITERATED: &str = "__iterated";

/// The filter behind [`ITERATED`]: the value itself, unless Python could not loop over it.
pub(super) fn iterated(value: minijinja::Value) -> Result<minijinja::Value, minijinja::Error> {
    if value.is_none() {
        let message = "'NoneType' object is not iterable";
        return Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message));
    }
    Ok(value)
}

/// Code that is too much for the compiler's stack.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooComplex {
    /// Where, from 1.
    pub(super) line: usize,
    /// What there is too much of.
    pub(super) what: &'static str,
}

/// `source` in minijinja's dialect.
pub(super) fn adapted(source: &str) -> Result<String, TooComplex> {
    let mut out = String::with_capacity(source.len() + source.len() / 16);
    let mut rest = source;
    let mut n_elifs = 0;
    while let Some(start) = next_opening(rest) {
        let (before, block) = rest.split_at(start);
        out.push_str(before);
        let closing = match &block[..2] {
            "{#" => block[2..].find("#}").map(|at| at + 2),
            "{{" => end_of_code(block, "}}"),
            _ => end_of_code(block, "%}"),
        };
        // An unfinished block is the compiler's to report.
        let Some(end) = closing else {
            rest = block;
            break;
        };
        let (inner, after) = (&block[2..end], &block[end + 2..]);
        n_elifs += usize::from(block.starts_with("{%") && first_word(inner) == "elif");
        if !block.starts_with("{#") && n_words(inner) > MAX_WORDS || n_elifs > MAX_ELIFS {
            let line = source[..source.len() - block.len()].matches('\n').count() + 1;
            let what = if n_elifs > MAX_ELIFS { "`elif` tags" } else { "operators in one place" };
            return Err(TooComplex { line, what });
        }
        match first_word(inner) {
            _ if !block.starts_with("{%") => out.push_str(&block[..end + 2]),
            "generation" => push_tag(&mut out, &inner.replacen("generation", "if true", 1)),
            "endgeneration" => push_tag(&mut out, &inner.replacen("endgeneration", "endif", 1)),
            "for" => push_bounded(&mut out, &with_filter(inner)),
            "set" => push_tag(&mut out, &with_bounds(inner)),
            "macro" | "with" => push_bounded(&mut out, inner),
            "raw" => {
                let length = end_of_raw(after);
                out.push_str(&block[..end + 2 + length]);
                rest = &after[length..];
                continue;
            }
            _ => push_tag(&mut out, inner),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn n_words(inner: &str) -> usize {
    let mut words = Words { text: inner, at: 0 };
    std::iter::from_fn(|| words.next()).filter(|(_, word)| !word.trim().is_empty()).count()
}

/// `set target = (expression)|filter`; a `set` without a `=` stays.
fn with_bounds(inner: &str) -> String {
    let end = inner.strip_suffix(['-', '+']).unwrap_or(inner).len();
    let mut words = Words { text: inner, at: 0 };
    let assignment = std::iter::from_fn(|| words.next()).find(|&(_, word)| word == "=");
    match assignment.map(|(at, _)| (at, at + 1)) {
        Some((at, start)) if start < end && !inner[start..end].trim().is_empty() => {
            let filter = if inner[..at].contains('.') { STORED } else { KEPT };
            format!("{}({})|{filter} {}", &inner[..start], &inner[start..end], &inner[end..])
        }
        _ => inner.to_owned(),
    }
}

/// A tag that gives names to values, and after it one `set` for each name.
fn push_bounded(out: &mut String, inner: &str) {
    let body = inner.strip_suffix(['-', '+']).unwrap_or(inner);
    let names = names_given(body);
    if names.is_empty() {
        return push_tag(out, inner);
    }
    push_tag(out, body);
    for (i, name) in names.iter().enumerate() {
        let end = if i + 1 == names.len() { &inner[body.len()..] } else { "" };
        push_tag(out, &format!(" set {name} = ({name})|{KEPT} {end}"));
    }
}

/// The parameters of `macro name(a, b=c)`, the variables of `with a = b, c = d`, and those of a recursive loop, which
/// calls itself with any value.
fn names_given(body: &str) -> Vec<&str> {
    let mut words = Words { text: body, at: 0 };
    let words: Vec<&str> = std::iter::from_fn(|| words.next())
        .map(|(_, word)| word)
        .filter(|word| !word.trim().is_empty())
        .collect();
    let is_macro = first_word(body) == "macro";
    if first_word(body) == "for" {
        let targets = words.iter().take_while(|word| **word != "in").copied();
        let is_name =
            |word: &&str| *word != "for" && word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        return if words.last() == Some(&"recursive") {
            targets.filter(is_name).collect()
        } else {
            Vec::new()
        };
    }
    let mut depth = 0usize;
    let mut names = Vec::new();
    for (i, &word) in words.iter().enumerate() {
        match word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ if depth == usize::from(is_macro) && i > 0 => {
                let opens = if is_macro { ["(", ","] } else { ["with", ","] };
                let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
                if opens.contains(&words[i - 1]) && is_name {
                    names.push(word);
                }
            }
            _ => {}
        }
    }
    names
}

fn push_tag(out: &mut String, inner: &str) {
    out.push_str("{%");
    out.push_str(inner);
    out.push_str("%}");
}

/// Where the next comment, expression or tag starts.
fn next_opening(text: &str) -> Option<usize> {
    text.match_indices('{')
        .map(|(at, _)| at)
        .find(|&at| matches!(text.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')))
}

/// Where `closing` stands outside of strings.
fn end_of_code(block: &str, closing: &str) -> Option<usize> {
    let mut rest = Words { text: block, at: 2 };
    loop {
        if block.get(rest.at..)?.starts_with(closing) {
            return Some(rest.at);
        }
        rest.next()?;
    }
}

/// Length of the text up to the tag that ends a raw block.
fn end_of_raw(text: &str) -> usize {
    let ends = |&(at, _): &(usize, &str)| first_word(&text[at + 2..]) == "endraw";
    text.match_indices("{%").find(ends).map_or(text.len(), |(at, _)| at)
}

fn first_word(inner: &str) -> &str {
    let text = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// `for target in (expression)|filter if condition recursive`.
fn with_filter(inner: &str) -> String {
    let mut words = Words { text: inner, at: 0 };
    let mut depth = 0usize;
    let mut start = None;
    let mut end = inner.strip_suffix(['-', '+']).unwrap_or(inner).len();
    while let Some((at, word)) = words.next() {
        match word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "in" if depth == 0 && start.is_none() => start = Some(words.at),
            "if" | "recursive" if depth == 0 && start.is_some() => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    match start {
        Some(start) if start < end => {
            let (head, expression, tail) = (&inner[..start], &inner[start..end], &inner[end..]);
            format!("{head} ({expression})|{ITERATED} {tail}")
        }
        _ => inner.to_owned(),
    }
}

/// Reads code word by word: a name or number, a string, or a single other character.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn next(&mut self) -> Option<(usize, &'t str)> {
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let length = match first {
            '"' | '\'' => string_length(rest, first),
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let at = self.at;
        self.at += length;
        Some((at, &rest[..length]))
    }
}

/// Length of the string that `text` starts with, quotes included.
fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::adapted;

    #[test]
    fn loops_go_through_the_filter_and_generation_becomes_a_condition() {
        let adapted = |source| super::adapted(source).expect("simple");
        assert_eq!(adapted("{%- for a in b -%}x"), "{%- for a in ( b )|__iterated -%}x");
        assert_eq!(
            adapted("{% for k, v in f('if', (a if b else c)) if k recursive %}"),
            "{% for k, v in ( f('if', (a if b else c)) )|__iterated if k recursive %}\
             {% set k = (k)|__kept %}{% set v = (v)|__kept %}"
        );
        assert_eq!(adapted("{%- generation %}a{% endgeneration +%}"), "{%- if true %}a{% endif +%}");
    }

    #[test]
    fn what_gets_a_name_goes_through_a_filter() {
        let adapted = |source| super::adapted(source).expect("simple");
        assert_eq!(adapted("{%- set a = b == c -%}"), "{%- set a =( b == c )|__kept -%}");
        assert_eq!(adapted("{% set n.a = b %}"), "{% set n.a =( b )|__stored %}");
        assert_eq!(adapted("{% set a %}{% set a = %}"), "{% set a %}{% set a = %}");
        let body = "{% set a = (a)|__kept %}{% set c = (c)|__kept -%}";
        assert_eq!(adapted("{% macro m(a, c=f(d, e)) -%}"), format!("{{% macro m(a, c=f(d, e)) %}}{body}"));
        assert_eq!(
            adapted("{% with a = f(d, e), c = 2 -%}"),
            format!("{{% with a = f(d, e), c = 2 %}}{body}")
        );
        assert_eq!(adapted("{% macro m() %}"), "{% macro m() %}");
    }

    #[test]
    fn text_comments_strings_and_raw_blocks_stay() {
        for source in [
            "for a in b {# {% for a in b %} #} { {",
            "{{ '{% for a in b %}' }}{% set x = '%} {% generation %}' %}",
            "{% raw %}{% for a in b %}{% endraw %}{% if a in b %}",
            "{#}",
            "{% for a",
            "{% for",
            "{{ 'unfinished",
            "{% raw %}{% for a in b %}",
        ] {
            assert_eq!(
                adapted(source).expect("simple"),
                source.replace(
                    "{% set x = '%} {% generation %}' %}",
                    "{% set x =( '%} {% generation %}' )|__kept %}"
                )
            );
        }
    }
}
