//! One run of one program.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::work::Work;
use crate::error::Error;
use crate::process::{output, words};

/// Runs what its arguments say and prints, as the last line, seconds and KiB: how long it took and the most
/// memory that it had. Python, because that is where the system's count for a single child can be asked for
/// without more packages.
const WATCH: &str = "\
import os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print()
print(time.perf_counter() - start, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
";

/// What counts of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Reading {
    /// A number that the program prints as JSON under this key.
    Key(&'static str),
    /// How long the process lived.
    Seconds,
    /// The most memory that it had.
    Memory,
}

impl Reading {
    pub(super) fn of(work: &Work, key: &'static str) -> Reading {
        match work {
            Work::FirstToken => Reading::Seconds,
            Work::Memory => Reading::Memory,
            _ => Reading::Key(key),
        }
    }
}

/// A command line, and what counts of its run.
pub(super) struct Recipe {
    pub(super) command: Command,
    pub(super) reading: Reading,
}

impl Recipe {
    /// What a run gives, in the unit of its work.
    pub(super) fn run(&self) -> Result<f64, Error> {
        let mut watch = Command::new("python3");
        watch.args(["-c", WATCH]).arg(self.command.get_program()).args(self.command.get_args());
        let text = output(watch.stdin(Stdio::null()))?;
        read(&text, self.reading).ok_or_else(|| Error::NoResult { command: words(&self.command) })
    }
}

/// The smallest of what several ways give.
pub(super) fn least(recipes: &[Recipe]) -> Result<f64, Error> {
    let results = recipes.iter().map(Recipe::run).collect::<Result<Vec<f64>, Error>>()?;
    Ok(results.into_iter().fold(f64::INFINITY, f64::min))
}

fn read(text: &str, reading: Reading) -> Option<f64> {
    let (printed, watched) = text.trim_end().rsplit_once('\n')?;
    let mut watched = watched.split_whitespace().map(|number| number.parse::<f64>().ok());
    let (seconds, kib) = (watched.next()??, watched.next()??);
    match reading {
        Reading::Seconds => Some(seconds),
        Reading::Memory => Some(kib / 1024.0),
        Reading::Key(key) => number(printed, key),
    }
}

/// The number under `key` in a JSON document, or in the last line that is one, of the list's last element.
fn number(text: &str, key: &str) -> Option<f64> {
    let lines = text.lines().rev().map(str::trim);
    let documents =
        std::iter::once(text.trim()).chain(lines).filter_map(|text| serde_json::from_str(text).ok());
    let of = |document: Value| match document {
        Value::Array(mut list) => list.pop()?.get(key)?.as_f64(),
        other => other.get(key)?.as_f64(),
    };
    documents.filter_map(of).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_in_what_programs_print() {
        let list = "[\n {\"avg_ts\": 1.5},\n {\"avg_ts\": 2.5}\n]\n\n0.25 2048\n";
        assert_eq!(read(list, Reading::Key("avg_ts")), Some(2.5));
        assert_eq!(read(list, Reading::Seconds), Some(0.25));
        assert_eq!(read(list, Reading::Memory), Some(2.0));
        let lines = "loading\n{\"speed_tg\": 30.5}\n\n1.0 10\n";
        assert_eq!(read(lines, Reading::Key("speed_tg")), Some(30.5));
        assert_eq!(read("nothing\n\n1.0 10\n", Reading::Key("speed_tg")), None);
    }

    #[test]
    fn a_child_is_watched_and_its_failure_is_an_error() {
        let recipe = |script: &str, reading| {
            let mut command = Command::new("python3");
            command.args(["-c", script]);
            Recipe { command, reading }
        };
        let kept = recipe("x = bytearray(50_000_000); x[::4096] = b'1' * len(x[::4096])", Reading::Memory);
        let mib = kept.run().expect("it runs");
        assert!((50.0..200.0).contains(&mib), "{mib} MiB");
        assert!(recipe("raise SystemExit(3)", Reading::Seconds).run().is_err());
    }
}
