//! The end of a text that is too long: of standard error, and of the output of a failed program.

use crate::executor::Redaction;
use toolpost_core::domain::limits::Bounds;

/// Maximum size of the shown text, in bytes.
pub const SHOWN: usize = 16 * 1024;
/// Maximum size of the kept text, in bytes. It exceeds the shown size, because a secret that is cut in two would not be
/// found.
const KEPT: usize = 2 * SHOWN;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub struct Tail {
    kept: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    /// Appends a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[self.cut(chunk.len())..];
        self.kept.extend_from_slice(chunk);
        // Removes old bytes in large steps, because each removal moves the kept bytes.
        if self.kept.len() > 2 * KEPT {
            let over = self.cut(self.kept.len());
            self.kept.drain(..over);
        }
    }

    /// Returns the number of excess bytes.
    fn cut(&mut self, length: usize) -> usize {
        let over = length.saturating_sub(KEPT);
        self.is_cut |= over > 0;
        over
    }

    /// Returns the redacted end of the text within the given bounds.
    #[must_use]
    pub fn text(mut self, redaction: Option<&Redaction>, bounds: Bounds) -> String {
        let over = self.cut(self.kept.len());
        let text = Redaction::apply(redaction, String::from_utf8_lossy(&self.kept[over..]).into_owned());
        let bytes = usize::try_from(bounds.bytes).unwrap_or(SHOWN).min(SHOWN);
        let from = text.len().saturating_sub(bytes).max(if self.is_cut { SHOWN } else { 0 });
        let from = text.ceil_char_boundary(from);
        let lines = usize::try_from(bounds.lines).unwrap_or(usize::MAX);
        let ends = text[from..].trim_end_matches('\n').rmatch_indices('\n');
        let from = ends.map(|(at, _)| from + at + 1).nth(lines.saturating_sub(1)).unwrap_or(from);
        if from == 0 { text } else { format!("…{}", &text[from..]) }
    }
}

/// Returns the redacted end of a complete text within the given bounds.
#[must_use]
pub fn render_tail(text: &[u8], redaction: Option<&Redaction>, bounds: Bounds) -> String {
    let mut tail = Tail::default();
    tail.push(text);
    tail.text(redaction, bounds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(text: &str, redaction: Option<&Redaction>) -> String {
        render_tail(text.as_bytes(), redaction, Bounds::default())
    }

    #[test]
    fn long_text_keeps_its_end() {
        assert_eq!(shown("nothing is cut", None), "nothing is cut");
        let long = shown(&format!("{}the end", "é".repeat(40_000)), None);
        assert!(long.starts_with("…é") && long.ends_with("the end") && long.len() <= SHOWN + 4);
        let medium = shown(&format!("{}end", "x".repeat(SHOWN)), None);
        assert_eq!(medium.len(), SHOWN + "…".len());
    }

    #[test]
    fn bounds_are_respected() {
        let bounds = |bytes, lines| Bounds { bytes, lines, ..Bounds::default() };
        assert_eq!(render_tail(b"a\nb\nc\n", None, bounds(100, 2)), "…b\nc\n");
        assert_eq!(render_tail(b"a\nb\nc", None, bounds(100, 3)), "a\nb\nc");
        assert_eq!(render_tail("aé\nb".as_bytes(), None, bounds(3, 3)), "…\nb");
        assert_eq!(render_tail(b"abc", None, bounds(0, 0)), "…");
    }

    #[test]
    fn secret_at_the_cut_is_redacted() {
        let secret = "s3cret".repeat(100);
        let redaction = Redaction::of(&[json!(secret)]).unwrap();
        for before in [KEPT - 300, KEPT - 10, SHOWN - 300] {
            let text = format!("{}{secret}{}", "x".repeat(10), "y".repeat(before));
            assert!(!shown(&text, redaction.as_ref()).contains("s3"), "{before}");
        }
    }
}
