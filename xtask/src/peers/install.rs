//! Builds llama.cpp natively from the source that its Python package carries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::work::{BATCHED, COMPLETION};
use crate::error::Error;
use crate::process::{is_installed, run};

/// The package and the version whose source is built.
pub(super) const PACKAGE: &str = "llama-cpp-python";
pub(super) const VERSION: &str = "0.3.36";

/// llama-bench in `folder`, built there unless it is there already; its companions lie beside it.
pub(super) fn llama_bench(folder: &Path) -> Result<PathBuf, Error> {
    let built = folder.join(format!("build-{VERSION}")).join("bin").join("llama-bench");
    if built.exists() {
        return Ok(built);
    }
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let python = venv(&folder.join("venv"))?;
    let source = source(folder, &python)?;
    build(&source, &folder.join(format!("build-{VERSION}")), &python)?;
    Ok(built)
}

/// A Python of its own, with the build tools that the machine lacks. Its interpreter.
fn venv(folder: &Path) -> Result<PathBuf, Error> {
    let python = folder.join("bin").join("python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "cmake", "ninja"]))?;
    Ok(python)
}

/// The folder with the source of llama.cpp.
fn source(folder: &Path, python: &Path) -> Result<PathBuf, Error> {
    let (archives, unpacked) = (folder.join("sdist"), folder.join("source"));
    let name = format!("{}-{VERSION}", PACKAGE.replace('-', "_"));
    let source = unpacked.join(&name).join("vendor").join("llama.cpp");
    if !source.exists() {
        let wanted = format!("{PACKAGE}=={VERSION}");
        run(Command::new(python)
            .args(["-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE, "--dest"])
            .arg(&archives)
            .arg(wanted))?;
        let archive = archives.join(format!("{name}.tar.gz"));
        run(Command::new(python).args(["-m", "tarfile", "--extract"]).arg(archive).arg(&unpacked))?;
    }
    Ok(source)
}

/// A release build for this very processor.
fn build(source: &Path, folder: &Path, python: &Path) -> Result<(), Error> {
    let tools = python.parent().unwrap_or(folder);
    let cmake = if is_installed("cmake") { PathBuf::from("cmake") } else { tools.join("cmake") };
    let ninja = tools.join("ninja");
    let switches = [
        "CMAKE_BUILD_TYPE=Release",
        "GGML_NATIVE=ON",
        "LLAMA_BUILD_TOOLS=ON",
        "LLAMA_BUILD_SERVER=OFF",
        "LLAMA_BUILD_TESTS=OFF",
        "LLAMA_BUILD_EXAMPLES=OFF",
        "LLAMA_BUILD_APP=OFF",
        "LLAMA_OPENSSL=OFF",
    ];
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(source).arg("-B").arg(folder).args(["-G", "Ninja"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display()));
    run(configure.args(switches.map(|switch| format!("-D{switch}"))))?;
    let targets = ["llama-bench", BATCHED, COMPLETION];
    run(Command::new(&cmake).arg("--build").arg(folder).arg("--target").args(targets))
}
