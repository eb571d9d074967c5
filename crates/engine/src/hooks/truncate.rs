//! The built-in hook `truncate`: limits the stored length of outputs.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::response::set_text;
use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::decode;
use toolpost_core::domain::limits::Bounds;

/// The options of the hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = TruncateOptions)]
pub struct Truncate {
    #[schema(value_type = Option<i64>, minimum = 0)]
    max_bytes: Option<usize>,
    #[schema(value_type = Option<i64>, minimum = 0, extensions(("x-together" = json!({"anyOf": [
        {"required": ["max_bytes"], "properties": {"max_bytes": {"type": "integer"}}},
        {"required": ["max_lines"], "properties": {"max_lines": {"type": "integer"}}}]}))))]
    max_lines: Option<usize>,
}

impl Truncate {
    /// Parses `{max_bytes?, max_lines?}`.
    pub fn read(options: &Value) -> Result<Self, Vec<(String, String)>> {
        let truncate: Self = decode::read(options.clone()).map_err(|error| vec![(error.pointer, error.message)])?;
        if truncate == Self::default() {
            return Err(vec![(String::new(), "needs max_bytes or max_lines".to_owned())]);
        }
        let largest = truncate.max_bytes.max(truncate.max_lines).unwrap_or_default();
        if i64::try_from(largest).is_err() {
            return Err(vec![(String::new(), format!("max_bytes and max_lines must be at most {}", i64::MAX))]);
        }
        Ok(truncate)
    }

    /// Truncates the stored output of an ended call, and records this in the metadata. Returns `true` if anything
    /// changed.
    pub fn apply(&self, call: &mut CallRecord) -> bool {
        let Some(outcome) = &mut call.outcome else { return false };
        let whole = outcome.whole_output();
        let kept = self.kept(&whole);
        if kept.len() == whole.len() {
            return false;
        }
        let note = serde_json::json!({"bytes": whole.len(), "kept_bytes": kept.len()});
        let kept = kept.to_owned();
        let outcome = Arc::make_mut(outcome);
        set_text(outcome, kept);
        // The rest may still exceed the limit for models.
        let bounds = call.limits.map_or_else(Bounds::default, |limits| limits.output());
        *outcome = std::mem::take(outcome).truncated(&bounds, call.id);
        call.metadata.insert("stored_truncated".to_owned(), note);
        true
    }

    fn kept<'a>(&self, text: &'a str) -> &'a str {
        let lines = self.max_lines.and_then(|max| {
            let mut ends = text.match_indices('\n').map(|(at, _)| at);
            if max == 0 { Some(0) } else { ends.nth(max - 1) }
        });
        let text = &text[..lines.unwrap_or(text.len())];
        &text[..text.floor_char_boundary(self.max_bytes.unwrap_or(text.len()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(options: Value, text: &str) -> &str {
        Truncate::read(&options).unwrap().kept(text)
    }

    #[test]
    fn text_is_cut_at_characters_and_lines() {
        assert_eq!(kept(serde_json::json!({"max_bytes": 3}), "aéé"), "aé");
        assert_eq!(kept(serde_json::json!({"max_bytes": 3}), "ab"), "ab");
        assert_eq!(kept(serde_json::json!({"max_lines": 2}), "a\nb\nc"), "a\nb");
        assert_eq!(kept(serde_json::json!({"max_lines": 2}), "a\nb"), "a\nb");
        assert_eq!(kept(serde_json::json!({"max_lines": 2, "max_bytes": 2}), "a\nb\nc"), "a\n");
        assert_eq!(kept(serde_json::json!({"max_lines": 0}), "a"), "");
    }

    #[test]
    fn options_without_effect_are_rejected() {
        for bad in [serde_json::json!({}), serde_json::json!({"max_bites": 1}), serde_json::json!({"max_bytes": -1})] {
            Truncate::read(&bad).unwrap_err();
        }
    }
}
