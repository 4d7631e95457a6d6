//! Keeps text from users apart from the template's own while a template works on both.
//!
//! Control tokens in a prompt must come from the template. The template is an arbitrary program, so the prompt is
//! rendered a second time with suspicious stretches of the user's text replaced by private-use characters that occur
//! nowhere else. Where putting the text back gives the very same prompt, the replaced places are the user's, and
//! tokenising treats them as text. A template may look at the text it is given (`split('</think>')`), and then the
//! two renders differ; so weaker replacements are tried in turn, down to single tokens. A token that no attempt can
//! place is made text everywhere: an answer may get worse, but no user gives orders.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::template::{ChatTemplate, RenderInput, TemplateError};
use crate::text::{Prompt, Tokenizer};

/// First character of the supplementary private-use planes, from which marks are taken.
const FIRST_MARK: char = '\u{f0000}';

/// Renders `input` and marks where control tokens of `tokenizer` must not be.
pub(super) fn prompt(
    template: &ChatTemplate,
    input: &RenderInput<'_>,
    tokenizer: &Tokenizer,
) -> Result<Prompt, TemplateError> {
    let text = template.render(input)?;
    let guard = Guard { template, input, tokenizer, text: &text };
    let untrusted = guard.untrusted();
    Ok(Prompt::new(text, untrusted))
}

struct Guard<'a> {
    template: &'a ChatTemplate,
    input: &'a RenderInput<'a>,
    tokenizer: &'a Tokenizer,
    text: &'a str,
}

impl Guard<'_> {
    fn untrusted(&self) -> Vec<Range<usize>> {
        let edges = self.edge_characters();
        let wide = |text: &str| self.wide_spans(text, &edges);
        if self.find_in_input(&wide).is_empty() {
            return Vec::new();
        }
        if let Some(ranges) = self.attempt(&wide) {
            return ranges;
        }
        let narrow = |text: &str| self.tokenizer.control_spans(text);
        let spelled = self.find_in_input(&narrow);
        if spelled.is_empty() {
            return Vec::new();
        }
        self.attempt(&narrow).unwrap_or_else(|| self.one_by_one(spelled))
    }

    /// First and last characters of control tokens, where they are punctuation: without one of these from the template,
    /// no control token can be put together from pieces of the user's text.
    fn edge_characters(&self) -> Vec<char> {
        let ends = |text: &str| [text.chars().next(), text.chars().next_back()];
        let mut edges: Vec<char> = self.tokenizer.control_texts().flat_map(ends).flatten().collect();
        edges.retain(|c| !c.is_alphanumeric() && !c.is_whitespace());
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Control tokens spelled out, and edge characters anywhere else.
    fn wide_spans(&self, text: &str, edges: &[char]) -> Vec<Range<usize>> {
        let mut spans = self.tokenizer.control_spans(text);
        let n_spelled = spans.len();
        for (at, c) in text.char_indices() {
            let next = spans[..n_spelled].partition_point(|span| span.end <= at);
            let is_inside = spans[..n_spelled].get(next).is_some_and(|span| span.start <= at);
            if !is_inside && edges.binary_search(&c).is_ok() {
                spans.push(at..at + c.len_utf8());
            }
        }
        spans.sort_unstable_by_key(|span| span.start);
        spans
    }

    /// Each token alone; those that cannot be placed are untrusted wherever they are.
    fn one_by_one(&self, spelled: Vec<String>) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for token in spelled {
            let only = |text: &str| occurrences(text, &token);
            ranges.extend(self.attempt(&only).unwrap_or_else(|| occurrences(self.text, &token)));
        }
        joined(ranges)
    }

    /// Renders with `spans` of every string replaced. `None` when the template does something else with that.
    fn attempt(&self, spans: &dyn Fn(&str) -> Vec<Range<usize>>) -> Option<Vec<Range<usize>>> {
        let mut marks = Marks { taken: self.private_use_characters(), texts: Vec::new(), ran_out: false };
        let mut replace = |text: &str| marks.replace(text, &spans(text));
        let messages = mapped(self.input.messages, &mut replace);
        let tools = self.input.tools.map(|tools| mapped(tools, &mut replace));
        let kwargs = self.input.kwargs.map(|kwargs| mapped_object(kwargs, &mut replace));
        let input = RenderInput {
            messages: &messages,
            tools: tools.as_ref(),
            kwargs: kwargs.as_ref(),
            ..*self.input
        };
        let (text, ranges) = marks.restore(&self.template.render(&input).ok()?);
        (text == self.text && !marks.ran_out).then(|| joined(ranges))
    }

    /// The distinct stretches that `spans` picks from all strings of the input.
    fn find_in_input(&self, spans: &dyn Fn(&str) -> Vec<Range<usize>>) -> Vec<String> {
        let mut found = Vec::new();
        self.each_string(&mut |text| found.extend(spans(text).into_iter().map(|span| text[span].to_owned())));
        found.sort_unstable();
        found.dedup();
        found
    }

    fn private_use_characters(&self) -> Vec<char> {
        let mut taken = Vec::new();
        let mut note = |text: &str| taken.extend(text.chars().filter(|&c| c >= FIRST_MARK));
        self.each_string(&mut note);
        note(self.text);
        note(self.template.source());
        taken.sort_unstable();
        taken
    }

    fn each_string(&self, visit: &mut dyn FnMut(&str)) {
        visit_strings(self.input.messages, visit);
        self.input.tools.into_iter().for_each(|tools| visit_strings(tools, visit));
        for (key, value) in self.input.kwargs.into_iter().flatten() {
            visit(key);
            visit_strings(value, visit);
        }
    }
}

/// Characters that stand for stretches of text.
struct Marks {
    /// Private-use characters that the input uses itself, sorted.
    taken: Vec<char>,
    /// Each mark with what it stands for.
    texts: Vec<(char, String)>,
    /// Whether there were too few free characters.
    ran_out: bool,
}

impl Marks {
    fn replace(&mut self, text: &str, spans: &[Range<usize>]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            out.push_str(&text[at..span.start]);
            match self.mark_for(&text[span.clone()]) {
                Some(mark) => out.push(mark),
                None => self.ran_out = true,
            }
            at = span.end;
        }
        out.push_str(&text[at..]);
        out
    }

    fn mark_for(&mut self, text: &str) -> Option<char> {
        if let Some((mark, _)) = self.texts.iter().find(|(_, known)| known == text) {
            return Some(*mark);
        }
        let first = self.texts.last().map_or(FIRST_MARK, |(last, _)| *last);
        let is_free =
            |c: &char| self.taken.binary_search(c).is_err() && self.texts.last().is_none_or(|(l, _)| l < c);
        let mark = (first..=char::MAX).find(is_free)?;
        self.texts.push((mark, text.to_owned()));
        Some(mark)
    }

    /// Puts the text back; also where it went, in bytes.
    fn restore(&self, text: &str) -> (String, Vec<Range<usize>>) {
        let mut out = String::with_capacity(text.len());
        let mut ranges = Vec::new();
        for c in text.chars() {
            match self.texts.binary_search_by_key(&c, |&(mark, _)| mark) {
                Ok(i) => {
                    let start = out.len();
                    out.push_str(&self.texts[i].1);
                    ranges.push(start..out.len());
                }
                Err(_) => out.push(c),
            }
        }
        (out, ranges)
    }
}

/// Sorted, with ranges that touch or overlap joined.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn occurrences(text: &str, token: &str) -> Vec<Range<usize>> {
    text.match_indices(token).map(|(at, _)| at..at + token.len()).collect()
}

fn visit_strings(value: &Json, visit: &mut dyn FnMut(&str)) {
    match value {
        Json::String(text) => visit(text),
        Json::Array(items) => items.iter().for_each(|item| visit_strings(item, visit)),
        Json::Object(map) => map.iter().for_each(|(key, value)| {
            visit(key);
            visit_strings(value, visit);
        }),
        _ => {}
    }
}

fn mapped(value: &Json, replace: &mut dyn FnMut(&str) -> String) -> Json {
    match value {
        Json::String(text) => Json::String(replace(text)),
        Json::Array(items) => Json::Array(items.iter().map(|item| mapped(item, replace)).collect()),
        Json::Object(map) => Json::Object(mapped_object(map, replace)),
        other => other.clone(),
    }
}

fn mapped_object(map: &Map<String, Json>, replace: &mut dyn FnMut(&str) -> String) -> Map<String, Json> {
    map.iter().map(|(key, value)| (replace(key), mapped(value, replace))).collect()
}
