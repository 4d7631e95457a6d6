//! The generation loop.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::stop::StopMatcher;
use super::{Context, EngineError, Sampler, Session, Timings};
use crate::kv::KvError;
use crate::text::{StreamDecoder, Tokenizer};

/// When to stop.
#[derive(Clone, Default, Debug)]
pub struct GenerateOptions {
    /// Tokens to generate at most; `None` for as many as the context holds.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer; neither they nor what follows is part of it. Empty ones are ignored.
    pub stop: Vec<String>,
    /// Go on after an end-of-generation token.
    pub ignore_eog: bool,
}

/// Why an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishReason {
    /// The model ended it, or a stop string was found.
    Stop,
    /// The token limit was reached, or the context is full.
    Length,
    /// The caller wanted no more.
    Cancelled,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Generated {
    /// The tokens, without the end-of-generation token.
    pub ids: Vec<u32>,
    /// The text, without any stop string.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// How long it took.
    pub timings: Timings,
}

/// Receives the answer's text piece by piece, whole characters only; `Break` ends the generation.
pub type OnPiece<'a> = dyn FnMut(&str) -> ControlFlow<()> + 'a;

/// What generation needs besides the model.
pub struct Generator<'a> {
    /// Chooses tokens. It must be new, or know this session's past.
    pub sampler: &'a mut Sampler,
    /// When to stop.
    pub options: &'a GenerateOptions,
    /// Raised by another thread to end the answer at the next token or prompt chunk.
    pub cancel: &'a AtomicBool,
    /// Receives the text.
    pub on_piece: &'a mut OnPiece<'a>,
}

impl Session {
    /// Computes `prompt`, reusing what is there of it, and generates until something stops it.
    pub fn generate(
        &mut self,
        context: &mut Context,
        prompt: &[u32],
        generator: Generator<'_>,
    ) -> Result<Generated, EngineError> {
        check_prompt(context, prompt)?;
        let Generator { sampler, options, cancel, on_piece } = generator;
        prompt.iter().for_each(|&id| sampler.accept(id));
        let engine = context.engine().clone();
        let n_max = options.max_tokens.unwrap_or(usize::MAX).min(context.n_ctx() - prompt.len());
        let start = Instant::now();
        let n_cached = self.rewind(context, prompt)?;
        let mut logits = self.extend(context, &prompt[n_cached..], cancel);
        let (prompt_time, start) = (start.elapsed(), Instant::now());
        let mut answer = Answer::new(engine.tokenizer(), options, n_max, on_piece);
        let finish = loop {
            let id = match logits {
                Ok(_) if answer.ids.len() >= answer.n_max => break FinishReason::Length,
                Ok(logits) => sampler.sample(logits.row(0))?,
                Err(EngineError::Cancelled) => break FinishReason::Cancelled,
                Err(EngineError::Kv(KvError::Full { .. })) => break FinishReason::Length,
                Err(error) => return Err(error),
            };
            sampler.accept(id);
            if let Some(finish) = answer.push(id) {
                break finish;
            }
            logits = self.extend(context, &[id], cancel);
        };
        let (ids, text) = answer.finish(finish);
        let timings = Timings {
            n_prompt: prompt.len(),
            n_cached,
            prompt_time,
            n_generated: ids.len(),
            decode_time: start.elapsed(),
        };
        Ok(Generated { ids, text, finish, timings })
    }
}

fn check_prompt(context: &Context, prompt: &[u32]) -> Result<(), EngineError> {
    let (n_prompt, n_ctx) = (prompt.len(), context.n_ctx());
    match n_prompt {
        0 => Err(EngineError::EmptyPrompt),
        n if n > n_ctx => Err(EngineError::PromptTooLong { n_prompt, n_ctx }),
        _ => Ok(()),
    }
}

/// The answer so far.
struct Answer<'a> {
    tokenizer: &'a Tokenizer,
    decoder: StreamDecoder,
    stops: StopMatcher,
    ignore_eog: bool,
    n_max: usize,
    ids: Vec<u32>,
    text: String,
    on_piece: &'a mut OnPiece<'a>,
}

impl<'a> Answer<'a> {
    fn new(
        tokenizer: &'a Tokenizer,
        options: &GenerateOptions,
        n_max: usize,
        on_piece: &'a mut OnPiece<'a>,
    ) -> Answer<'a> {
        Answer {
            tokenizer,
            decoder: tokenizer.decoder(),
            stops: StopMatcher::new(&options.stop),
            ignore_eog: options.ignore_eog,
            n_max,
            ids: Vec::new(),
            text: String::new(),
            on_piece,
        }
    }

    /// Takes a token. The reason to stop, if it is one.
    fn push(&mut self, id: u32) -> Option<FinishReason> {
        if !self.ignore_eog && self.tokenizer.is_end_of_generation(id) {
            return Some(FinishReason::Stop);
        }
        self.ids.push(id);
        let step = self.stops.push(&self.decoder.push(id));
        let shown = self.show(&step.text);
        match () {
            () if step.stopped => Some(FinishReason::Stop),
            () if shown.is_break() => Some(FinishReason::Cancelled),
            () if self.ids.len() >= self.n_max => Some(FinishReason::Length),
            () => None,
        }
    }

    /// Shows what was held back, unless a stop string ended the answer: then nothing is.
    fn finish(mut self, finish: FinishReason) -> (Vec<u32>, String) {
        if finish != FinishReason::Cancelled {
            let step = self.stops.push(&self.decoder.finish());
            let rest = step.text + &self.stops.finish();
            let _ = self.show(&rest);
        }
        (self.ids, self.text)
    }

    fn show(&mut self, text: &str) -> ControlFlow<()> {
        if text.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text.push_str(text);
        (self.on_piece)(text)
    }
}
