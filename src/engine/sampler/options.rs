//! What a user can set, and what is in range.

use std::fmt;
use std::str::FromStr;

/// A step that narrows or reshapes the candidates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Keep the `top_k` largest logits.
    TopK,
    /// Keep the locally typical tokens (Meister et al., "Locally Typical Sampling", 2022).
    Typical,
    /// Keep the smallest set of probability `top_p` (Holtzman et al., "The Curious Case of Neural Text Degeneration",
    /// 2019).
    TopP,
    /// Keep tokens at least `min_p` times as probable as the best.
    MinP,
    /// Divide logits by the temperature.
    Temperature,
}

impl Stage {
    /// Every stage, in the default order.
    pub const ALL: [Stage; 5] = [Stage::TopK, Stage::Typical, Stage::TopP, Stage::MinP, Stage::Temperature];

    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Stage::TopK => "top_k",
            Stage::Typical => "typical_p",
            Stage::TopP => "top_p",
            Stage::MinP => "min_p",
            Stage::Temperature => "temperature",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stage {
    type Err = OptionError;

    fn from_str(name: &str) -> Result<Stage, OptionError> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| OptionError {
            name: "samplers",
            expected: format!("names out of {}", Stage::ALL.map(Stage::name).join(", ")),
            got: name.to_owned(),
        })
    }
}

/// How tokens are drawn. The defaults are llama.cpp's.
#[derive(Clone, PartialEq, Debug)]
pub struct SamplerOptions {
    /// Divides the logits; 0 means greedy.
    pub temperature: f32,
    /// Candidates kept by [`Stage::TopK`]; 0 or less disables it.
    pub top_k: i64,
    /// Probability kept by [`Stage::TopP`]; 1 disables it, 0 keeps only the best.
    pub top_p: f32,
    /// Share of the best probability asked for by [`Stage::MinP`]; 0 disables it.
    pub min_p: f32,
    /// Probability kept by [`Stage::Typical`]; 1 disables it.
    pub typical_p: f32,
    /// Factor against tokens seen recently: positive logits are divided, negative ones multiplied; 1 disables it.
    pub repeat_penalty: f32,
    /// Subtracted once per occurrence of a recent token.
    pub frequency_penalty: f32,
    /// Subtracted once from every recent token.
    pub presence_penalty: f32,
    /// Tokens that count as recent; -1 for all, 0 disables penalties.
    pub penalty_last_n: i64,
    /// Added to logits: token and bias; `-inf` bans the token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the random generator.
    pub seed: u64,
    /// The stages in order; a stage may be absent or repeated.
    pub stages: Vec<Stage>,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_last_n: 64,
            logit_bias: Vec::new(),
            seed: 0,
            stages: Stage::ALL.to_vec(),
        }
    }
}

/// An option outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: expected {expected}, got {got}")]
pub struct OptionError {
    /// The option.
    pub name: &'static str,
    /// Its range.
    pub expected: String,
    /// What was given.
    pub got: String,
}

impl SamplerOptions {
    /// Greedy decoding.
    pub fn greedy() -> SamplerOptions {
        SamplerOptions { temperature: 0.0, ..SamplerOptions::default() }
    }

    /// Checks every option's range.
    pub fn check(&self) -> Result<(), OptionError> {
        let unit = 0.0..=1.0;
        let penalty = -2.0..=2.0;
        for (name, value, range) in [
            ("temperature", self.temperature, 0.0..=f32::MAX),
            ("top_p", self.top_p, unit.clone()),
            ("min_p", self.min_p, unit.clone()),
            ("typical_p", self.typical_p, unit),
            ("repeat_penalty", self.repeat_penalty, f32::MIN_POSITIVE..=f32::MAX),
            ("frequency_penalty", self.frequency_penalty, penalty.clone()),
            ("presence_penalty", self.presence_penalty, penalty),
        ] {
            if !range.contains(&value) {
                let expected = match (*range.start(), *range.end()) {
                    (start, f32::MAX) if start > 0.0 => "a number above 0".to_owned(),
                    (start, f32::MAX) => format!("a finite number of at least {start}"),
                    (start, end) => format!("a number from {start} to {end}"),
                };
                return Err(OptionError { name, expected, got: value.to_string() });
            }
        }
        if self.penalty_last_n < -1 {
            let (expected, got) = ("-1 or more".to_owned(), self.penalty_last_n.to_string());
            return Err(OptionError { name: "penalty_last_n", expected, got });
        }
        match self.logit_bias.iter().find(|(_, bias)| bias.is_nan() || *bias == f32::INFINITY) {
            None => Ok(()),
            Some((_, bias)) => {
                let expected = "a finite number or -inf".to_owned();
                Err(OptionError { name: "logit_bias", expected, got: bias.to_string() })
            }
        }
    }
}
