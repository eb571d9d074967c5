//! Regular expressions in schemas: most match in linear time, all in bounded memory.

use std::collections::HashSet;

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use super::{Engine, SchemaError, display};

/// Maximum compiled size of one pattern in bytes: enough for about a hundred letters of any script.
pub(super) const MAX_SIZE: usize = 10 << 20;
/// Maximum compiled size of a small pattern in bytes: each byte of a text takes little work.
const SMALL: usize = 32 << 10;
/// Approximate maximum compiled size of all patterns of a schema, in bytes.
const MAX_TOTAL: usize = 64 << 20;
/// Maximum number of distinct patterns in a schema.
const MAX_PATTERNS: usize = 500;

/// The work of matching the patterns of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PatternEffort {
    /// There are none, or small ones only.
    Small,
    /// All are matched in linear time, but one is so large that it can take long.
    Large,
    /// Patterns of strings backtrack.
    Strings,
    /// Patterns of the names of properties backtrack.
    Names,
}

/// The patterns found so far in one schema.
pub(super) struct Patterns {
    draft: Draft,
    seen: HashSet<String>,
    effort: PatternEffort,
}

impl Patterns {
    pub(super) fn new(draft: Draft) -> Self {
        Self { draft, seen: HashSet::new(), effort: PatternEffort::Small }
    }

    /// Returns the work of matching the patterns.
    pub(super) fn effort(&self) -> PatternEffort {
        self.effort
    }

    /// Returns the engine for all patterns. The maximum size of each falls with their number.
    pub(super) fn engine(&self) -> Engine {
        Engine { size: self.size_limit(), backtracks: self.effort >= PatternEffort::Strings }
    }

    fn size_limit(&self) -> usize {
        (MAX_TOTAL / self.seen.len().max(1)).min(MAX_SIZE)
    }

    /// Returns a validator that matches strings against the pattern.
    ///
    /// # Errors
    /// Returns a [`SchemaError`] if the pattern is not a regular expression or is too large.
    pub(super) fn check(&mut self, pointer: &str, pattern: &str) -> Result<Validator, SchemaError> {
        self.compile(pointer, pattern, PatternEffort::Strings)
    }

    /// Like [`check`](Self::check), for a pattern of the names of properties.
    pub(super) fn check_name(&mut self, pointer: &str, pattern: &str) -> Result<Validator, SchemaError> {
        self.compile(pointer, pattern, PatternEffort::Names)
    }

    fn compile(&mut self, pointer: &str, pattern: &str, effort: PatternEffort) -> Result<Validator, SchemaError> {
        let refuse = |message: String| Err(SchemaError { pointer: pointer.to_owned(), message });
        self.seen.insert(pattern.to_owned());
        if self.seen.len() > MAX_PATTERNS {
            return refuse(format!("a schema may have at most {MAX_PATTERNS} different patterns"));
        }
        let schema = json!({ "pattern": pattern });
        if let Ok(validator) = super::validator(self.draft, Engine::linear(self.size_limit()), &schema) {
            let is_small = super::validator(self.draft, Engine::linear(SMALL), &schema).is_ok();
            self.effort = self.effort.max(if is_small { PatternEffort::Small } else { PatternEffort::Large });
            return Ok(validator);
        }
        if let Some(validator) = self.backtracking_validator(pattern, &schema) {
            self.effort = self.effort.max(effort);
            return Ok(validator);
        }
        let shown = display::text(pattern);
        let is_expression = super::validator(Draft::Draft202012, Engine::linear(64), &json!({"format": "regex"}))
            .is_ok_and(|format| format.is_valid(&Value::String(pattern.to_owned())));
        refuse(if is_expression {
            format!("{shown} is unsupported or too large when compiled: use fewer or smaller repetitions")
        } else {
            format!("{shown} is not a regular expression")
        })
    }

    /// Returns a validator of a pattern with look-around or back-references.
    fn backtracking_validator(&self, pattern: &str, schema: &Value) -> Option<Validator> {
        if !needs_backtracking(pattern) {
            return None;
        }
        super::validator(self.draft, Engine::backtracking(self.size_limit()), schema).ok()
    }
}

/// Returns `true` if a pattern has look-around or back-references.
pub(super) fn needs_backtracking(pattern: &str) -> bool {
    let look_around = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group));
    look_around || has_backreference(pattern)
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
