//! What is measured, and the command line of each program for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sample::{Reading, Recipe};

/// Programs of llama.cpp beside llama-bench.
pub(super) const BATCHED: &str = "llama-batched-bench";
pub(super) const COMPLETION: &str = "llama-completion";

/// About 20 tokens in the vocabularies of the test models.
const PROMPT: &str =
    "The quick brown fox jumps over the lazy dog, and then it looks back and asks itself why";
/// Tokens that each of several sequences starts with and generates.
const TOGETHER: (&str, &str) = ("16", "32");

/// One kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// So many prompt tokens at once, tokens/s.
    Prefill(usize),
    /// So many tokens one by one after so many others, tokens/s.
    Decode(usize, usize),
    /// So many sequences decoded together, tokens/s of all.
    Together(usize),
    /// From the start of the process to the end of the first token, seconds.
    FirstToken,
    /// The most memory at any time, MiB.
    Memory,
}

impl Work {
    pub(super) const ALL: [Work; 8] = [
        Work::Prefill(512),
        Work::Prefill(2048),
        Work::Decode(128, 0),
        Work::Decode(64, 2048),
        Work::Decode(64, 4096),
        Work::Together(8),
        Work::FirstToken,
        Work::Memory,
    ];

    pub(super) fn name(&self) -> String {
        match self {
            Work::Prefill(n) => format!("pp{n}"),
            Work::Decode(n, 0) => format!("tg{n}"),
            Work::Decode(n, depth) => format!("tg{n}@d{depth}"),
            Work::Together(n) => format!("{n}-sequences"),
            Work::FirstToken => "first-token".to_string(),
            Work::Memory => "peak-memory".to_string(),
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        match self {
            Work::FirstToken => "s",
            Work::Memory => "MiB",
            _ => "tokens/s",
        }
    }
}

/// The programs that are compared.
pub(super) struct Programs {
    minfer: PathBuf,
    llama_bench: PathBuf,
    n_threads: String,
}

impl Programs {
    pub(super) fn new(minfer: PathBuf, llama_bench: PathBuf, n_threads: usize) -> Programs {
        Programs { minfer, llama_bench, n_threads: n_threads.to_string() }
    }

    pub(super) fn minfer(&self) -> &Path {
        &self.minfer
    }

    pub(super) fn llama_bench(&self) -> &Path {
        &self.llama_bench
    }

    fn beside(&self, program: &str) -> PathBuf {
        self.llama_bench.with_file_name(program)
    }

    /// The program of the peer that `work` needs and that is not there.
    pub(super) fn lacks(&self, work: &Work) -> Option<&'static str> {
        let needed = match work {
            Work::Together(_) => BATCHED,
            Work::FirstToken => COMPLETION,
            _ => return None,
        };
        (!self.beside(needed).exists()).then_some(needed)
    }

    /// How minfer does `work`.
    pub(super) fn ours(&self, work: &Work, model: &Path) -> Recipe {
        let mut command = Command::new(&self.minfer);
        match work {
            Work::FirstToken => command.args(["run", "--raw", "--temp", "0", "-n", "1", "-p", PROMPT]),
            _ => command.args(["bench", "-o", "json", "-r", "1"]),
        };
        command.arg("-m").arg(model).args(["-t", &self.n_threads, "--backend", "cpu"]);
        match work {
            Work::Together(n) => {
                let (depth, n_gen) = TOGETHER;
                command.args(["-p", "0", "-n", n_gen, "-d", depth, "--parallel", &n.to_string()]);
            }
            _ => bench_arguments(work, &mut command),
        }
        Recipe { command, reading: Reading::of(work, "avg_ts") }
    }

    /// How llama.cpp does `work`; several ways where the one that suits it best counts.
    pub(super) fn theirs(&self, work: &Work, model: &Path) -> Vec<Recipe> {
        let with = |program: PathBuf, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg("-m").arg(model).args(["-t", &self.n_threads]);
            command
        };
        let bench = |arguments: &[&str]| {
            let mut command = with(self.llama_bench.clone(), arguments);
            command.args(["-o", "json", "-r", "1", "-fa", "1"]);
            bench_arguments(work, &mut command);
            Recipe { command, reading: Reading::of(work, "avg_ts") }
        };
        match work {
            Work::Memory => vec![bench(&[]), bench(&["--repack", "0"])],
            Work::FirstToken => {
                let arguments =
                    ["-p", PROMPT, "-n", "1", "--temp", "0", "-no-cnv", "--no-warmup", "-fa", "on"];
                let command = with(self.beside(COMPLETION), &arguments);
                vec![Recipe { command, reading: Reading::of(work, "") }]
            }
            Work::Together(n) => {
                let (depth, n_gen) = TOGETHER;
                let n = n.to_string();
                let sizes = ["-c", "2048", "-npp", depth, "-ntg", n_gen, "-npl", &n];
                let mut command = with(self.beside(BATCHED), &sizes);
                command.args(["-fa", "on", "--output-format", "jsonl"]);
                vec![Recipe { command, reading: Reading::of(work, "speed_tg") }]
            }
            _ => vec![bench(&[])],
        }
    }
}

/// The flags that both bench programs share.
fn bench_arguments(work: &Work, command: &mut Command) {
    let (n_prompt, n_gen, depth) = match *work {
        Work::Prefill(n) => (n, 0, 0),
        Work::Decode(n, depth) => (0, n, depth),
        Work::Memory => (512, 16, 0),
        Work::Together(_) | Work::FirstToken => return,
    };
    let [n_prompt, n_gen, depth] = [n_prompt, n_gen, depth].map(|n| n.to_string());
    command.args(["-p", &n_prompt, "-n", &n_gen, "-d", &depth]);
}
