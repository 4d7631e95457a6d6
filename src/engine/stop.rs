//! Stop strings in a stream of text pieces.

/// Looks for stop strings in text that arrives in pieces, and holds text back as long as it may be the start of one.
#[derive(Clone, Debug, Default)]
pub(super) struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// What can be shown after a piece arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StopStep {
    /// Text that is no part of any stop string.
    pub(super) text: String,
    /// A stop string was found; `text` is what came before it and nothing may follow.
    pub(super) stopped: bool,
}

impl StopMatcher {
    /// A matcher for `stops`; empty strings are ignored.
    pub(super) fn new(stops: &[String]) -> StopMatcher {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        StopMatcher { stops, held: String::new() }
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: &str) -> StopStep {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(start) = found {
            self.held.truncate(start);
            return StopStep { text: std::mem::take(&mut self.held), stopped: true };
        }
        let n_keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - n_keep);
        StopStep { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// The text that was held back, once no more will come.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes of the longest end of `text` that is a beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = stop.len().min(text.len());
    (1..=longest)
        .rev()
        .find(|&n| stop.as_bytes().starts_with(&text.as_bytes()[text.len() - n..]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
        let mut matcher = StopMatcher::new(&stops);
        let mut shown = Vec::new();
        for piece in pieces {
            let step = matcher.push(piece);
            shown.push(step.text);
            if step.stopped {
                return (shown, true);
            }
        }
        shown.push(matcher.finish());
        (shown, false)
    }

    #[test]
    fn a_stop_string_across_pieces_is_never_shown_in_part() {
        let (shown, stopped) = run(&["ta gam"], &["alpha", " be", "ta", " g", "amma", " delta"]);
        assert!(stopped);
        assert_eq!(shown, ["alpha", " be", "", "", ""]);
    }

    #[test]
    fn text_that_only_began_like_a_stop_string_is_shown_in_full() {
        let (shown, stopped) = run(&["\n\nUser:"], &["a\n", "\nUs", "ual"]);
        assert!(!stopped);
        assert_eq!(shown.concat(), "a\n\nUsual");
        let (shown, _) = run(&["\n\nUser:"], &["a\n", "\nUs"]);
        assert_eq!(shown, ["a", "", "\n\nUs"]);
    }

    #[test]
    fn the_earliest_match_wins_and_empty_strings_match_nothing() {
        let (shown, stopped) = run(&["", "cd", "bc"], &["abcd"]);
        assert!(stopped);
        assert_eq!(shown.concat(), "a");
        let (shown, stopped) = run(&["", ""], &["abc"]);
        assert!(!stopped);
        assert_eq!(shown.concat(), "abc");
    }

    #[test]
    fn a_repeating_beginning_is_held_at_its_longest() {
        let (shown, stopped) = run(&["aab"], &["a", "a", "a", "b"]);
        assert!(stopped);
        assert_eq!(shown.concat(), "a");
    }

    #[test]
    fn multibyte_text_is_cut_between_characters() {
        let (shown, stopped) = run(&["é!"], &["caf", "é", "é", "!"]);
        assert!(stopped);
        assert_eq!(shown.concat(), "café");
    }
}
