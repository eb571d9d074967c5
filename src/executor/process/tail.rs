//! The end of what is too long to be kept: of standard error, and of the output of a program that failed.

use crate::domain::limits::Bounds;
use crate::executor::Redaction;

/// What is shown at most, in bytes.
pub const SHOWN: usize = 16 * 1024;
/// What is kept at most: a secret at the cut would not be known for one.
const KEPT: usize = 2 * SHOWN;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub struct Tail {
    kept: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    /// Takes a piece.
    pub fn take(&mut self, piece: &[u8]) {
        let piece = &piece[self.cut(piece.len())..];
        self.kept.extend_from_slice(piece);
        // Not at every piece, or each would move all that is kept.
        if self.kept.len() > 2 * KEPT {
            let over = self.cut(self.kept.len());
            self.kept.drain(..over);
        }
    }

    /// How much of so many bytes is not kept.
    fn cut(&mut self, length: usize) -> usize {
        let over = length.saturating_sub(KEPT);
        self.is_cut |= over > 0;
        over
    }

    /// What is shown of it, without secrets, in no more than this.
    #[must_use]
    pub fn text(mut self, redaction: Option<&Redaction>, most: Bounds) -> String {
        let over = self.cut(self.kept.len());
        let text = String::from_utf8_lossy(&self.kept[over..]).into_owned();
        let text = redaction.map_or_else(|| text.clone(), |redaction| redaction.text(&text).into_owned());
        let bytes = usize::try_from(most.bytes).unwrap_or(SHOWN).min(SHOWN);
        let from = text.len().saturating_sub(bytes).max(if self.is_cut { SHOWN } else { 0 });
        let from = (from.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let lines = usize::try_from(most.lines).unwrap_or(usize::MAX);
        let ends = text[from..].trim_end_matches('\n').rmatch_indices('\n');
        let from = ends.map(|(at, _)| from + at + 1).nth(lines.saturating_sub(1)).unwrap_or(from);
        if from == 0 { text } else { format!("…{}", &text[from..]) }
    }
}

/// What is shown of it when it is all there.
#[must_use]
pub fn of(text: &[u8], redaction: Option<&Redaction>, most: Bounds) -> String {
    let mut tail = Tail::default();
    tail.take(text);
    tail.text(redaction, most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(text: &str, redaction: Option<&Redaction>) -> String {
        of(text.as_bytes(), redaction, Bounds::default())
    }

    #[test]
    fn a_short_text_is_whole_and_a_long_one_keeps_its_end() {
        assert_eq!(shown("all of it", None), "all of it");
        let long = shown(&format!("{}the end", "é".repeat(40_000)), None);
        assert!(long.starts_with("…é") && long.ends_with("the end") && long.len() <= SHOWN + 4);
        let medium = shown(&format!("{}end", "x".repeat(SHOWN)), None);
        assert_eq!(medium.len(), SHOWN + "…".len());
    }

    #[test]
    fn no_more_is_shown_than_is_asked_for() {
        let most = |bytes, lines| Bounds { bytes, lines, ..Bounds::default() };
        assert_eq!(of(b"a\nb\nc\n", None, most(100, 2)), "…b\nc\n");
        assert_eq!(of(b"a\nb\nc", None, most(100, 3)), "a\nb\nc");
        assert_eq!(of("aé\nb".as_bytes(), None, most(3, 3)), "…\nb");
        assert_eq!(of(b"abc", None, most(0, 0)), "…");
    }

    #[test]
    fn no_part_of_a_secret_is_left_at_a_cut() {
        let secret = "s3cret".repeat(100);
        let redaction = Redaction::of(&[json!(secret)]).unwrap();
        for before in [KEPT - 300, KEPT - 10, SHOWN - 300] {
            let text = format!("{}{secret}{}", "x".repeat(10), "y".repeat(before));
            assert!(!shown(&text, redaction.as_ref()).contains("s3"), "{before}");
        }
    }
}
