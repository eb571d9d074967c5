//! Regular expressions in schemas: rejected unless they match in linear time and bounded memory.

use std::collections::HashSet;

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use super::{SchemaError, display};

/// Maximum compiled size of one pattern in bytes: enough for about a hundred letters of any script.
pub(super) const MAX_SIZE: usize = 10 << 20;
/// Approximate maximum compiled size of all patterns of a schema, in bytes.
const MAX_TOTAL: usize = 64 << 20;
/// Maximum number of distinct patterns in a schema.
const MAX_PATTERNS: usize = 500;

/// The patterns found so far in one schema.
pub(super) struct Patterns {
    draft: Draft,
    seen: HashSet<String>,
}

impl Patterns {
    pub(super) fn new(draft: Draft) -> Self {
        Self { draft, seen: HashSet::new() }
    }

    /// Returns the maximum size of each pattern, which falls with the number of patterns.
    pub(super) fn size_limit(&self) -> usize {
        (MAX_TOTAL / self.seen.len().max(1)).min(MAX_SIZE)
    }

    /// Returns a validator that matches strings against the pattern.
    ///
    /// # Errors
    /// Returns a [`SchemaError`] if the pattern is not a regular expression, needs backtracking, or is too large.
    pub(super) fn check(&mut self, pointer: &str, pattern: &str) -> Result<Validator, SchemaError> {
        let refuse = |message: String| Err(SchemaError { pointer: pointer.to_owned(), message });
        self.seen.insert(pattern.to_owned());
        if self.seen.len() > MAX_PATTERNS {
            return refuse(format!("a schema may have at most {MAX_PATTERNS} different patterns"));
        }
        let schema = json!({ "pattern": pattern });
        if let Ok(validator) = super::validator(self.draft, self.size_limit(), &schema) {
            return Ok(validator);
        }
        let shown = display::text(pattern);
        let look_around = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group));
        refuse(if look_around {
            format!("{shown} uses look-around, which cannot be matched in linear time: rewrite or remove it")
        } else if has_backreference(pattern) {
            format!("{shown} uses a back-reference, which cannot be matched in linear time: rewrite or remove it")
        } else if super::validator(Draft::Draft202012, 64, &json!({"format": "regex"}))
            .is_ok_and(|format| format.is_valid(&Value::String(pattern.to_owned())))
        {
            format!("{shown} is unsupported or too large when compiled: use fewer or smaller repetitions")
        } else {
            format!("{shown} is not a regular expression")
        })
    }
}

/// Returns `true` if a pattern contains `\1` to `\9` or `\k<name>` outside an escaped backslash.
fn has_backreference(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && matches!(characters.next(), Some('1'..='9' | 'k')) {
            return true;
        }
    }
    false
}
