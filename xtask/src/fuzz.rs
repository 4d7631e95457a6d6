//! Coverage-guided fuzzing on the stable toolchain.
//!
//! `libfuzzer-sys` needs only the compiler's coverage instrumentation, which stable rustc passes on to LLVM. The
//! instrumented program is built into a folder of its own, so that ordinary builds stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process::{cargo, output, run as run_command, target_folder};

/// Seconds per target unless told otherwise.
pub(crate) const DEFAULT_SECONDS: u32 = 10;

const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// An input may take this long and this much memory; more counts as a crash.
const LIMITS: [&str; 3] = ["-timeout=5", "-rss_limit_mb=1024", "-max_len=65536"];

/// Fuzzes the named targets, or all. A crash fails; its input is kept, and the message says how to run it again.
pub(crate) fn run(root: &Path, seconds: u32, names: &[&str]) -> Result<(), Error> {
    let build = Build::new(root)?;
    let known = build.target_names()?;
    let chosen = choose(&known, names)?;
    for name in chosen {
        println!("fuzzing {name} for {seconds} s");
        build.fuzz(name, seconds)?;
    }
    Ok(())
}

fn choose<'a>(known: &'a [String], names: &[&str]) -> Result<Vec<&'a str>, Error> {
    if names.is_empty() {
        return Ok(known.iter().map(String::as_str).collect());
    }
    let find = |name: &&str| {
        let target = known.iter().find(|target| target == name);
        target
            .map(String::as_str)
            .ok_or_else(|| Error::UnknownTarget { name: name.to_string(), known: known.join(", ") })
    };
    names.iter().map(find).collect()
}

/// The instrumented program and the folders it works in.
struct Build {
    program: PathBuf,
    /// Committed inputs, one folder per target.
    seeds: PathBuf,
    /// Inputs found on this machine, kept between runs, and those that crashed.
    found: PathBuf,
}

impl Build {
    fn new(root: &Path) -> Result<Build, Error> {
        let folder = target_folder(root).join("fuzz");
        let host = host_triple(root)?;
        let mut build = cargo(root, "build --release --package minfer-fuzz --features libfuzzer --target");
        // An explicit target keeps the flags away from build scripts and procedural macros.
        build.arg(&host).env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", COVERAGE_FLAGS);
        for (option, value) in [("LTO", "off"), ("DEBUG_ASSERTIONS", "true"), ("OVERFLOW_CHECKS", "true")] {
            build.env(format!("CARGO_PROFILE_RELEASE_{option}"), value);
        }
        run_command(&mut build)?;
        let program = folder.join(host).join("release").join("minfer-fuzz");
        Ok(Build { program, seeds: root.join("fuzz").join("corpus"), found: folder.join("found") })
    }

    fn target_names(&self) -> Result<Vec<String>, Error> {
        let list = output(Command::new(&self.program).env("MINFER_FUZZ_TARGET", "list"))?;
        Ok(list.lines().map(String::from).collect())
    }

    fn fuzz(&self, name: &str, seconds: u32) -> Result<(), Error> {
        let corpus = self.found.join(name).join("corpus");
        let crashes = self.found.join(name).join("crashes");
        for folder in [&corpus, &crashes] {
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        let mut command = Command::new(&self.program);
        command.env("MINFER_FUZZ_TARGET", name).env("RUST_BACKTRACE", "0").args(LIMITS);
        command.arg(format!("-max_total_time={seconds}")).args(["-verbosity=0", "-print_final_stats=1"]);
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        let dictionary = self.seeds.join(name).with_extension("dict");
        if dictionary.is_file() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        command.arg(corpus).arg(self.seeds.join(name));
        run_command(&mut command).inspect_err(|_| {
            eprintln!("run it again with: cargo run --package minfer-fuzz -- {name} {}", crashes.display());
        })
    }
}

fn host_triple(root: &Path) -> Result<String, Error> {
    let version = output(Command::new("rustc").arg("-vV").current_dir(root))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.expect("rustc -vV names its host").to_string())
}
