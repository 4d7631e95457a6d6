//! The process environment: one table of variables, read once into [`Config`] and passed down.
//!
//! Nothing else in the crate reads the environment (proxy variables are read by the HTTP client itself).

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Hint;

/// How the text of a variable is understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// On unless the variable is absent, empty, `0`, `false`, `no` or `off` (any case).
    Flag,
    /// A path; empty means absent.
    Path,
    /// Text; empty means absent.
    Text,
    /// A whole number; empty means absent.
    Count,
}

impl Rule {
    /// What `minfer doctor --vars` calls the rule.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Flag => "flag",
            Rule::Path => "path",
            Rule::Text => "text",
            Rule::Count => "number",
        }
    }
}

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// How its text is understood.
    pub rule: Rule,
    /// What happens when it is absent.
    pub default: &'static str,
    /// What it is for, one line.
    pub meaning: &'static str,
}

const fn variable(name: &'static str, rule: Rule, default: &'static str, meaning: &'static str) -> Variable {
    Variable { name, rule, default, meaning }
}

const MODELS: Variable = variable(
    "MINFER_MODELS",
    Rule::Path,
    "$XDG_DATA_HOME/minfer, ~/.local/share/minfer or %LOCALAPPDATA%\\minfer",
    "folder of downloaded models",
);
const THREADS: Variable =
    variable("MINFER_THREADS", Rule::Count, "0", "worker threads; 0 picks a number; -t wins");
const ISA: Variable =
    variable("MINFER_ISA", Rule::Text, "the best this CPU has", "CPU kernels to use, e.g. scalar or avx2");
const BACKENDS: Variable = variable(
    "MINFER_BACKENDS",
    Rule::Text,
    "all",
    "backends that may be used, comma separated; CPU always may; --backend wins",
);
const GPU_MEMORY: Variable = variable(
    "MINFER_GPU_MEMORY",
    Rule::Count,
    "what the device reports",
    "MiB that weights, keys and values, and graphs may take on a device; --gpu-memory wins",
);
const GPU_FAULT: Variable = variable(
    "MINFER_GPU_FAULT",
    Rule::Count,
    "0",
    "fault drill for deployments: a context's device is lost after this many splits, as in a driver crash; 0 never",
);
const DISABLE_MPS: Variable = variable("MINFER_DISABLE_MPS", Rule::Flag, "off", "never use Metal");
const DISABLE_CUDA: Variable = variable("MINFER_DISABLE_CUDA", Rule::Flag, "off", "never use CUDA");
const DISABLE_VULKAN: Variable = variable("MINFER_DISABLE_VULKAN", Rule::Flag, "off", "never use Vulkan");
const NO_FUSE_QKV: Variable =
    variable("MINFER_NO_FUSE_QKV", Rule::Flag, "off", "build separate Q, K and V nodes when decoding");
const NO_FUSE_FFN: Variable =
    variable("MINFER_NO_FUSE_FFN", Rule::Flag, "off", "build separate gate and up nodes when decoding");
const GRAPH_TRACE: Variable = variable(
    "MINFER_GRAPH_TRACE",
    Rule::Flag,
    "off",
    "print splits and a census of ops for every new graph on stderr",
);
const OP_PROFILE: Variable =
    variable("MINFER_OP_PROFILE", Rule::Flag, "off", "print the time spent per op after the run on stderr");
const TRACE: Variable = variable(
    "MINFER_TRACE",
    Rule::Path,
    "none",
    "write the time of every node to this file, for chrome://tracing or ui.perfetto.dev",
);
const HF_TOKEN: Variable =
    variable("HF_TOKEN", Rule::Text, "none", "token for gated or private Hugging Face repositories");
const HF_ENDPOINT: Variable =
    variable("HF_ENDPOINT", Rule::Text, "https://huggingface.co", "Hugging Face mirror to download from");
const NO_COLOR: Variable = variable("NO_COLOR", Rule::Flag, "off", "no colours and no progress bars");
const XDG_DATA_HOME: Variable =
    variable("XDG_DATA_HOME", Rule::Path, "~/.local/share", "parent of the default MINFER_MODELS");
const LOCALAPPDATA: Variable =
    variable("LOCALAPPDATA", Rule::Path, "set by Windows", "parent of the default MINFER_MODELS on Windows");
const HOME: Variable = variable("HOME", Rule::Path, "set by the system", "where ~ is");

/// Every variable that minfer reads.
pub const VARIABLES: &[Variable] = &[
    MODELS,
    THREADS,
    ISA,
    BACKENDS,
    GPU_MEMORY,
    GPU_FAULT,
    DISABLE_MPS,
    DISABLE_CUDA,
    DISABLE_VULKAN,
    NO_FUSE_QKV,
    NO_FUSE_FFN,
    GRAPH_TRACE,
    OP_PROFILE,
    TRACE,
    HF_TOKEN,
    HF_ENDPOINT,
    NO_COLOR,
    XDG_DATA_HOME,
    LOCALAPPDATA,
    HOME,
];

/// A variable that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The value is not a whole number.
    #[error("environment variable: {name}: expected a whole number, got {got:?}")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        got: String,
    },
    /// The value is below zero.
    #[error("environment variable: {name}: expected a number from 0 up, got {got}")]
    Negative {
        /// The variable.
        name: &'static str,
        /// Its value.
        got: String,
    },
    /// The value is not Unicode.
    #[error("environment variable: {name}: expected Unicode text, got other bytes")]
    NotUnicode {
        /// The variable.
        name: &'static str,
    },
}

impl Hint for ConfigError {
    fn hint(&self) -> Option<String> {
        Some("`minfer doctor --vars` lists all variables".to_string())
    }
}

/// What the environment says, parsed once at the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// The folder of downloaded models. `None` if the system has no home folder and nothing is set.
    pub models_dir: Option<PathBuf>,
    /// Worker threads; 0 means "choose".
    pub threads: i64,
    /// Name of the CPU kernels to use.
    pub isa: Option<String>,
    /// Backends that may be used, comma separated.
    pub backends: Option<String>,
    /// MiB that may be taken on a device.
    pub gpu_memory: Option<u64>,
    /// The device is given up after so many splits.
    pub gpu_fault: Option<u64>,
    /// Metal is not wanted.
    pub disable_metal: bool,
    /// CUDA is not wanted.
    pub disable_cuda: bool,
    /// Vulkan is not wanted.
    pub disable_vulkan: bool,
    /// The builder keeps Q, K and V apart.
    pub no_fuse_qkv: bool,
    /// The builder keeps gate and up apart.
    pub no_fuse_ffn: bool,
    /// Print splits and census of every new graph.
    pub graph_trace: bool,
    /// Print the time per op.
    pub op_profile: bool,
    /// Where to write a trace of node times.
    pub trace: Option<PathBuf>,
    /// Token for Hugging Face.
    pub hf_token: Option<String>,
    /// Base URL of the Hugging Face hub or a mirror, without a final slash.
    pub hf_endpoint: Option<String>,
    /// No colours and no progress bars.
    pub no_color: bool,
}

impl Config {
    /// Reads the process environment.
    pub fn from_env() -> Result<Config, ConfigError> {
        Config::from_lookup(&|name| std::env::var_os(name))
    }

    /// Reads variables through `lookup`.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Config, ConfigError> {
        let env = Environment { lookup };
        Ok(Config {
            models_dir: env.models_dir(),
            threads: env.count(&THREADS)?.unwrap_or(0),
            isa: env.text(&ISA)?,
            backends: env.text(&BACKENDS)?,
            gpu_memory: env.amount(&GPU_MEMORY)?,
            gpu_fault: env.amount(&GPU_FAULT)?,
            disable_metal: env.flag(&DISABLE_MPS),
            disable_cuda: env.flag(&DISABLE_CUDA),
            disable_vulkan: env.flag(&DISABLE_VULKAN),
            no_fuse_qkv: env.flag(&NO_FUSE_QKV),
            no_fuse_ffn: env.flag(&NO_FUSE_FFN),
            graph_trace: env.flag(&GRAPH_TRACE),
            op_profile: env.flag(&OP_PROFILE),
            trace: env.path(&TRACE),
            hf_token: env.text(&HF_TOKEN)?,
            hf_endpoint: env.text(&HF_ENDPOINT)?.map(|url| url.trim_end_matches('/').to_string()),
            no_color: env.flag(&NO_COLOR),
        })
    }
}

struct Environment<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Environment<'_> {
    /// The value, if there is one that is not empty.
    fn raw(&self, variable: &Variable) -> Option<OsString> {
        (self.lookup)(variable.name).filter(|value| !value.is_empty())
    }

    fn flag(&self, variable: &Variable) -> bool {
        self.raw(variable).is_some_and(|value| {
            let value = value.to_string_lossy().trim().to_ascii_lowercase();
            !matches!(value.as_str(), "" | "0" | "false" | "no" | "off")
        })
    }

    fn path(&self, variable: &Variable) -> Option<PathBuf> {
        self.raw(variable).map(PathBuf::from)
    }

    fn text(&self, variable: &Variable) -> Result<Option<String>, ConfigError> {
        self.raw(variable)
            .map(|value| value.into_string().map_err(|_| ConfigError::NotUnicode { name: variable.name }))
            .transpose()
    }

    fn count(&self, variable: &Variable) -> Result<Option<i64>, ConfigError> {
        let parse = |text: String| match text.trim().parse() {
            Ok(number) => Ok(number),
            Err(_) => Err(ConfigError::NotANumber { name: variable.name, got: text }),
        };
        self.text(variable)?.map(parse).transpose()
    }

    /// A number of which none is negative.
    fn amount(&self, variable: &Variable) -> Result<Option<u64>, ConfigError> {
        let not_negative = |number: i64| {
            let got = number.to_string();
            u64::try_from(number).map_err(|_| ConfigError::Negative { name: variable.name, got })
        };
        self.count(variable)?.map(not_negative).transpose()
    }

    fn models_dir(&self) -> Option<PathBuf> {
        let parent = || match self.path(&XDG_DATA_HOME) {
            Some(dir) => Some(dir),
            None if cfg!(windows) => self.path(&LOCALAPPDATA),
            None => self.path(&HOME).map(|home| home.join(".local/share")),
        };
        self.path(&MODELS).or_else(|| parent().map(|dir| dir.join("minfer")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_flag_is_on_unless_empty_or_a_word_for_no() {
        for off in ["", "0", "false", "No", "OFF", " 0 "] {
            assert!(!config(&[("MINFER_NO_FUSE_QKV", off)]).unwrap().no_fuse_qkv, "{off:?}");
        }
        for on in ["1", "yes", "true", "on", "2", "x"] {
            assert!(config(&[("MINFER_NO_FUSE_QKV", on)]).unwrap().no_fuse_qkv, "{on:?}");
        }
    }

    #[test]
    fn the_models_folder_falls_back_from_explicit_to_home() {
        let all = [("MINFER_MODELS", "/m"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(config(&all).unwrap().models_dir, Some(PathBuf::from("/m")));
        assert_eq!(config(&all[1..]).unwrap().models_dir, Some(PathBuf::from("/x/minfer")));
        if !cfg!(windows) {
            assert_eq!(config(&all[2..]).unwrap().models_dir, Some(PathBuf::from("/h/.local/share/minfer")));
        }
        assert_eq!(config(&[]).unwrap().models_dir, None);
    }

    #[test]
    fn an_endpoint_may_end_in_a_slash() {
        let with_slash = config(&[("HF_ENDPOINT", "http://127.0.0.1:8080/")]).unwrap();
        assert_eq!(with_slash.hf_endpoint.as_deref(), Some("http://127.0.0.1:8080"));
    }

    #[test]
    fn a_number_that_is_none_is_refused_by_name() {
        let error = config(&[("MINFER_THREADS", "many")]).unwrap_err();
        assert!(error.to_string().contains("MINFER_THREADS"), "{error}");
        let error = config(&[("MINFER_GPU_MEMORY", "-1")]).unwrap_err();
        assert!(error.to_string().contains("MINFER_GPU_MEMORY: expected a number from 0 up"), "{error}");
    }

    #[test]
    fn every_variable_that_is_read_stands_in_the_table_and_the_reverse() {
        let read = std::cell::RefCell::new(std::collections::BTreeSet::new());
        let none = Config::from_lookup(&|name| {
            read.borrow_mut().insert(name.to_string());
            None
        });
        assert_eq!(none.unwrap(), Config::default());
        let mut table: std::collections::BTreeSet<_> =
            VARIABLES.iter().map(|variable| variable.name.to_string()).collect();
        // One of the two is read, depending on the system.
        for either in ["HOME", "LOCALAPPDATA"] {
            table.remove(either);
            read.borrow_mut().remove(either);
        }
        assert_eq!(*read.borrow(), table);
    }
}
