//! Regular expressions in conditions, with bounds on their size.

use regex::{Regex, RegexBuilder};

/// Sizes of a compiled pattern in bytes, and the steps for each [`BYTES`] of a text that such a pattern is matched against.
const CLASSES: [(usize, u64); 3] = [(16 * 1024, 1), (256 * 1024, 4), (10 * 1024 * 1024, 16)];
/// Bytes of a text that take the steps of a class.
const BYTES: usize = 16;
/// Maximum length of a pattern that is not part of the expression, in bytes.
const MAX_VALUE: usize = 512;
/// Steps for the compilation of a pattern that is not part of the expression.
pub(super) const COMPILE_STEPS: u64 = 20_000;

/// A compiled regular expression.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Steps for each [`BYTES`] of a text.
    weight: u64,
}

impl Pattern {
    /// Compiles a pattern of an expression.
    ///
    /// # Errors
    /// Returns a message if the pattern is invalid or too large.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::within(source, &CLASSES)
    }

    /// Compiles a pattern that an argument contains, with tighter bounds.
    ///
    /// # Errors
    /// Returns a message if the pattern is invalid or too large.
    pub fn of_value(source: &str) -> Result<Self, String> {
        if source.len() > MAX_VALUE {
            return Err(format!("a pattern that is not constant may have at most {MAX_VALUE} bytes"));
        }
        Self::within(source, &CLASSES[..2])
    }

    fn within(source: &str, classes: &[(usize, u64)]) -> Result<Self, String> {
        let mut message = String::new();
        for (size, weight) in classes {
            match RegexBuilder::new(source).size_limit(*size).build() {
                Ok(regex) => return Ok(Self { regex, weight: *weight }),
                Err(regex::Error::CompiledTooBig(_)) => message = "the pattern is too large".to_owned(),
                Err(error) => {
                    let last = error.to_string().lines().last().unwrap_or_default().to_owned();
                    return Err(format!("the pattern is invalid: {last}"));
                }
            }
        }
        Err(message)
    }

    /// Returns the steps of a match against a text of this length in bytes.
    pub fn steps_for(&self, length: usize) -> u64 {
        (length / BYTES) as u64 * self.weight + self.weight
    }

    /// Returns `true` if a part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_patterns_take_more_steps() {
        let small = Pattern::compile("^a+b$").unwrap();
        let large = Pattern::compile(r"^/srv/[\w-]{1,64}/[\w.-]{1,128}$").unwrap();
        assert!(small.steps_for(1600) < large.steps_for(1600));
        assert!(small.is_match("aab") && large.is_match("/srv/a/b.txt"));
    }

    #[test]
    fn invalid_and_excessive_patterns_are_rejected() {
        assert!(Pattern::compile("(").unwrap_err().contains("invalid"));
        assert!(Pattern::compile(r"(\w{1,1000}){1,1000}").unwrap_err().contains("too large"));
        assert!(Pattern::of_value(r"[\w-]{1,128}[\w-]{1,128}").unwrap_err().contains("too large"));
        assert!(Pattern::of_value(&"a".repeat(MAX_VALUE + 1)).unwrap_err().contains("at most"));
    }
}
