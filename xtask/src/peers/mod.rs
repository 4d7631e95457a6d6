//! `bench-peers`: the same work by minfer and by llama.cpp, in turns, on the same files.
//!
//! | file | does |
//! |---|---|
//! | `options` | what is asked for |
//! | `install` | builds the peer natively from its Python package's source |
//! | `work` | what is measured, and the command line of each program for it |
//! | `sample` | runs one command line and reads its result |
//! | `report` | medians, ranges, and the page |

mod install;
mod options;
mod report;
mod sample;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::models;
use crate::process::{cargo, output, run as run_command, target_folder};
use options::Options;
use report::{Machine, Row};
use work::{Programs, Work};

/// Where the page goes.
const PAGE: &str = "docs/performance.md";

/// Measures everything and writes the page.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Error> {
    let options = Options::parse(arguments)?;
    run_command(&mut cargo(root, "build --release --package minfer --bin minfer"))?;
    let minfer = target_folder(root).join("release").join(format!("minfer{}", std::env::consts::EXE_SUFFIX));
    let llama_bench = match &options.llama_bench {
        Some(given) => given.clone(),
        None => install::llama_bench(&target_folder(root).join("peers"))?,
    };
    let programs = Programs::new(minfer, llama_bench, options.n_threads);
    let load_before = load();
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    for model in model_files(root, &options)? {
        for work in Work::ALL.iter().filter(|work| options.wants(&work.name())) {
            match programs.lacks(work) {
                Some(program) => left_out.push(format!("{}: the peer's build has no {program}", work.name())),
                None => rows.push(measure(&programs, work, &model, options.n_pairs)?),
            }
        }
    }
    left_out.sort();
    left_out.dedup();
    let loads = [load_before, load()];
    let page = report::page(&Machine::describe(root, &options, &programs, loads)?, &rows, &left_out);
    println!("\n{page}");
    let path = options.page.clone().unwrap_or_else(|| root.join(PAGE));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    fs::write(&path, page).map_err(Error::file(&path))
}

/// The files to measure: those that were named, or else the test models and what larger one lies beside them.
fn model_files(root: &Path, options: &Options) -> Result<Vec<PathBuf>, Error> {
    if !options.models.is_empty() {
        return Ok(options.models.clone());
    }
    let folder = models::fetch(root)?;
    let names = ["smollm2-135m.gguf", "qwen2.5-coder-0.5b.gguf", "qwen2.5-coder-1.5b.gguf"];
    Ok(names.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect())
}

/// Runs both programs in turns, so that what disturbs the machine disturbs both.
fn measure(programs: &Programs, work: &Work, model: &Path, n_pairs: usize) -> Result<Row, Error> {
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut pairs = Vec::new();
    for i in 1..=n_pairs {
        let pair = [programs.ours(work, model).run()?, sample::least(&programs.theirs(work, model))?];
        println!("{name}, {}, pair {i}: {:.2} and {:.2} {}", work.name(), pair[0], pair[1], work.unit());
        pairs.push(pair);
    }
    Ok(Row { model: name, work: *work, pairs })
}

/// How busy the machine is, as the system counts it.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_string()
}

/// The first line that a program prints, or nothing.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let text = output(Command::new(program).args(arguments)).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_string()
}
