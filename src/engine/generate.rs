//! The generation loop.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::stop::StopMatcher;
use super::{Context, EngineError, Logits, Sampler, Session, Timings};
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
        let answer = Answer::new(engine.tokenizer(), options, n_max, on_piece);
        let mut turn = Turn { sampler, cancel, answer, tokens: prompt.to_vec(), n_drafted: 0, n_accepted: 0 };
        let mut guesses = Vec::new();
        let finish = loop {
            let n_computed = self.tokens().len();
            let chosen = match logits {
                Ok(logits) => turn.choose(logits, &guesses),
                Err(EngineError::Cancelled) => break FinishReason::Cancelled,
                Err(EngineError::Kv(KvError::Full { .. })) => break FinishReason::Length,
                Err(error) => return Err(error),
            };
            let n_right = chosen.as_ref().map_or(0, |chosen| chosen.n_right);
            self.truncate(context, n_computed - guesses.len() + n_right)?;
            if let Some(finish) = chosen?.finish {
                break finish;
            }
            guesses = self.guess(&turn, guesses.len(), n_right)?;
            turn.n_drafted += guesses.len();
            logits = self.extend_drafted(context, turn.last(), &mut guesses, cancel);
        };
        let Turn { answer, n_drafted, n_accepted, .. } = turn;
        let (ids, text) = answer.finish(finish);
        let timings = Timings {
            n_prompt: prompt.len(),
            n_cached,
            prompt_time,
            n_generated: ids.len(),
            decode_time: start.elapsed(),
            n_drafted,
            n_accepted,
        };
        Ok(Generated { ids, text, finish, timings })
    }

    /// Guesses what follows the tokens of `turn`, after `n_right` of the `n_drafted` guesses before turned
    /// out right. Not more than the answer may still hold after the next choice.
    fn guess(&mut self, turn: &Turn<'_>, n_drafted: usize, n_right: usize) -> Result<Vec<u32>, EngineError> {
        let Some(draft) = &mut self.draft else { return Ok(Vec::new()) };
        draft.learn(n_drafted, n_right);
        match draft.propose(&turn.tokens, turn.answer.n_left() - 1, turn.cancel) {
            // The step that follows notices it too.
            Err(EngineError::Cancelled) => Ok(Vec::new()),
            guesses => guesses,
        }
    }
}

/// What one answer is made with.
struct Turn<'a> {
    sampler: &'a mut Sampler,
    cancel: &'a AtomicBool,
    answer: Answer<'a>,
    /// The prompt and what was chosen so far.
    tokens: Vec<u32>,
    n_drafted: usize,
    n_accepted: usize,
}

/// What was chosen from the logits of one step.
struct Chosen {
    /// Guesses that were chosen and need not be computed again.
    n_right: usize,
    /// The reason to stop, if there is one.
    finish: Option<FinishReason>,
}

impl Turn<'_> {
    /// Chooses a token from each row of `logits`, `[n_vocab, 1 + n_guesses] f32`, for as long as it is the
    /// one that was guessed and the next row therefore follows it. The sampler sees just what it sees without
    /// guesses.
    fn choose(&mut self, logits: Logits<'_>, guesses: &[u32]) -> Result<Chosen, EngineError> {
        let mut n_right = 0;
        if self.answer.n_left() == 0 {
            return Ok(Chosen { n_right, finish: Some(FinishReason::Length) });
        }
        loop {
            let id = self.sampler.sample(logits.row(n_right))?;
            self.sampler.accept(id);
            self.tokens.push(id);
            let finish = self.answer.push(id);
            let is_right = guesses.get(n_right) == Some(&id);
            self.n_accepted += usize::from(is_right);
            if !is_right || finish.is_some() {
                return Ok(Chosen { n_right, finish });
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(Chosen { n_right, finish: Some(FinishReason::Cancelled) });
            }
            n_right += 1;
        }
    }

    /// The last token.
    fn last(&self) -> u32 {
        self.tokens[self.tokens.len() - 1]
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

    /// Tokens that it may still take.
    fn n_left(&self) -> usize {
        self.n_max - self.ids.len()
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
            () if self.n_left() == 0 => Some(FinishReason::Length),
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
