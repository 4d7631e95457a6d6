//! Finds where special tokens are spelled out in a text.

use std::collections::BTreeMap;
use std::ops::Range;

/// A special token to look for.
#[derive(Clone, Debug)]
pub(super) struct Special {
    pub(super) id: u32,
    pub(super) text: String,
    /// Whether it is matched in trusted text only (control and unknown tokens), or in any text (user-defined).
    pub(super) trusted_only: bool,
}

/// A special token in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) id: u32,
    pub(super) range: Range<usize>,
}

/// Which texts a search accepts control tokens in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trust<'a> {
    /// None of the text is trusted: user-defined tokens only.
    Nothing,
    /// All of it, except what touches one of these byte ranges (sorted, not overlapping).
    AllBut(&'a [Range<usize>]),
}

#[derive(Debug, Default)]
struct TrieNode {
    /// Children by byte, sorted.
    children: Vec<(u8, u32)>,
    /// Index into `SpecialSet::specials` of the token that ends here.
    special: Option<u32>,
}

/// The special tokens of a vocabulary, longest first.
#[derive(Debug)]
pub(super) struct SpecialSet {
    specials: Vec<Special>,
    nodes: Vec<TrieNode>,
}

impl SpecialSet {
    pub(super) fn new(mut specials: Vec<Special>) -> Self {
        specials.retain(|special| !special.text.is_empty());
        specials.sort_by_key(|special| (std::cmp::Reverse(special.text.len()), special.id));
        let mut set = Self { specials, nodes: vec![TrieNode::default()] };
        for rank in 0..set.specials.len() {
            set.grow(rank);
        }
        set
    }

    /// Adds the path of special `rank` to the trie.
    fn grow(&mut self, rank: usize) {
        let mut at = 0;
        for &byte in self.specials[rank].text.as_bytes() {
            let n_nodes = self.nodes.len() as u32;
            let children = &mut self.nodes[at].children;
            at = match children.binary_search_by_key(&byte, |&(b, _)| b) {
                Ok(i) => children[i].1 as usize,
                Err(i) => {
                    children.insert(i, (byte, n_nodes));
                    self.nodes.push(TrieNode::default());
                    n_nodes as usize
                }
            };
        }
        self.nodes[at].special.get_or_insert(rank as u32);
    }

    /// The control tokens' texts.
    pub(super) fn trusted_only_texts(&self) -> impl Iterator<Item = &str> {
        self.specials.iter().filter(|s| s.trusted_only).map(|s| s.text.as_str())
    }

    /// The special tokens of `text` in order, not overlapping. Where they could overlap, the longest token goes first
    /// over the whole text, and each token from the left: what is left between takes the next longest.
    pub(super) fn find(&self, text: &str, trust: Trust<'_>) -> Vec<Hit> {
        let mut places = self.places(text);
        places.retain(|place| self.is_allowed(place, trust));
        places.sort_unstable();
        let mut taken = BTreeMap::new();
        for (rank, start) in places {
            let end = start + self.specials[rank as usize].text.len();
            let before: Option<(&usize, &Hit)> = taken.range(..end).next_back();
            if before.is_none_or(|(_, hit)| hit.range.end <= start) {
                taken.insert(start, Hit { id: self.specials[rank as usize].id, range: start..end });
            }
        }
        taken.into_values().collect()
    }

    /// Byte ranges of `text` that spell out control tokens, joined where they overlap.
    pub(super) fn control_spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for (rank, start) in self.places(text) {
            let special = &self.specials[rank as usize];
            if !special.trusted_only {
                continue;
            }
            let end = start + special.text.len();
            match spans.last_mut() {
                Some(last) if start < last.end => last.end = last.end.max(end),
                _ => spans.push(start..end),
            }
        }
        spans
    }

    /// Every occurrence of every special token as (rank, start), by start.
    fn places(&self, text: &str) -> Vec<(u32, usize)> {
        let bytes = text.as_bytes();
        let mut places = Vec::new();
        for start in 0..bytes.len() {
            let mut node = &self.nodes[0];
            for &byte in &bytes[start..] {
                let Ok(i) = node.children.binary_search_by_key(&byte, |&(b, _)| b) else { break };
                node = &self.nodes[node.children[i].1 as usize];
                places.extend(node.special.map(|rank| (rank, start)));
            }
        }
        places
    }

    fn is_allowed(&self, &(rank, start): &(u32, usize), trust: Trust<'_>) -> bool {
        let special = &self.specials[rank as usize];
        if !special.trusted_only {
            return true;
        }
        match trust {
            Trust::Nothing => false,
            Trust::AllBut(ranges) => {
                let next = ranges.partition_point(|range| range.end <= start);
                ranges.get(next).is_none_or(|range| range.start >= start + special.text.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[(&str, bool)]) -> SpecialSet {
        let special = |(id, &(text, trusted_only)): (usize, &(&str, bool))| Special {
            id: id as u32,
            text: text.into(),
            trusted_only,
        };
        SpecialSet::new(texts.iter().enumerate().map(special).collect())
    }

    fn found(set: &SpecialSet, text: &str, trust: Trust<'_>) -> Vec<(u32, usize)> {
        set.find(text, trust).into_iter().map(|hit| (hit.id, hit.range.start)).collect()
    }

    #[test]
    fn the_longest_token_wins_even_when_a_shorter_one_starts_earlier() {
        let set = set(&[("<a><", true), ("<b-long>", true)]);
        assert_eq!(found(&set, "<a><b-long>", Trust::AllBut(&[])), [(1, 3)]);
        assert_eq!(found(&set, "<a><b", Trust::AllBut(&[])), [(0, 0)]);
    }

    #[test]
    fn one_token_is_taken_from_the_left() {
        let set = set(&[("aa", true)]);
        assert_eq!(found(&set, "aaaaa", Trust::AllBut(&[])), [(0, 0), (0, 2)]);
    }

    #[test]
    fn untrusted_text_forms_user_defined_tokens_only() {
        let set = set(&[("<end>", true), ("<tool>", false)]);
        let text = "<end><tool><end>";
        assert_eq!(found(&set, text, Trust::Nothing), [(1, 5)]);
        let all_but = |range| found(&set, text, Trust::AllBut(&Vec::from([range])));
        assert_eq!(all_but(4..6), [(1, 5), (0, 11)]);
        assert_eq!(all_but(5..11), [(0, 0), (1, 5), (0, 11)]);
    }

    #[test]
    fn control_spans_join_where_they_overlap() {
        let set = set(&[("<a|", true), ("|b>", true), ("c", false)]);
        assert_eq!(set.control_spans("x<a|b>c<a|"), [1..6, 7..10]);
    }
}
