//! What a fresh machine lacks besides cargo and a C compiler: components of the toolchain, a C++ compiler for
//! the fuzzing engine, git, pip, which is one source of models, and a software GPU for the tests of the GPU
//! backend.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::{cargo, is_installed, output, run};

/// Programs that `ci` starts, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 3] = [("c++", "g++"), ("git", "git"), ("python3", "python3")];

/// What a software GPU consists of, by the start of a file's path, and the Debian packages that bring it:
/// Mesa's driver for the processor, the loader, and the layer that checks how Vulkan is used.
const VULKAN: [(&str, &str); 3] = [
    ("/usr/share/vulkan/icd.d/lvp_icd", "mesa-vulkan-drivers"),
    ("/usr/share/doc/libvulkan1", "libvulkan1"),
    ("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation", "vulkan-validationlayers"),
];

/// Installs what is missing; does nothing on a machine that has it all.
pub(crate) fn run_setup(root: &Path) -> Result<(), Error> {
    install_components(root)?;
    let mut missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
    if !has_pip() {
        missing.push("python3-pip");
    }
    if cfg!(target_os = "linux") {
        missing.extend(VULKAN.iter().filter(|(file, _)| !is_there(file)).map(|(_, package)| *package));
    }
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    install_packages(&missing)
}

fn install_components(root: &Path) -> Result<(), Error> {
    for (component, probe) in [("rustfmt", "fmt --version"), ("clippy", "clippy --version")] {
        if output(&mut cargo(root, probe)).is_err() {
            run(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}

fn has_pip() -> bool {
    Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Whether the path of any file starts so.
fn is_there(start: &str) -> bool {
    let (folder, name) = start.rsplit_once('/').unwrap_or((".", start));
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(name))
    })
}

fn install_packages(packages: &[&str]) -> Result<(), Error> {
    if !is_installed("apt-get") {
        return Err(Error::Lacks(packages.join(", ")));
    }
    run(&mut as_administrator("apt-get update --quiet"))?;
    run(as_administrator("apt-get install --quiet --yes --no-install-recommends").args(packages))
}

/// `command` through sudo, unless we are the administrator or there is no sudo.
fn as_administrator(command: &str) -> Command {
    let user = output(Command::new("id").arg("-u")).unwrap_or_default();
    let sudo = (user.trim() != "0" && is_installed("sudo")).then_some("sudo");
    let mut words = sudo.into_iter().chain(command.split_whitespace());
    let mut command = Command::new(words.next().expect("there is at least one word"));
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
