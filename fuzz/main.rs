//! With the feature `libfuzzer`: the fuzzing program; `MINFER_FUZZ_TARGET` names the target, `list` prints all names.
//! Without: runs one target on files or on all files of folders, to look at an input that crashed.

#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
mod engine {
    use std::sync::OnceLock;

    use minfer_fuzz::{TARGETS, Target, target};

    static TARGET: OnceLock<Target> = OnceLock::new();

    libfuzzer_sys::fuzz_target!(
        init: {
            let name = std::env::var("MINFER_FUZZ_TARGET").unwrap_or_default();
            if name == "list" {
                TARGETS.iter().for_each(|target| println!("{}", target.name));
                std::process::exit(0);
            }
            TARGET.get_or_init(|| target(&name).expect("MINFER_FUZZ_TARGET names a target"));
        },
        |data: &[u8]| (TARGET.get().expect("init ran").run)(data)
    );
}

#[cfg(not(feature = "libfuzzer"))]
fn main() -> std::io::Result<()> {
    use std::path::PathBuf;

    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = minfer_fuzz::target(&name) else {
        eprintln!("usage: minfer-fuzz TARGET PATH…");
        minfer_fuzz::TARGETS.iter().for_each(|target| eprintln!("  {}", target.name));
        std::process::exit(2);
    };
    let mut paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        } else {
            println!("{name} {}", path.display());
            (target.run)(&std::fs::read(&path)?);
        }
    }
    Ok(())
}
