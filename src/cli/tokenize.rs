//! `minfer tokenize`: text to token ids.

use clap::Args;
use serde_json::json;

use super::args::{ModelArg, TextArg};
use super::error::CliError;
use super::output::{Output, text_from_stdin, warn};
use super::setup::App;
use crate::gguf::{Gguf, OpenOptions};
use crate::text::{Specials, Tokenizer, Vocab};

/// Print the token ids of a text
///
/// The text is taken as it is, a final newline included.
#[derive(Debug, Args)]
#[command(after_help = "Examples
  printf 'Hello world' | minfer tokenize smollm2:135m
  minfer tokenize model.gguf -p '<|im_start|>user' --parse-special --json")]
pub(super) struct TokenizeArgs {
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    text: TextArg,
    /// Let control tokens such as <|im_end|> in the text be tokens instead of text
    #[arg(long)]
    parse_special: bool,
    /// Add the begin- and end-of-sequence tokens that the model asks for
    #[arg(long)]
    add_special: bool,
    /// Print a JSON array of ids
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TokenizeArgs, app: &App) -> Result<(), CliError> {
    let path = app.model_path(&args.model)?;
    let gguf = Gguf::open(&path, &OpenOptions { mmap: true })?;
    let tokenizer = Vocab::from_metadata(gguf.metadata()).and_then(Tokenizer::new);
    let tokenizer = tokenizer.map_err(|source| CliError::Tokenizer { path, source })?;
    tokenizer.warnings().iter().for_each(|warning| warn(warning));
    let text = match &args.text.prompt {
        Some(text) => text.clone(),
        None => text_from_stdin()?,
    };
    let specials = if args.parse_special { Specials::Parse } else { Specials::Plain };
    let ids = match args.add_special {
        true => tokenizer.encode_sequence(&text, specials)?,
        false => tokenizer.encode(&text, specials)?,
    };
    if args.json {
        return Output::new().json(&json!(ids));
    }
    let mut lines = String::new();
    for id in ids {
        let piece = String::from_utf8_lossy(tokenizer.token_bytes(id));
        lines += &format!("{id:>7}  {piece:?}\n");
    }
    Output::new().text(&lines)
}
