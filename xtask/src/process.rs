//! Starting other programs.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// The folder of the workspace. Asked at run time, because worktrees may share one build folder.
pub(crate) fn repository_root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().expect("xtask is a folder of the repository").to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// `cargo` with `arguments`, separated by spaces, in the repository.
pub(crate) fn cargo(root: &Path, arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments.split_whitespace());
    command
}

/// Runs `command` to its end; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| Error::Start { command: words(command), source })?;
    if status.success() { Ok(()) } else { Err(Error::Status { command: words(command), status }) }
}

/// Runs `command` and returns what it printed to stdout; anything but success is an error.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start { command: words(command), source })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Status { command: words(command), status: output.status })
    }
}

/// Runs `command`, shows what it prints, and returns it too: first stdout, then stderr.
pub(crate) fn run_and_listen(command: &mut Command) -> Result<(String, std::process::ExitStatus), Error> {
    let start_error = |command: &Command| {
        let command = words(command);
        move |source| Error::Start { command, source }
    };
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(start_error(command))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let mut text = String::new();
    std::thread::scope(|scope| {
        let errors = scope.spawn(|| relay(stderr, |line| eprintln!("{line}")));
        text.push_str(&relay(stdout, |line| println!("{line}")));
        text.push_str(&errors.join().unwrap_or_default());
    });
    let status = child.wait().map_err(start_error(command))?;
    Ok((text, status))
}

/// True if a program of this name can be started.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command line as a person would type it.
pub(crate) fn words(command: &Command) -> String {
    let mut words =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        words.push(' ');
        words.push_str(&argument.to_string_lossy());
    }
    words
}

fn relay(stream: impl Read, show: impl Fn(&str)) -> String {
    let mut text = String::new();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        show(&line);
        text.push_str(&line);
        text.push('\n');
    }
    text
}
