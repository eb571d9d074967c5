//! The work of a check, as far as it decides whether the check runs aside.

use serde_json::Value;

use super::patterns::PatternEffort;

/// Maximum number of subschemas applied to values in a small check, which takes less than 10 ms.
const SMALL: u64 = 500_000;
/// Maximum length of a text that is matched against a large pattern in a small check, in bytes.
const MATCHED: usize = 128;
/// The length of text in bytes that counts as much as one value.
const TEXT: usize = 16;

/// The work that a schema causes for each value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The number of subschemas when every reference is expanded.
    pub(super) expansion: u64,
    /// The work of matching patterns.
    pub(super) patterns: PatternEffort,
}

impl Effort {
    /// Returns `true` if matching patterns backtracks.
    pub(super) fn backtracks(self) -> bool {
        self.patterns >= PatternEffort::Strings
    }

    /// Returns `true` if a check of the value takes little time. Large values are not visited whole.
    pub(super) fn is_small_for(self, value: &Value) -> bool {
        if self.backtracks() {
            return false;
        }
        let longest = if self.patterns == PatternEffort::Large { MATCHED } else { usize::MAX };
        visit(value, longest, &mut (SMALL / self.expansion.max(1)))
    }
}

/// Visits a value and its parts; returns `false` as soon as `left` is used up or a text is longer than `longest`.
fn visit(value: &Value, longest: usize, left: &mut u64) -> bool {
    let text = |text: &str, left: &mut u64| {
        *left = left.saturating_sub(1 + (text.len() / TEXT) as u64);
        *left > 0 && text.len() <= longest
    };
    match value {
        Value::String(string) => text(string, left),
        Value::Array(items) => items.iter().all(|item| visit(item, longest, left)),
        Value::Object(members) => members.iter().all(|(name, member)| text(name, left) && visit(member, longest, left)),
        _ => text("", left),
    }
}
