//! Which files of a repository make one model, and which model is meant.

use super::error::StoreError;
use super::reference::{HubPick, ModelRef};
use crate::gguf::PartName;

/// A GGUF model of a repository: one file, or all parts of a split one in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileSet {
    /// Paths in the repository.
    pub(super) files: Vec<String>,
    /// Parts that the names promise.
    pub(super) n_expected: usize,
}

impl FileSet {
    pub(super) fn is_complete(&self) -> bool {
        self.files.len() == self.n_expected
    }

    fn name(&self) -> &str {
        &self.files[0]
    }
}

/// The names of all parts of the set that `path` belongs to; just `path` if it is no part.
pub(super) fn all_parts(path: &str) -> Vec<String> {
    match PartName::parse(path) {
        Some(name) => name.all().map(|part| part.to_string()).collect(),
        None => vec![path.to_string()],
    }
}

/// Groups the GGUF files among `paths` into models.
pub(super) fn file_sets(paths: &[String]) -> Vec<FileSet> {
    let mut paths: Vec<&String> = paths.iter().filter(|path| is_model(path)).collect();
    paths.sort();
    let mut sets: Vec<FileSet> = Vec::new();
    for path in paths {
        let part = PartName::parse(path);
        let key = |part: PartName<'_>| (part.prefix.to_string(), part.count);
        let same =
            |set: &&mut FileSet| part.is_some() && PartName::parse(set.name()).map(key) == part.map(key);
        match sets.iter_mut().find(same) {
            Some(set) => set.files.push(path.clone()),
            None => {
                let n_expected = part.map_or(1, |part| part.count as usize);
                sets.push(FileSet { files: vec![path.clone()], n_expected });
            }
        }
    }
    sets
}

/// Vision projectors and importance matrices are GGUF files, but not models.
fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    name.ends_with(".gguf") && !name.starts_with("mmproj") && !name.contains("imatrix")
}

/// True if `quant` stands in the file's name as a word of its own.
fn has_quant(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    path.match_indices(&quant).any(|(at, _)| {
        let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        !word(path[..at].chars().next_back()) && !word(path[at + quant.len()..].chars().next())
    })
}

/// The model of `repo` that `pick` means. `Default` is the only one, or the only Q4_K_M.
pub(super) fn choose(repo: &str, pick: &HubPick, sets: &[FileSet]) -> Result<FileSet, StoreError> {
    let matching: Vec<&FileSet> = match pick {
        HubPick::File(file) => sets.iter().filter(|set| set.files.contains(file)).collect(),
        HubPick::Quant(quant) => sets.iter().filter(|set| has_quant(set.name(), quant)).collect(),
        HubPick::Default if sets.len() == 1 => sets.iter().collect(),
        HubPick::Default => {
            match sets.iter().filter(|set| has_quant(set.name(), "Q4_K_M")).collect::<Vec<_>>() {
                one if one.len() == 1 => one,
                _ => sets.iter().collect(),
            }
        }
    };
    let name = || ModelRef::Hub { repo: repo.to_string(), pick: pick.clone() }.to_string();
    let references = |sets: &mut dyn Iterator<Item = &FileSet>| -> Vec<String> {
        sets.map(|set| format!("hf:{repo}/{}", set.name())).collect()
    };
    match matching.as_slice() {
        [] => Err(StoreError::NoMatch { name: name(), choices: references(&mut sets.iter()) }),
        [set] if set.is_complete() => Ok((*set).clone()),
        [set] => {
            Err(StoreError::IncompleteSet { name: name(), expected: set.n_expected, got: set.files.len() })
        }
        many => Err(StoreError::Ambiguous { name: name(), choices: references(&mut many.iter().copied()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(paths: &[&str]) -> Vec<FileSet> {
        file_sets(&paths.iter().map(|path| path.to_string()).collect::<Vec<_>>())
    }

    const REPO: &[&str] = &[
        "README.md",
        "mmproj-f16.gguf",
        "m-Q8_0.gguf",
        "m-Q4_K_M.gguf",
        "m-Q4_K_S.gguf",
        "big-Q6_K-00002-of-00003.gguf",
        "big-Q6_K-00001-of-00003.gguf",
        "big-Q6_K-00003-of-00003.gguf",
    ];

    fn chosen(pick: HubPick) -> Result<Vec<String>, StoreError> {
        choose("o/r", &pick, &sets(REPO)).map(|set| set.files)
    }

    #[test]
    fn a_quantisation_is_found_in_any_case_and_only_as_a_word() {
        assert_eq!(chosen(HubPick::Quant("q4_k_m".into())).unwrap(), ["m-Q4_K_M.gguf"]);
        assert!(matches!(chosen(HubPick::Quant("Q4".into())), Err(StoreError::NoMatch { .. })));
        assert!(matches!(chosen(HubPick::Quant("Q4_K".into())), Err(StoreError::NoMatch { .. })));
    }

    #[test]
    fn all_parts_of_one_set_come_in_order() {
        let files = chosen(HubPick::Quant("Q6_K".into())).unwrap();
        assert_eq!(files, all_parts("big-Q6_K-00003-of-00003.gguf"));
        assert_eq!(files.len(), 3);
    }

    #[test]
    fn without_a_quantisation_q4_k_m_is_meant() {
        assert_eq!(chosen(HubPick::Default).unwrap(), ["m-Q4_K_M.gguf"]);
    }

    #[test]
    fn ambiguity_lists_the_choices() {
        let two = sets(&["a-Q8_0.gguf", "b-Q8_0.gguf"]);
        for pick in [HubPick::Default, HubPick::Quant("q8_0".into())] {
            let error = choose("o/r", &pick, &two).unwrap_err();
            assert!(error.to_string().contains("hf:o/r/a-Q8_0.gguf, hf:o/r/b-Q8_0.gguf"), "{error}");
        }
    }

    #[test]
    fn an_incomplete_set_is_refused_before_the_download() {
        let two_of_three = sets(&["b-Q6_K-00001-of-00003.gguf", "b-Q6_K-00003-of-00003.gguf"]);
        let error = choose("o/r", &HubPick::Default, &two_of_three).unwrap_err();
        assert!(matches!(error, StoreError::IncompleteSet { expected: 3, got: 2, .. }), "{error}");
    }
}
