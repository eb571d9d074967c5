//! Incremental detection of the end of a JSON array or object, by counting brackets without parsing.

/// The state of a scan of a JSON text.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Only whitespace so far.
    #[default]
    Blank,
    Within,
    /// The outermost bracket is closed.
    Complete,
    /// The text does not start with a bracket, or continues after the last one.
    Odd,
}

impl Scan {
    /// Scans up to the end of the array or object and returns the number of bytes consumed.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.stage != Stage::Complete {
            let byte = bytes[at];
            at += 1;
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match byte {
                    b'"' => self.in_string = false,
                    b'\\' => self.escaped = true,
                    // Most bytes are within strings: skip to the next quote or backslash.
                    _ => {
                        let rest = &bytes[at..];
                        at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
                    }
                }
            } else {
                self.outside_strings(byte);
            }
        }
        at
    }

    fn outside_strings(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' if self.stage != Stage::Odd => {
                self.stage = Stage::Within;
                self.depth += 1;
            }
            b'}' | b']' if self.stage == Stage::Within => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.stage = Stage::Complete;
                }
            }
            b'"' if self.stage == Stage::Within => self.in_string = true,
            _ if self.stage == Stage::Blank && !byte.is_ascii_whitespace() => self.stage = Stage::Odd,
            _ => {}
        }
    }

    /// Scans all of the next chunk.
    pub(super) fn push(&mut self, piece: &str) {
        let taken = self.advance(piece.as_bytes());
        if piece.as_bytes()[taken..].iter().any(|byte| !byte.is_ascii_whitespace()) {
            self.stage = Stage::Odd;
        }
    }

    /// Returns `true` if the text is one complete array or object, which may still be invalid JSON.
    pub(super) fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// Returns `true` if the text is empty or only whitespace.
    pub(super) fn is_blank(&self) -> bool {
        self.stage == Stage::Blank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> bool {
        let mut whole = Scan::default();
        whole.push(text);
        let mut pieces = Scan::default();
        text.chars().for_each(|letter| pieces.push(&letter.to_string()));
        assert_eq!(whole.is_complete(), pieces.is_complete(), "{text}");
        whole.is_complete()
    }

    #[test]
    fn only_a_full_object_or_array_is_complete() {
        for whole in ["{}", " [1, 2]\n", r#"{"a":"}\\","b":{"c":"\"]"}} "#, r#"{"a": tru}"#] {
            assert!(complete(whole), "{whole}");
        }
        for not in ["", " ", "{", r#"{"a":"}"#, r#"{"a":"\"}"#, "{}{}", "{} x", "12", "\"{}\"", "x{}", "}"] {
            assert!(!complete(not), "{not}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_not_consumed() {
        let mut scan = Scan::default();
        assert_eq!((scan.advance(b"{\"a\":1}{}"), scan.is_complete()), (7, true));
    }
}
