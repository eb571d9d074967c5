//! Patterns with look-around or back-references. Matching them backtracks, so the work of each check is bounded: a text
//! that reaches the bound counts as invalid.

use std::cell::Cell;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::json::SerdeJson;
use jsonschema::paths::Location;
use jsonschema::{Draft, FancyRegex, Keyword, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Value, json};

use super::{Engine, display};

/// Maximum numbers of backtracking steps. The smaller ones are tried first, and longer texts get only those.
const STEPS: [u32; 3] = [16, 256, 8192];
/// Maximum work of one check. The work of a match is at most its steps times the length of the text in bytes.
const WORK: u64 = 100_000_000;
/// Work that a match takes in addition for each step, in bytes of text.
const OVERHEAD: u64 = 16;
/// Maximum number of backtracking steps for the name of a property.
const STEPS_OF_NAME: usize = 1000;
/// Maximum total length of the names of properties in a value that are matched against such patterns, in bytes.
const MAX_NAMES: usize = 20_000;

thread_local! {
    /// The work that remains for the current check on this thread, and whether a match has reached a bound.
    static REMAINING: Cell<(u64, bool)> = const { Cell::new((WORK, false)) };
}

/// Runs a check with the bound on its work. Nothing is matched if the check is not affordable: its result is then
/// unknown.
pub(super) fn bounded<T>(is_affordable: bool, check: impl FnOnce() -> T) -> T {
    REMAINING.set((WORK, !is_affordable));
    let result = check();
    REMAINING.set((WORK, false));
    result
}

/// Returns `true` if a match of the current check has reached the bound: the result of the check is then unknown.
pub(super) fn is_unfinished() -> bool {
    REMAINING.get().1
}

/// Returns `true` if the names of the properties in a value are too long to be matched.
pub(super) fn has_too_many_names(value: &Value) -> bool {
    fn count(value: &Value, left: &mut usize) -> bool {
        match value {
            Value::Array(items) => items.iter().all(|item| count(item, left)),
            Value::Object(members) => members.iter().all(|(name, member)| {
                *left = left.saturating_sub(name.len() + 1);
                *left > 0 && count(member, left)
            }),
            _ => true,
        }
    }
    !count(value, &mut { MAX_NAMES })
}

/// Adds patterns that backtrack to the options of a validator.
pub(super) fn permit(options: ValidationOptions<'_>, draft: Draft, size: usize) -> ValidationOptions<'_> {
    let names = engine(STEPS_OF_NAME, size);
    options.with_pattern_options(names).with_keyword("pattern", move |_: &Map<_, _>, pattern: &Value, _: Location| {
        let text = pattern.as_str().unwrap_or_default();
        let linear = super::validator(draft, Engine::linear(size), &json!({ "pattern": pattern }));
        let compiled = match linear {
            Ok(validator) => Some(Pattern::Linear(Box::new(validator))),
            Err(_) => compile(draft, size, text)
                .map(|compiled| Pattern::Backtracking { shown: display::text(text), compiled }),
        };
        match compiled {
            Some(pattern) => Ok(Box::new(pattern)),
            None => Err(ValidationError::custom("is not a regular expression")),
        }
    })
}

fn engine(steps: usize, size: usize) -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(steps).size_limit(size).dfa_size_limit(size)
}

/// Compiles a pattern once for each number of steps; `None` if it is not a regular expression or too large.
fn compile(draft: Draft, size: usize, pattern: &str) -> Option<Vec<(u64, Validator)>> {
    let schema = json!({ "pattern": with_numbers(pattern) });
    let compiled = |steps: u32| {
        let options = jsonschema::options().with_draft(draft).offline();
        let validator = options.with_pattern_options(engine(steps as usize, size)).build(&schema).ok()?;
        Some((u64::from(steps), validator))
    };
    STEPS.into_iter().map(compiled).collect()
}

/// Replaces references to named groups (`\k<name>`) by their numbers, which the validator knows.
fn with_numbers(pattern: &str) -> String {
    let (mut names, mut groups, mut in_class) = (Vec::new(), 0, false);
    let mut at = 0;
    while let Some(letter) = pattern[at..].chars().next() {
        let rest = &pattern[at..];
        match letter {
            '\\' => at += rest.chars().nth(1).map_or(0, char::len_utf8),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let name = rest.strip_prefix("(?<").filter(|name| !name.starts_with(['=', '!']));
                groups += usize::from(name.is_some() || !rest.starts_with("(?"));
                names.extend(name.and_then(|name| Some((name.split_once('>')?.0, groups))));
            }
            _ => {}
        }
        at += letter.len_utf8();
    }
    // The number is in a group of its own, because a digit may follow.
    names.iter().fold(pattern.to_owned(), |pattern, (name, number)| {
        pattern.replace(&format!("\\k<{name}>"), &format!("(?:\\{number})"))
    })
}

/// The keyword `pattern` of a schema with patterns that backtrack.
enum Pattern {
    Linear(Box<Validator>),
    Backtracking {
        /// The pattern, as messages show it.
        shown: String,
        /// The numbers of steps, in ascending order, each with the pattern compiled for it.
        compiled: Vec<(u64, Validator)>,
    },
}

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self {
            Self::Linear(validator) => validator.validate(instance),
            Self::Backtracking { .. } if Keyword::<SerdeJson>::is_valid(self, instance) => Ok(()),
            Self::Backtracking { shown, .. } if is_unfinished() => Err(ValidationError::custom(format!(
                "is too long to be matched against {shown}, which backtracks: shorten it, or rewrite the pattern"
            ))),
            Self::Backtracking { shown, .. } => Err(ValidationError::custom(format!("must match the pattern {shown}"))),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        match (self, instance.as_str()) {
            (Self::Linear(validator), _) => validator.is_valid(instance),
            (Self::Backtracking { compiled, .. }, Some(text)) => matches(compiled, instance, text.len()),
            (Self::Backtracking { .. }, None) => true,
        }
    }
}

/// Matches a text of this length within the remaining work. A text that reaches the bound does not match.
fn matches(compiled: &[(u64, Validator)], text: &Value, length: usize) -> bool {
    for (steps, pattern) in compiled {
        let (left, unfinished) = REMAINING.get();
        let Some(left) = left.checked_sub(steps * (length as u64 + OVERHEAD)) else { break };
        REMAINING.set((left, unfinished));
        match pattern.validate(text).map_err(|error| matches!(error.kind(), Kind::Pattern { .. })) {
            Ok(()) => return true,
            Err(true) => return false,
            // The match needs more steps, or the engine has failed.
            Err(false) => {}
        }
    }
    REMAINING.set((REMAINING.get().0, true));
    false
}
