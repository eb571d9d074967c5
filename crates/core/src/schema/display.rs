//! Values formatted for messages, always short.

use serde_json::Value;

use crate::domain::json;

/// Maximum number of characters shown of a string.
const MAX_CHARS: usize = 60;

/// Formats a string in quotes, shortened.
pub(super) fn text(text: &str) -> String {
    Value::String(json::shorten(text, MAX_CHARS)).to_string()
}

/// Formats a scalar as JSON, shortened; names only the type of an object or array.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Formats the type of a value and, for scalars, the value: `string "x"`.
pub(super) fn typed(value: &Value) -> String {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => json::type_name(value).to_owned(),
        scalar => format!("{} {}", json::type_name(scalar), self::value(scalar)),
    }
}

/// Formats the first of several values, joined by commas, with the total if some are omitted.
pub(super) fn listed<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> String {
    let (total, mut text, mut shown) = (values.len(), String::new(), 0);
    for value in values {
        let next = self::value(value);
        if text.len() + next.len() > 140 && shown > 0 {
            break;
        }
        text.push_str(if shown > 0 { ", " } else { "" });
        text.push_str(&next);
        shown += 1;
    }
    if shown < total { format!("{text}, … ({total} in all)") } else { text }
}
