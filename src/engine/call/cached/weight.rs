//! The approximate memory of a cached outcome.

use serde_json::{Map, Value};

use crate::domain::{ContentBlock, Outcome};

/// Memory of each JSON value in addition to its text, in bytes.
const PER_VALUE: usize = 32;

/// Returns the approximate memory of an outcome and its cache entry, in bytes.
pub fn of(outcome: &Outcome) -> usize {
    let blocks = outcome.content.iter().map(|block| {
        PER_VALUE
            + match block {
                ContentBlock::Text(text) => text.len(),
                ContentBlock::Image { data, mime_type } => data.len() + mime_type.len(),
                ContentBlock::Other(members) => of_members(members),
            }
    });
    let texts = outcome.output.len() + outcome.structured_text.as_ref().map_or(0, |text| text.get().len());
    let structured = outcome.structured.as_deref().map_or(0, of_value);
    8 * PER_VALUE
        + texts
        + structured
        + blocks.sum::<usize>()
        + of_members(&outcome.details)
        + of_members(&outcome.metadata)
}

/// Recursion is safe because requests and tool outputs bound the nesting depth.
fn of_value(value: &Value) -> usize {
    PER_VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of_value).sum(),
            Value::Object(members) => of_members(members),
            _ => 0,
        }
}

fn of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| PER_VALUE + name.len() + of_value(value)).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn images_and_data_are_counted_by_size() {
        let image = ContentBlock::Image { data: "A".repeat(1_000_000), mime_type: "image/png".into() };
        assert!(of(&Outcome::blocks(vec![image])) > 1_000_000);
        let rows: Vec<_> = (0..1000).map(|n| json!({"name": "x".repeat(100), "n": n})).collect();
        assert!(of(&Outcome::data(Arc::new(rows.into()))) > 200_000);
        assert!(of(&Outcome::text("done")) < 1000);
    }
}
