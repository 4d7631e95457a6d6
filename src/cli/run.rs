//! `minfer run`: answers one prompt.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::args::{ContextArgs, DraftArgs, DumpArgs, EngineArgs, ModelFlags, SamplingArgs};
use super::error::CliError;
use super::graph::dump;
use super::output::{Output, note, size, stderr_is_terminal, warn};
use super::prompt::{prompt_from_stdin, prompt_ids, read_template};
use super::setup::App;
use super::watch::Watch;
use crate::engine::{
    Context, ContextOptions, DeviceOptions, Draft, Engine, EngineOptions, FinishReason, GenerateOptions,
    Generated, Generator, Sampler, Session, Timings,
};
use crate::store::{ModelRef, Store};

/// Answer one prompt; standard output is only the answer
///
/// With one word or sentence and no -m, it is the model if it names one (an existing file, a name of the
/// catalogue or the store, or a form with a prefix such as hf:), and else the prompt for the default model.
/// Without a prompt, standard input is the prompt.
#[derive(Debug, Args)]
#[command(after_help = "Examples
  minfer run \"Why is the sky blue?\"
  minfer run qwen2.5-coder:0.5b \"Write hello world in C\" -n 100
  git diff | minfer run -m model.gguf --system \"Summarise this change\"
  minfer run -p \"Once upon a time\" --raw --temp 0 --json")]
pub(super) struct RunArgs {
    /// The model, then the prompt; either may be left out
    #[arg(value_name = "MODEL] [PROMPT", num_args = 0..=2)]
    words: Vec<OsString>,
    /// The prompt, instead of the positional one
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<OsString>,
    #[command(flatten)]
    model: ModelFlags,
    /// Tokens to generate at most; -1 for as many as the context holds
    #[arg(short = 'n', long, value_name = "N", default_value = "512", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(-1..))]
    n_predict: i64,
    /// System message
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// End the answer where this text would begin; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Continue the prompt as it is, without a chat template
    #[arg(long)]
    raw: bool,
    /// Use this Jinja chat template instead of the model's
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    chat_template_file: Option<PathBuf>,
    /// Print one JSON object: text, ids, finish reason, timings
    #[arg(long)]
    json: bool,
    /// Say on standard error what is loaded and how fast it runs
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    draft: DraftArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    dump: DumpArgs,
}

/// Which of the words is what.
#[derive(Debug, PartialEq)]
struct Words {
    model: Option<OsString>,
    prompt: Option<String>,
}

pub(super) fn run(args: &RunArgs, app: &App) -> Result<(), CliError> {
    let store = app.store().ok();
    let words = sort_words(args, &|text| names_a_model(text, store.as_ref()))?;
    let template_source = args.chat_template_file.as_deref().map(read_template).transpose()?;
    let prompt = match words.prompt {
        Some(prompt) => prompt,
        None => prompt_from_stdin()?,
    };
    let options = app.engine_options(&args.engine, app.expected_context(&args.context))?;
    let options = EngineOptions { chat_template: template_source, ..options };
    let mut sampler = Sampler::new(args.sampling.options())?;
    let path = app.named_model_path(words.model.as_deref(), &args.model)?;
    let engine = app.load(&path, &options)?;
    let ids = prompt_ids(&engine, &prompt, args.system.as_deref(), args.raw)?;
    let mut context = open_context(args, app, &engine, ids.len())?;
    let mut session = Session::open(&mut context)?;
    if let Some(draft) = open_draft(args, app, context.n_ctx())? {
        session.set_draft(&context, draft)?;
    }
    let watch = Watch::install(&app.config, &mut context)?;
    let generated = answer(args, app, &mut context, &mut session, &mut sampler, &ids)?;
    watch.finish(&context)?;
    dump(&mut context, &args.dump)?;
    if args.verbose {
        describe_run(&generated.timings);
    }
    if args.json {
        Output::new().json(&report(&path, &ids, &generated, sampler.options().seed))?;
    }
    match generated.finish {
        FinishReason::Cancelled => Err(CliError::Interrupted),
        _ => Ok(()),
    }
}

/// Decides which word is the model and which the prompt.
fn sort_words(args: &RunArgs, is_model: &dyn Fn(&OsStr) -> bool) -> Result<Words, CliError> {
    let flag_model = args.model.model.clone();
    let (first, second) = (args.words.first().cloned(), args.words.get(1).cloned());
    let too_many =
        |what, got: &OsStr| Err(CliError::usage(what, "it once", format!("also {}", got.to_string_lossy())));
    let (model, prompt) = match (flag_model, &args.prompt, first, second) {
        (Some(_), _, Some(_), Some(second)) => return too_many("MODEL and -m", &second),
        (Some(_), Some(_), Some(first), None) => return too_many("PROMPT and -p", &first),
        (None, Some(_), Some(_), Some(second)) => return too_many("PROMPT and -p", &second),
        (Some(model), prompt, word, None) => (Some(model), prompt.clone().or(word)),
        (None, Some(prompt), word, None) => (word, Some(prompt.clone())),
        (None, None, Some(word), None) if is_model(&word) => (Some(word), None),
        (None, None, Some(word), None) => (None, Some(word)),
        (model, prompt, None, _) => (model, prompt.clone()),
        (None, None, Some(model), Some(prompt)) => (Some(model), Some(prompt)),
    };
    let not_text = |word: OsString| CliError::usage("PROMPT", "UTF-8 text", word.to_string_lossy());
    let prompt = prompt.map(|prompt| prompt.into_string().map_err(not_text)).transpose()?;
    Ok(Words { model, prompt })
}

/// True if a single word means a model and not a prompt.
fn names_a_model(text: &OsStr, store: Option<&Store>) -> bool {
    let known =
        |reference: &ModelRef| store.is_some_and(|store| matches!(store.find(reference), Ok(Some(_))));
    match ModelRef::parse(text) {
        Ok(ModelRef::Path(path)) => {
            let is_file_name = !text.to_string_lossy().contains(char::is_whitespace)
                && path.extension().is_some_and(|extension| extension == "gguf");
            is_file_name || path.exists()
        }
        Ok(reference @ ModelRef::Name(_)) => known(&reference),
        // A prefix alone does not make a reference: "hf: what is it?" is a question.
        Ok(_) => !text.to_string_lossy().contains(char::is_whitespace),
        Err(_) => false,
    }
}

fn open_context(args: &RunArgs, app: &App, engine: &Engine, n_prompt: usize) -> Result<Context, CliError> {
    let n_ctx = args.context.n_ctx(n_prompt, max_tokens(args), engine.model().hparams.n_ctx_train);
    let context = engine.context(&app.context_options(n_ctx, args.context.kv))?;
    context.warnings().iter().for_each(|warning| warn(warning));
    if args.verbose {
        let model = engine.model();
        note(&format!(
            "model: {} with {} layers on {}; context: {} tokens, {} of keys and values; {} threads, {} kernels",
            model.arch.name,
            model.hparams.n_layer,
            engine.placement(),
            context.n_ctx(),
            size(context.kv_bytes() as u64),
            engine.n_threads(),
            engine.isa().name(),
        ));
    }
    Ok(context)
}

/// Loads what guesses ahead, if anything shall.
fn open_draft(args: &RunArgs, app: &App, n_ctx: usize) -> Result<Option<Draft>, CliError> {
    let Some(name) = &args.draft.draft else { return Ok(None) };
    let n_max = usize::try_from(args.draft.draft_max).unwrap_or(usize::MAX);
    if name == "ngram" {
        return Ok(Some(Draft::ngram(n_max)));
    }
    let path = app.named_model_path(Some(name), &args.model)?;
    // Beside a model that must not use a device, the smaller one does without, too.
    let options = app.engine_options(&args.engine, ContextOptions::default())?;
    let engine = app.load(&path, &EngineOptions { device: DeviceOptions::default(), ..options })?;
    let context = engine.context(&app.context_options(Some(n_ctx), args.context.kv))?;
    Ok(Some(Draft::model(context, n_max)?))
}

fn max_tokens(args: &RunArgs) -> Option<usize> {
    usize::try_from(args.n_predict).ok()
}

/// Generates the answer and shows it as it grows.
fn answer(
    args: &RunArgs,
    app: &App,
    context: &mut Context,
    session: &mut Session,
    sampler: &mut Sampler,
    ids: &[u32],
) -> Result<Generated, CliError> {
    let mut output = Output::new();
    let mut failure = None;
    let mut on_piece = |piece: &str| match if args.json { Ok(()) } else { output.text(piece) } {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let options =
        GenerateOptions { max_tokens: max_tokens(args), stop: args.stop.clone(), ignore_eog: false };
    let cancel = app.interrupt.flag();
    let generator = Generator { sampler, options: &options, cancel, on_piece: &mut on_piece };
    let generated = session.generate(context, ids, generator)?;
    if let Some(error) = failure {
        return Err(error);
    }
    if !args.json {
        output.text("\n")?;
    }
    if generated.finish == FinishReason::Length && stderr_is_terminal() {
        note(&format!("(ended after {} tokens; -n and -c set the limits)", generated.ids.len()));
    }
    Ok(generated)
}

fn describe_run(timings: &Timings) {
    note(&format!(
        "prompt: {} tokens, {:.2} tokens/s; answer: {} tokens, {:.2} tokens/s",
        timings.n_prompt,
        timings.prompt_tokens_per_second(),
        timings.n_generated,
        timings.decode_tokens_per_second(),
    ));
    if timings.n_drafted > 0 {
        note(&format!("drafts: {} of {} tokens were right", timings.n_accepted, timings.n_drafted));
    }
}

fn report(path: &Path, prompt_ids: &[u32], generated: &Generated, seed: u64) -> Value {
    let timings = &generated.timings;
    json!({
        "model": path.to_string_lossy(),
        "text": generated.text,
        "ids": generated.ids,
        "finish_reason": match generated.finish {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        },
        "prompt_ids": prompt_ids,
        "seed": seed,
        "timings": {
            "prompt_n": timings.n_prompt,
            "prompt_ms": timings.prompt_time.as_secs_f64() * 1e3,
            "prompt_per_second": timings.prompt_tokens_per_second(),
            "predicted_n": timings.n_generated,
            "predicted_ms": timings.decode_time.as_secs_f64() * 1e3,
            "predicted_per_second": timings.decode_tokens_per_second(),
            "draft_n": timings.n_drafted,
            "draft_n_accepted": timings.n_accepted,
        },
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: RunArgs,
    }

    fn sorted(line: &[&str]) -> Result<(Option<String>, Option<String>), CliError> {
        let command = Command::try_parse_from([&["run"], line].concat())
            .map_err(|error| CliError::usage("test", "arguments", error.to_string()))?;
        let words = sort_words(&command.args, &|text| text.to_string_lossy().ends_with(".gguf"))?;
        Ok((words.model.map(|model| model.to_string_lossy().into_owned()), words.prompt))
    }

    #[test]
    fn one_word_is_the_model_if_it_names_one_and_else_the_prompt() {
        let some = |text: &str| Some(text.to_string());
        assert_eq!(sorted(&[]).unwrap(), (None, None));
        assert_eq!(sorted(&["m.gguf"]).unwrap(), (some("m.gguf"), None));
        assert_eq!(sorted(&["hello"]).unwrap(), (None, some("hello")));
        assert_eq!(sorted(&["m", "hello"]).unwrap(), (some("m"), some("hello")));
        assert_eq!(sorted(&["-m", "m", "hello"]).unwrap(), (some("m"), some("hello")));
        assert_eq!(sorted(&["-m", "m", "m.gguf"]).unwrap(), (some("m"), some("m.gguf")));
        assert_eq!(sorted(&["m", "-p", "-hello"]).unwrap(), (some("m"), some("-hello")));
        assert_eq!(sorted(&["-p", "hello"]).unwrap(), (None, some("hello")));
    }

    #[test]
    fn a_model_or_a_prompt_given_twice_is_refused() {
        for line in [&["-m", "m", "a", "b"][..], &["-m", "m", "-p", "a", "b"], &["m", "a", "-p", "b"]] {
            assert!(sorted(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_question_is_no_model() {
        for text in ["hf: what is it?", "Is a.b/c a path?", "/ is what?", "why"] {
            assert!(!names_a_model(OsStr::new(text), None), "{text}");
        }
        for text in ["smollm2", "hf:o/r", "missing.gguf", "https://h/x.gguf"] {
            assert!(names_a_model(OsStr::new(text), None), "{text}");
        }
    }
}
