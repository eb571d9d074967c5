//! The end of what is too long to be kept: of standard error, and of the output of a program that failed.

use std::collections::VecDeque;

use crate::executor::Redaction;

/// What is shown at most, in bytes.
pub const SHOWN: usize = 16 * 1024;
/// What is kept at most: a secret at the cut would not be known for one.
const KEPT: usize = 2 * SHOWN;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub struct Tail {
    kept: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    /// Takes a piece.
    pub fn take(&mut self, piece: &[u8]) {
        let piece = if piece.len() > KEPT {
            self.is_cut = true;
            &piece[piece.len() - KEPT..]
        } else {
            piece
        };
        let over = (self.kept.len() + piece.len()).saturating_sub(KEPT);
        self.is_cut |= over > 0;
        self.kept.drain(..over);
        self.kept.extend(piece);
    }

    /// What is shown of it, without secrets.
    #[must_use]
    pub fn text(self, redaction: Option<&Redaction>) -> String {
        let Self { mut kept, is_cut } = self;
        let text = String::from_utf8_lossy(kept.make_contiguous()).into_owned();
        let text = redaction.map_or_else(|| text.clone(), |redaction| redaction.text(&text).into_owned());
        let from = if is_cut { SHOWN } else { text.len().saturating_sub(SHOWN) };
        let from = (from.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        if from == 0 { text } else { format!("…{}", &text[from..]) }
    }
}

/// What is shown of a text.
#[must_use]
pub fn of(text: &str, redaction: Option<&Redaction>) -> String {
    let mut tail = Tail::default();
    tail.take(text.as_bytes());
    tail.text(redaction)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_text_is_whole_and_a_long_one_keeps_its_end() {
        assert_eq!(of("all of it", None), "all of it");
        let long = of(&format!("{}the end", "é".repeat(40_000)), None);
        assert!(long.starts_with("…é") && long.ends_with("the end") && long.len() <= SHOWN + 4);
        let medium = of(&format!("{}end", "x".repeat(SHOWN)), None);
        assert_eq!(medium.len(), SHOWN + "…".len());
    }

    #[test]
    fn no_part_of_a_secret_is_left_at_a_cut() {
        let secret = "s3cret".repeat(100);
        let redaction = Redaction::of(&[json!(secret)]).unwrap();
        for before in [KEPT - 300, KEPT - 10, SHOWN - 300] {
            let text = format!("{}{secret}{}", "x".repeat(10), "y".repeat(before));
            assert!(!of(&text, redaction.as_ref()).contains("s3"), "{before}");
        }
    }
}
