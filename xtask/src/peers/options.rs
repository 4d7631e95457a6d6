//! What `bench-peers` is asked to do.

use std::path::PathBuf;

use super::work::Work;
use crate::error::Error;

/// Pairs of measurements unless said otherwise; fewer say nothing about the spread.
const DEFAULT_PAIRS: usize = 5;

pub(super) struct Options {
    /// A llama-bench that is there already.
    pub(super) llama_bench: Option<PathBuf>,
    /// Files to measure; none for the test models.
    pub(super) models: Vec<PathBuf>,
    pub(super) n_pairs: usize,
    pub(super) n_threads: usize,
    /// Names of the work to measure; none for all.
    works: Vec<String>,
    /// Where the page goes instead of `docs`.
    pub(super) page: Option<PathBuf>,
    /// The command line, for the page.
    pub(super) command: String,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Options, Error> {
        let mut options = Options {
            llama_bench: None,
            models: Vec::new(),
            n_pairs: DEFAULT_PAIRS,
            n_threads: std::thread::available_parallelism().map_or(1, usize::from),
            works: Vec::new(),
            page: None,
            command: "cargo xtask bench-peers".to_string(),
        };
        for pair in arguments.chunks(2) {
            let &[flag, value] = pair else { return Err(bad(pair[0], "a value", "nothing")) };
            match flag {
                "--llama-bench" => options.llama_bench = Some(value.into()),
                "--model" => options.models.push(value.into()),
                "--pairs" => options.n_pairs = count(flag, value)?,
                "--threads" => options.n_threads = count(flag, value)?,
                "--work" => options.works.push(known(value)?),
                "--output" => options.page = Some(value.into()),
                _ => {
                    return Err(bad(
                        flag,
                        "one of --llama-bench --model --pairs --threads --work --output",
                        flag,
                    ));
                }
            }
            // Where files lie on this machine is nobody's business.
            let shown = value.rsplit('/').next().unwrap_or(value);
            options.command += &format!(" {flag} {shown}");
        }
        Ok(options)
    }

    pub(super) fn wants(&self, work: &str) -> bool {
        self.works.is_empty() || self.works.iter().any(|wanted| wanted == work)
    }
}

fn count(flag: &str, value: &str) -> Result<usize, Error> {
    value.parse().ok().filter(|n| *n > 0).ok_or_else(|| bad(flag, "a number from 1 up", value))
}

fn known(value: &str) -> Result<String, Error> {
    let names: Vec<String> = Work::ALL.iter().map(Work::name).collect();
    match names.iter().any(|name| name == value) {
        true => Ok(value.to_string()),
        false => Err(bad("--work", &format!("one of {}", names.join(", ")), value)),
    }
}

fn bad(what: &str, expected: &str, got: &str) -> Error {
    Error::BadArgument { what: what.to_string(), expected: expected.to_string(), got: got.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_paths_stay_off_the_page() {
        let options =
            Options::parse(&["--llama-bench", "/a/b/lb", "--pairs", "7", "--work", "pp512"]).expect("valid");
        assert_eq!(options.n_pairs, 7);
        assert_eq!(options.command, "cargo xtask bench-peers --llama-bench lb --pairs 7 --work pp512");
        assert!(options.wants("pp512") && !options.wants("tg128"));
        for wrong in [&["--pairs"][..], &["--pairs", "0"], &["--work", "everything"], &["--colour", "red"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
