//! Fuzz targets: each takes any bytes and must neither panic, hang, nor take much memory.
//!
//! `cargo xtask fuzz` runs them under a coverage-guided engine, and an ordinary test runs every seed through them.

mod gguf;
mod template;
mod tokenizer;

pub use gguf::gguf;
pub use template::template;
pub use tokenizer::tokenizer;

/// A function to throw bytes at.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also that of its seed folder `fuzz/corpus/<name>` and its dictionary `fuzz/corpus/<name>.dict`.
    pub name: &'static str,
    /// Takes one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "gguf", run: gguf },
    Target { name: "template", run: template },
    Target { name: "tokenizer", run: tokenizer },
];

/// The target called `name`.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_target_survives_its_seeds() {
        for target in TARGETS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
            let seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(!seeds.is_empty(), "{} has no seed", folder.display());
            (target.run)(b"");
            seeds.iter().for_each(|seed| (target.run)(&fs::read(seed).unwrap()));
        }
    }
}
