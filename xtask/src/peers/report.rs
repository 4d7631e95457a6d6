//! From samples to a page.

use std::fmt::Write;
use std::path::Path;

use super::options::Options;
use super::work::{Programs, Work};
use super::{first_line, install};
use crate::error::Error;
use crate::process::output;

/// Pairs of results of one kind of work on one model: ours, theirs.
pub(super) struct Row {
    pub(super) model: String,
    pub(super) work: Work,
    pub(super) pairs: Vec<[f64; 2]>,
}

/// Median and range of some numbers.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// At least one number.
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Spread { median, least: sorted[0], most: sorted[n - 1] }
    }

    fn text(&self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.least, self.most)
    }
}

impl Row {
    /// One line of the table. Ratios are made pair by pair, because what disturbs a machine lasts.
    fn line(&self) -> String {
        let [ours, theirs] = [0, 1].map(|i| Spread::of(self.pairs.iter().map(|pair| pair[i])).text());
        let ratio = Spread::of(self.pairs.iter().map(|[ours, theirs]| ours / theirs)).text();
        let (name, unit) = (self.work.name(), self.work.unit());
        format!("| {} | {name} | {unit} | {ours} | {theirs} | {ratio} |\n", self.model)
    }
}

/// On what and with what was measured.
pub(super) struct Machine {
    lines: Vec<String>,
    command: String,
    n_pairs: usize,
}

impl Machine {
    pub(super) fn describe(
        root: &Path,
        options: &Options,
        programs: &Programs,
        loads: [String; 2],
    ) -> Result<Machine, Error> {
        let minfer = output(std::process::Command::new(programs.minfer()).arg("--version"))?;
        let root = root.to_string_lossy();
        let commit = first_line("git", &["-C", &root, "describe", "--always", "--dirty"]);
        let peer = match &options.llama_bench {
            Some(_) => format!(
                "a given build: {}",
                first_line(&programs.llama_bench().to_string_lossy(), &["--version"])
            ),
            None => format!("the source in {} {}, native build", install::PACKAGE, install::VERSION),
        };
        let [before, after] = loads;
        let lines = vec![
            format!("date: {}", first_line("date", &["-u", "+%F"])),
            format!("processor: {}, {} threads used", processor(), options.n_threads),
            format!("system: {}", first_line("uname", &["-srm"])),
            format!("load of the machine before and after: {before}, {after}"),
            format!("{}, commit {commit}", minfer.trim()),
            format!("llama.cpp: {peer}, flash attention on"),
        ];
        Ok(Machine { lines, command: options.command.clone(), n_pairs: options.n_pairs })
    }
}

/// The processor's name and number of logical cores.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let n_cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {n_cores} logical cores", name.map_or("unknown", |(_, name)| name))
}

/// The whole page.
pub(super) fn page(machine: &Machine, rows: &[Row], left_out: &[String]) -> String {
    let mut page = String::from("# Speed beside llama.cpp\n\nMade by `");
    let _ = write!(page, "{}`; do not edit.\n\n", machine.command);
    machine.lines.iter().for_each(|line| page += &format!("- {line}\n"));
    let _ = write!(
        page,
        "\nBoth programs ran in turns on the same files, {} times each. Every cell is a median with its range; ratios are minfer's \
         result by llama.cpp's, pair by pair. `pp` is prompt tokens at once, `tg` tokens generated one by one, `d` the tokens before \
         them, `first-token` a whole process with a prompt of about 20 tokens, and `peak-memory` that of 512 prompt tokens and 16 \
         generated ones, where the leaner of llama.cpp's modes counts.\n\n",
        machine.n_pairs,
    );
    page +=
        "| model | work | unit | minfer | llama.cpp | ratio |\n| --- | --- | --- | ---: | ---: | ---: |\n";
    rows.iter().for_each(|row| page += &row.line());
    if !left_out.is_empty() {
        page += "\nLeft out:\n\n";
        left_out.iter().for_each(|line| page += &format!("- {line}\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_and_ratios_of_pairs() {
        let pairs = vec![[2.0, 1.0], [9.0, 3.0], [4.0, 4.0]];
        let row = Row { model: "m".to_string(), work: Work::Prefill(512), pairs };
        let expected = "| m | pp512 | tokens/s | 4.00 (2.00–9.00) | 3.00 (1.00–4.00) | 2.00 (1.00–3.00) |\n";
        assert_eq!(row.line(), expected);
        assert_eq!(Spread::of([1.0, 4.0, 2.0, 3.0].into_iter()).median, 2.5);
    }
}
