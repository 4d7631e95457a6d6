//! How text is cut into words before merging, by the name in `tokenizer.ggml.pre`.
//!
//! A rule is a list of stages; each stage cuts every piece that the stage before left into its matches and what lies
//! between them. The patterns that models publish end in `\s+(?!\S)|\s+`: a run of white space leaves its last
//! character to the word after it. Look-ahead would put a backtracking engine on every text, so the patterns here end
//! in `\s+` and [`Stage::spaces`] gives the last character back. That keeps matching linear in the length of the
//! text.

use std::sync::OnceLock;

use fancy_regex::{Regex, RegexBuilder};

/// Most steps that a pattern may backtrack, should it ever need to.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// What a match of white space alone does when more text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spaces {
    /// It stays whole.
    Whole,
    /// It gives up its last character, if it has two or more.
    GiveLast,
    /// As [`GiveLast`](Self::GiveLast), unless it ends a line.
    GiveLastUnlessNewline,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    pattern: &'static str,
    spaces: Spaces,
}

/// One row of the table of rules.
struct Row {
    names: &'static [&'static str],
    stages: &'static [Stage],
    /// Whether a word that is a token as a whole is taken without merging.
    whole_words: bool,
    /// Whether a sequence starts with BOS when the file does not say.
    add_bos: bool,
}

const fn plain(pattern: &'static str) -> Stage {
    Stage { pattern, spaces: Spaces::Whole }
}

/// A pattern whose newlines have an alternative of their own.
const fn lines(pattern: &'static str) -> Stage {
    Stage { pattern, spaces: Spaces::GiveLastUnlessNewline }
}

const GPT2: Stage = Stage {
    pattern: r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    spaces: Spaces::GiveLast,
};

/// English contractions in either case. Spelled out, because a case-insensitive group would also match `ſ` and `K`.
macro_rules! contractions {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}

/// The rule of the tiktoken family, with the given letters, digits and marks after punctuation.
macro_rules! tiktoken {
    ($letters:literal, $digits:literal, $punctuation:literal) => {
        concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?",
            $letters,
            "|",
            $digits,
            "| ?",
            $punctuation,
            r"|\s*[\r\n]+|\s+"
        )
    };
}

/// Words in which a capital letter starts a new part, optionally followed by a contraction.
macro_rules! cased {
    ($contractions:expr, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]*[\p{L}&&[^A-Z]]+",
            $contractions,
            r"|[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]+[\p{L}&&[^A-Z]]*",
            $contractions,
            "|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
        )
    };
}

const QWEN2: Stage = lines(tiktoken!(r"\p{L}+", r"\p{N}", r"[^\s\p{L}\p{N}]+[\r\n]*"));
const LLAMA3: Stage = lines(tiktoken!(r"\p{L}+", r"\p{N}{1,3}", r"[^\s\p{L}\p{N}]+[\r\n]*"));
const QWEN35: Stage = lines(tiktoken!(r"[\p{L}\p{M}]+", r"\p{N}", r"[^\s\p{L}\p{M}\p{N}]+[\r\n]*"));
const SEED: Stage = lines(tiktoken!(r"\p{L}+", r"\p{N}", r"[^\s\p{L}\p{N}\r\n]+"));
const MINICPM5: Stage = lines(tiktoken!(r"\p{L}+", r"\p{N}+", r"[^\s\p{L}\p{N}]+[\r\n]*"));
const TEKKEN: Stage = lines(cased!("", r"\p{N}"));
const GPT_4O: Stage = lines(cased!(concat!(contractions!(), "?"), r"\p{N}{1,3}"));
const BAILING: Stage = lines(concat!(
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+"
));
const DEEPSEEK_V3: Stage = lines(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"
));
/// Words up to a bracket, a bar or the full stops and commas of several scripts.
const SENTENCE_WORDS: Stage = plain(r" ?[^(\s|.,!?…。，、।۔،)]+");
const DIGIT: Stage = plain(r"\p{N}");
const UP_TO_THREE_DIGITS: Stage = plain(r"\p{N}{1,3}");
const THREE_ASCII_DIGITS: Stage = plain("[0-9][0-9][0-9]");

const fn row(names: &'static [&'static str], stages: &'static [Stage]) -> Row {
    Row { names, stages, whole_words: false, add_bos: false }
}

const ROWS: &[Row] = &[
    row(
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        &[QWEN2],
    ),
    row(&["qwen35"], &[QWEN35]),
    Row {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        stages: &[LLAMA3],
        whole_words: true,
        add_bos: true,
    },
    row(&["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], &[LLAMA3]),
    Row { names: &["minicpm5"], stages: &[UP_TO_THREE_DIGITS, MINICPM5], whole_words: true, add_bos: false },
    Row { names: &["tekken"], stages: &[TEKKEN], whole_words: true, add_bos: true },
    row(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT_4O]),
    row(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[DIGIT, GPT2],
    ),
    row(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
        ],
        &[GPT2],
    ),
    row(&["falcon"], &[plain(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, THREE_ASCII_DIGITS]),
    row(&[DEFAULT_NAME], &[plain(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, plain(r"\p{N}+"), THREE_ASCII_DIGITS]),
    row(&["bloom", "poro-chat", "gpt3-finnish"], &[SENTENCE_WORDS]),
    row(&["viking"], &[SENTENCE_WORDS, DIGIT]),
    row(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    row(&["seed-coder"], &[SEED]),
    row(
        &["deepseek-coder"],
        &[
            plain(r"[\r\n]"),
            plain(r"\s?\p{L}+"),
            plain(r"\s?\p{P}+"),
            plain(r"[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+"),
            DIGIT,
        ],
    ),
    row(
        &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        &[UP_TO_THREE_DIGITS, plain(r"[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+"), DEEPSEEK_V3],
    ),
];

/// The rule for files that name none.
pub(super) const DEFAULT_NAME: &str = "default";

/// The names this build knows, sorted.
pub(super) fn known_names() -> Vec<&'static str> {
    let mut names: Vec<_> = ROWS.iter().flat_map(|row| row.names.iter().copied()).collect();
    names.sort_unstable();
    names
}

/// A rule ready for use; its patterns are compiled when a text first needs them.
#[derive(Debug)]
pub(super) struct Pretokenizer {
    stages: Vec<(Stage, OnceLock<Regex>)>,
    /// Whether a word that is a token as a whole is taken without merging.
    pub(super) whole_words: bool,
    /// Whether a sequence starts with BOS when the file does not say.
    pub(super) add_bos: bool,
}

impl Pretokenizer {
    /// The rule called `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let row = ROWS.iter().find(|row| row.names.contains(&name))?;
        Some(Self {
            stages: row.stages.iter().map(|&stage| (stage, OnceLock::new())).collect(),
            whole_words: row.whole_words,
            add_bos: row.add_bos,
        })
    }

    /// Calls `word` for each word of `text`, in order; together they are `text`.
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
        word: &mut dyn FnMut(&'t str),
    ) -> Result<(), Box<fancy_regex::Error>> {
        split_by(&self.stages, text, word)
    }
}

fn split_by<'t>(
    stages: &[(Stage, OnceLock<Regex>)],
    text: &'t str,
    word: &mut dyn FnMut(&'t str),
) -> Result<(), Box<fancy_regex::Error>> {
    let Some(((stage, regex), later)) = stages.split_first() else {
        if !text.is_empty() {
            word(text);
        }
        return Ok(());
    };
    let regex = compiled(stage, regex)?;
    let mut at = 0;
    while at < text.len() {
        let Some(found) = regex.find_from_pos(text, at)? else { break };
        let matched = found.as_str();
        let end = found.start() + kept(stage.spaces, matched, found.end() == text.len());
        if at < found.start() {
            split_by(later, &text[at..found.start()], word)?;
        }
        split_by(later, &text[found.start()..end], word)?;
        at = end;
    }
    if at < text.len() {
        split_by(later, &text[at..], word)?;
    }
    Ok(())
}

/// The length in bytes of what a match keeps; never zero.
fn kept(spaces: Spaces, matched: &str, is_last: bool) -> usize {
    let gives = match spaces {
        Spaces::Whole => false,
        Spaces::GiveLast => true,
        Spaces::GiveLastUnlessNewline => !matched.ends_with(['\r', '\n']),
    };
    let Some(last) = matched.chars().next_back() else { return matched.len() };
    let n_before = matched.len() - last.len_utf8();
    if gives && !is_last && n_before > 0 && matched.chars().all(char::is_whitespace) {
        n_before
    } else {
        matched.len()
    }
}

fn compiled<'r>(stage: &Stage, regex: &'r OnceLock<Regex>) -> Result<&'r Regex, Box<fancy_regex::Error>> {
    if let Some(regex) = regex.get() {
        return Ok(regex);
    }
    let built =
        RegexBuilder::new(stage.pattern).backtrack_limit(BACKTRACK_LIMIT).build().map_err(Box::new)?;
    Ok(regex.get_or_init(|| built))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let mut words = Vec::new();
        let rule = Pretokenizer::named(name).expect("known name");
        rule.split(text, &mut |word| words.push(word)).expect("linear pattern");
        words
    }

    #[test]
    fn every_rule_compiles_and_loses_no_text() {
        let text =
            "I'LL say  'hi' (twice)\r\n\n\t x123456,7\u{a0}\u{3000}日本語 कि\u{0}ÀéB NaïveCamelCase/\n  ";
        for name in known_names() {
            assert_eq!(words(name, text).concat(), text, "{name}");
        }
    }

    #[test]
    fn no_name_is_in_two_rows() {
        let mut names = known_names();
        names.dedup();
        assert_eq!(names.len(), known_names().len());
        assert!(Pretokenizer::named("foo").is_none());
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(words("qwen2", "a   b"), ["a", "  ", " b"]);
        assert_eq!(words("qwen2", "a \n\n  b "), ["a", " \n\n", " ", " b", " "]);
        assert_eq!(words("qwen2", "a \t\u{3000}1"), ["a", " \t", "\u{3000}", "1"]);
        assert_eq!(words("gpt-2", "a\n\nb\n\n"), ["a", "\n", "\n", "b", "\n\n"]);
    }

    #[test]
    fn digits_group_as_the_rule_says() {
        assert_eq!(words("qwen2", "1234567"), ["1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(words("llama-bpe", "1234567"), ["123", "456", "7"]);
        assert_eq!(words("gpt-2", " 1234567"), [" 1234567"]);
        assert_eq!(words("smollm", "a 12"), ["a", " ", "1", "2"]);
        assert_eq!(words("deepseek-v3", "x=1234!"), ["x", "=", "123", "4", "!"]);
    }

    #[test]
    fn capitals_start_parts_only_where_the_rule_says() {
        assert_eq!(words("gpt-4o", "HelloWorld's IT'S"), ["Hello", "World's", " IT'S"]);
        assert_eq!(words("tekken", "HelloWorld's"), ["Hello", "World", "'s"]);
        assert_eq!(words("qwen2", "HelloWorld's"), ["HelloWorld", "'s"]);
    }
}
