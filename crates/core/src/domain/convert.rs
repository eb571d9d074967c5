//! The outputs of executors, and their conversion to outcomes, by the same rules for every executor
//! (docs/reference/contract.md, section 4, "Result conversion").

use std::sync::Arc;

use base64::Engine;
use serde_json::{Map, Value};

use super::{ContentBlock, Failure, Outcome, json};

mod stated;

pub use stated::stated_failure;

/// The text for the model if a tool returned nothing.
const DONE: &str = "Done";

/// The members of an object that is already an outcome.
const OUTCOME_KEYS: [&str; 6] = ["output", "content", "details", "structured", "is_error", "metadata"];

/// Converts the output of the tool `name` to an outcome.
///
/// - A string is used as text without quotes; [`ToolOutput::Nothing`] is `Done`; an image is one image block, base64 as
///   in RFC 4648, section 4.
/// - An object whose `output` is a string, or whose `content` is an array of typed blocks, is used as given, with
///   `details`, `structured`, `is_error` and `metadata`. If both exist, `content` takes precedence, because `output` is
///   always the text of the blocks.
/// - An object `{output, is_error: true, error: {…}}` is a failure that states more than its message: see
///   [`stated_failure`].
/// - Any other JSON becomes compact text, and `structured` is the value. Such an object is an error if it has
///   `success: false`, `status: "error"` or an `error` that is neither `null`, `false`, `0`, `""`, `[]` nor `{}`.
/// - [`ToolOutput::Data`] is always data and never an error.
#[must_use]
pub fn outcome_of(name: &str, answer: ToolOutput) -> Outcome {
    if let Some(failure) = stated_failure(name, &answer) {
        return Outcome::failed(failure);
    }
    match answer {
        ToolOutput::Nothing => Outcome::text(DONE),
        ToolOutput::Text(text) => Outcome::text(text),
        ToolOutput::Data(value) => Outcome::data(value),
        ToolOutput::Corrected(value, note) => {
            let mut outcome = outcome_of(name, ToolOutput::Json(value));
            outcome.details.entry("note").or_insert_with(|| note.into());
            outcome
        }
        ToolOutput::Image { bytes, mime_type } => {
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            Outcome::blocks(vec![ContentBlock::Image { data, mime_type }])
        }
        ToolOutput::Outcome(outcome) => *outcome,
        ToolOutput::Json(Value::String(text)) => Outcome::text(text),
        ToolOutput::Json(Value::Object(object)) => match as_given(name, object) {
            Ok(outcome) => outcome,
            Err(object) => match error_message(&object) {
                Some(message) => {
                    let structured = Some(Arc::new(Value::Object(object)));
                    Outcome { structured, ..Outcome::failed(Failure::execution(name, message)) }
                }
                None => Outcome::data(Arc::new(Value::Object(object))),
            },
        },
        ToolOutput::Json(value) => Outcome::data(Arc::new(value)),
    }
}

/// Converts an object that is already an outcome, or returns the object.
fn as_given(name: &str, mut object: Map<String, Value>) -> Result<Outcome, Map<String, Value>> {
    let content = match typed_blocks(&object) {
        Some(blocks) => blocks,
        None => match object.get_mut("output") {
            Some(Value::String(text)) => vec![ContentBlock::Text(std::mem::take(text))],
            _ => return Err(object),
        },
    };
    let mut map_of = |key: &str| match object.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (details, metadata) = (map_of("details"), map_of("metadata"));
    let structured = object.remove("structured").map(Arc::new);
    let given = Outcome { details, metadata, structured, ..Outcome::blocks(content) };
    let is_error = object.get("is_error") == Some(&Value::Bool(true));
    Ok(if is_error { failed_as_given(name, given, &object) } else { given })
}

/// Returns the typed blocks of `content` if all its elements are blocks. An empty array is ambiguous, so the other
/// members decide: an empty listing (`{"content":[],"total":0}`) is data.
fn typed_blocks(object: &Map<String, Value>) -> Option<Vec<ContentBlock>> {
    let blocks = object.get("content")?.as_array()?;
    if blocks.is_empty() && !object.keys().all(|key| OUTCOME_KEYS.contains(&key.as_str())) {
        return None;
    }
    let blocks: Option<Vec<_>> = blocks.iter().cloned().map(ContentBlock::from_value).collect();
    // A given `output` is better than an empty list of blocks.
    blocks.filter(|blocks| !blocks.is_empty() || !matches!(object.get("output"), Some(Value::String(_))))
}

/// Converts an outcome with `is_error`: its text becomes the message of the failure, and the rest is kept.
fn failed_as_given(name: &str, given: Outcome, object: &Map<String, Value>) -> Outcome {
    let message = match given.output.trim() {
        "" => stated_message(object).unwrap_or_else(|| "the tool reported an error without a message".to_owned()),
        _ => given.output,
    };
    let failure = Failure::execution(name, message);
    let mut content = vec![ContentBlock::Text(failure.text.clone())];
    content.extend(given.content.into_iter().filter(|block| !matches!(block, ContentBlock::Text(_))));
    Outcome { output: failure.text.clone(), content, error: Some(failure), ..given }
}

/// Returns the message of an object that reports an error by its members, or `None` if it reports no error.
fn error_message(object: &Map<String, Value>) -> Option<String> {
    let is_error = object.get("success") == Some(&Value::Bool(false))
        || object.get("status").and_then(Value::as_str) == Some("error")
        || object.get("error").is_some_and(is_truthy);
    is_error.then(|| stated_message(object).unwrap_or_else(|| Value::Object(object.clone()).to_string()))
}

/// Returns the first text of `error`, `error.message` and `message` that is not blank.
fn stated_message(object: &Map<String, Value>) -> Option<String> {
    let error = object.get("error");
    [error, error.and_then(|error| error.get("message")), object.get("message")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// The raw output of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// No output.
    Nothing,
    /// Text that is not JSON.
    Text(String),
    /// A JSON value, converted by the rules of docs/reference/contract.md, section 4.
    Json(Value),
    /// JSON that was not valid as the tool wrote it, and a note of what was corrected.
    Corrected(Value, String),
    /// A value that is always data: it becomes `structured`, and its compact JSON becomes the output.
    Data(Arc<Value>),
    /// An image.
    Image {
        /// The bytes of the image file.
        bytes: Vec<u8>,
        /// The media type, for example `image/png`.
        mime_type: String,
    },
    /// A finished outcome.
    Outcome(Box<Outcome>),
}

fn corrected(text: &str) -> Option<ToolOutput> {
    let (corrected, what) = json::correct(text)?;
    let value = json::parse(corrected.as_bytes()).ok()?;
    Some(ToolOutput::Corrected(value, format!("the result was not valid JSON: {what}")))
}

impl ToolOutput {
    /// Parses a text that should be JSON. Valid JSON with a number that cannot be represented is kept as text, and other
    /// programs' forms of JSON are corrected ([`json::correct`]), both with a note in `details`, because the tool has already
    /// done its work.
    ///
    /// # Errors
    /// Returns the text and the error if the text is not JSON.
    pub fn of_json(text: String) -> Result<Self, (String, json::JsonError)> {
        match json::parse(text.as_bytes()) {
            Ok(value) => Ok(Self::Json(value)),
            Err(error) => match json::unkept_number(&text, &error) {
                Some(number) => {
                    let note = format!("the result is JSON with {number}; it is kept as text");
                    let mut details = Map::new();
                    details.insert("note".to_owned(), note.into());
                    Ok(Self::Outcome(Box::new(Outcome { details, ..Outcome::text(text) })))
                }
                None => match corrected(&text) {
                    Some(output) => Ok(output),
                    None => Err((text, error)),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert_json(value: Value) -> Outcome {
        outcome_of("t", ToolOutput::Json(value))
    }

    fn failed(value: Value) -> Option<String> {
        convert_json(value).error.map(|failure| failure.message)
    }

    #[test]
    fn string_is_used_as_text() {
        for text in ["plain", "", "\"quoted\"", "a\nb\u{0}😀", "{\"error\":1}"] {
            assert_eq!(convert_json(json!(text)), Outcome::text(text));
            assert_eq!(outcome_of("t", ToolOutput::Text(text.into())), Outcome::text(text));
        }
        assert_eq!(convert_json(json!("x")).structured, None);
    }

    #[test]
    fn numbers_booleans_arrays_objects_and_null_are_compact_json_and_structured() {
        for (value, text) in [
            (json!(12), "12"),
            (json!(1.5), "1.5"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(false), "false"),
            (json!(null), "null"),
            (json!([1, "a", null]), "[1,\"a\",null]"),
            (json!({"b": 1, "a": {"c": "é"}}), "{\"b\":1,\"a\":{\"c\":\"é\"}}"),
        ] {
            let outcome = convert_json(value.clone());
            assert_eq!(outcome.output, text);
            assert_eq!(outcome.content, [ContentBlock::Text(text.into())]);
            assert_eq!(outcome.structured.as_deref(), Some(&value));
            assert!(!outcome.is_error());
        }
    }

    #[test]
    fn missing_body_is_done_and_image_bytes_are_a_block() {
        assert_eq!(outcome_of("t", ToolOutput::Nothing), Outcome::text("Done"));
        let image = outcome_of("t", ToolOutput::Image { bytes: vec![0, 255, 16], mime_type: "image/png".into() });
        assert_eq!(image.content, [ContentBlock::Image { data: "AP8Q".into(), mime_type: "image/png".into() }]);
        assert_eq!((image.output.as_str(), image.is_error()), ("", false));
    }

    #[test]
    fn output_or_typed_content_is_used_unchanged() {
        let outcome =
            convert_json(json!({"output": "shown", "details": {"d": 1}, "structured": [1], "metadata": {"m": 2}}));
        assert_eq!((outcome.output.as_str(), outcome.content.len()), ("shown", 1));
        assert_eq!(Value::Object(outcome.details), json!({"d": 1}));
        assert_eq!(Value::Object(outcome.metadata), json!({"m": 2}));
        assert_eq!(outcome.structured.as_deref(), Some(&json!([1])));

        let outcome = convert_json(json!({"content": [
            {"type": "text", "text": "a"}, {"type": "image", "data": "AA==", "mime_type": "image/png"},
            {"type": "text", "text": "b"}, {"type": "resource", "uri": "x:y"}]}));
        assert_eq!((outcome.output.as_str(), outcome.content.len()), ("a\nb", 4));
        assert_eq!(outcome.structured, None);
    }

    #[test]
    fn content_takes_precedence_if_it_has_blocks() {
        let both = convert_json(json!({"output": "o", "content": [{"type": "text", "text": "c"}]}));
        assert_eq!(both, Outcome::text("c"));
        assert_eq!(convert_json(json!({"output": "o", "content": [1]})), Outcome::text("o"));
        assert_eq!(convert_json(json!({"output": "o", "content": []})), Outcome::text("o"));
    }

    #[test]
    fn content_with_an_untyped_element_is_plain_data() {
        for value in [
            json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
            json!({"content": "text"}),
            json!({"output": 5}),
            json!({"content": [], "total": 0}),
        ] {
            let outcome = convert_json(value.clone());
            assert_eq!((outcome.output.as_str(), outcome.is_error()), (value.to_string().as_str(), false));
            assert_eq!(outcome.structured.as_deref(), Some(&value));
        }
        assert_eq!(convert_json(json!({"content": []})), Outcome::default());
    }

    #[test]
    fn given_error_keeps_blocks_data_and_details() {
        let image = json!({"type": "image", "data": "AA==", "mime_type": "image/png"});
        let outcome = convert_json(json!({"is_error": true, "content": [{"type": "text", "text": "no ink"}, image],
            "structured": {"ink": 0}, "details": {"d": 1}}));
        let text = "Error executing tool \"t\": no ink";
        assert_eq!(outcome.output, text);
        assert_eq!(outcome.content[0], ContentBlock::Text(text.into()));
        assert_eq!(serde_json::to_value(&outcome.content[1]).unwrap(), image);
        assert_eq!(outcome.structured.as_deref(), Some(&json!({"ink": 0})));
        assert_eq!(Value::Object(outcome.details), json!({"d": 1}));
        assert_eq!(outcome.error.unwrap().message, "no ink");

        assert!(!convert_json(json!({"output": "x", "is_error": false})).is_error());
        assert!(
            !convert_json(json!({"output": "x", "success": false})).is_error(),
            "an outcome reports errors in `is_error` only"
        );
        assert_eq!(failed(json!({"output": "", "is_error": true, "message": "m"})).as_deref(), Some("m"));
    }

    #[test]
    fn other_objects_can_report_errors() {
        for (value, message) in [
            (json!({"success": false, "message": "m"}), "m"),
            (json!({"success": false}), "{\"success\":false}"),
            (json!({"success": false, "error": ""}), "{\"success\":false,\"error\":\"\"}"),
            (json!({"status": "error", "message": "m"}), "m"),
            (json!({"error": "e", "message": "m"}), "e"),
            (json!({"error": {"message": "em", "code": 1}, "message": "m"}), "em"),
            (json!({"error": true, "message": "m"}), "m"),
            (json!({"error": {"code": 1}}), "{\"error\":{\"code\":1}}"),
            (json!({"error": 1}), "{\"error\":1}"),
            (json!({"success": true, "error": ["x"]}), "{\"success\":true,\"error\":[\"x\"]}"),
        ] {
            let outcome = convert_json(value.clone());
            assert_eq!(outcome.output, format!("Error executing tool \"t\": {message}"));
            assert_eq!(outcome.error.unwrap().message, message);
            assert_eq!(outcome.structured.as_deref(), Some(&value));
        }
    }

    #[test]
    fn falsy_errors_and_other_statuses_are_ignored() {
        for falsy in [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})] {
            assert_eq!(failed(json!({"error": falsy})), None);
        }
        assert_eq!(failed(json!({"status": "ERROR"})), None);
        assert_eq!(failed(json!({"success": 0})), None);
        assert_eq!(failed(json!([{"error": "e"}])), None);
    }

    #[test]
    fn data_is_never_an_error_and_never_copied() {
        let value = Arc::new(json!({"error": "e", "output": "o"}));
        let outcome = outcome_of("t", ToolOutput::Data(value.clone()));
        assert_eq!((outcome.output.as_str(), outcome.is_error()), ("{\"error\":\"e\",\"output\":\"o\"}", false));
        assert!(Arc::ptr_eq(&value, outcome.structured.as_ref().unwrap()));
        assert_eq!(outcome_of("t", ToolOutput::Data(Arc::new(json!("s")))).output, "\"s\"");
    }

    #[test]
    fn outcome_is_not_changed() {
        let outcome = Outcome::failed(Failure::execution("u", "x"));
        assert_eq!(outcome_of("t", ToolOutput::Outcome(Box::new(outcome.clone()))), outcome);
    }
}
