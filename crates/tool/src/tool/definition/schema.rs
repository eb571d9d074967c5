//! Conversion of Rust types to the documentation and schema that a model reads.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value};

/// Returns the documentation and the schema of an argument type. The schema always has a `type`, by default `object`.
pub(super) fn of_arguments<T: JsonSchema>() -> (String, Value) {
    let (description, mut schema) = schema_of::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Missing for an enum's `oneOf`, a reference, and any value.
    schema.entry("type").or_insert_with(|| "object".into());
    (description, Value::Object(schema))
}

/// Returns the schema of a result type.
pub(super) fn of_result<T: JsonSchema>() -> Value {
    Value::Object(schema_of::<T>(SchemaSettings::draft2020_12().for_serialize()).1)
}

/// Returns the documentation and the schema (JSON Schema 2020-12) of a type, without the names of Rust types.
fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> (String, Map<String, Value>) {
    let settings = settings.with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(|schema: &mut schemars::Schema| {
        // "uint32" and "double" are not formats of JSON Schema, and some vendors reject unknown formats.
        if schema.get("format").and_then(Value::as_str).is_some_and(is_rust_number) {
            schema.remove("format");
        }
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = unwrap_lines(description);
        }
    })
    .transform(&mut schema);
    let mut schema = match Value::from(schema) {
        Value::Object(schema) => schema,
        // The schema `true`, which accepts any value.
        _ => Map::new(),
    };
    // The name of the type is useless to a model; its documentation becomes the tool's description.
    schema.remove("title");
    let description = match schema.remove("description") {
        Some(Value::String(description)) => description,
        _ => String::new(),
    };
    (description, schema)
}

/// Joins the lines of paragraphs, which are wrapped only for the source code. Lists and code keep their lines.
fn unwrap_lines(documentation: &str) -> String {
    let mut text = String::with_capacity(documentation.len());
    let mut fenced = false;
    for line in documentation.lines() {
        let fence = line.trim_start().starts_with("```");
        let continues = !fenced
            && !fence
            && !text.is_empty()
            && !text.ends_with('\n')
            && !text.ends_with("```")
            && !starts_block(line);
        match (text.is_empty(), continues) {
            (true, _) => {}
            (false, true) => text.push(' '),
            (false, false) => text.push('\n'),
        }
        fenced ^= fence;
        text.push_str(line);
    }
    text
}

/// Returns `true` if a line of Markdown starts a new block: an empty line, item, heading, quotation or table row.
fn starts_block(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_item = ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || numbered.len() < line.len() && numbered.starts_with(". ");
    is_item || line.is_empty() || line.starts_with(['#', '>', '|', ' '])
}

fn is_rust_number(format: &str) -> bool {
    let width = format.trim_start_matches("uint").trim_start_matches("int");
    matches!(format, "float" | "double") || (width.len() < format.len() && width.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Sends a parcel.
    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Parcel {
        /// In grams.
        #[schemars(range(min = 1, max = 5000))]
        weight: u32,
        price: Option<f64>,
        at: uuid::NonNilUuidText,
    }

    mod uuid {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[schemars(extend("format" = "uuid"))]
        pub struct NonNilUuidText(#[expect(dead_code)] String);
    }

    #[test]
    fn documentation_and_constraints_of_a_type_become_the_definition() {
        let (description, schema) = of_arguments::<Parcel>();
        assert_eq!(description, "Sends a parcel.");
        assert_eq!(
            schema["properties"]["weight"],
            json!({"description": "In grams.", "type": "integer", "minimum": 1, "maximum": 5000})
        );
        assert_eq!(schema["properties"]["price"], json!({"type": ["number", "null"]}));
        assert_eq!(schema["$defs"]["NonNilUuidText"]["format"], "uuid");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!((schema.get("title"), schema.get("$schema"), schema.get("description")), (None, None, None));
    }

    #[test]
    fn line_breaks_of_wrapped_paragraphs_are_removed() {
        let wrapped =
            "One sentence\nthat continues, and\n-2 too.\n\nA list:\n- a\n- b\n1. c\n\n```\nx\ny\n```\nThe end.";
        let expected =
            "One sentence that continues, and -2 too.\n\nA list:\n- a\n- b\n1. c\n\n```\nx\ny\n```\nThe end.";
        assert_eq!(unwrap_lines(wrapped), expected);
    }

    #[test]
    fn schema_of_any_value_accepts_any_object() {
        assert_eq!(of_arguments::<Value>().1, json!({"type": "object"}));
        assert_eq!(of_result::<Value>(), json!({}), "a result may be anything");
    }
}
