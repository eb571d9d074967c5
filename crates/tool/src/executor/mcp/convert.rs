//! Conversion of a server's result to an outcome.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock as RmcpBlock};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use toolpost_core::domain::{ContentBlock, Outcome, ToolOutput, json, outcome_of};

/// Converts the result of a call of the tool `name`.
pub fn outcome(name: &str, result: CallToolResult) -> Outcome {
    let is_error = result.is_error == Some(true);
    of_blocks(name, result.content.iter().map(|block| json!(block)), result.structured_content, is_error)
}

/// Converts a result with images that do not conform to the protocol: an unreadable image does not invalidate other
/// blocks. Returns `None` if other content is invalid.
pub fn lenient(name: &str, mut result: Value) -> Option<Outcome> {
    let Value::Array(blocks) = result.get_mut("content")?.take() else { return None };
    let is_fit = |block: &Value| block["type"] == "image" || RmcpBlock::deserialize(block).is_ok();
    if !blocks.iter().all(is_fit) {
        return None;
    }
    let structured = result.get_mut("structuredContent").map(Value::take);
    Some(of_blocks(name, blocks.into_iter(), structured, result.get("isError") == Some(&Value::Bool(true))))
}

fn of_blocks(name: &str, blocks: impl Iterator<Item = Value>, structured: Option<Value>, is_error: bool) -> Outcome {
    let content: Vec<ContentBlock> = blocks.map(shown).collect();
    let structured = structured.filter(|data| !data.is_null());
    if is_error {
        // Errors use the same conversion as for other executors.
        let mut given = Map::from_iter([("content".to_owned(), json!(content)), ("is_error".to_owned(), true.into())]);
        given.extend(structured.map(|structured| ("structured".to_owned(), structured)));
        return outcome_of(name, ToolOutput::Json(Value::Object(given)));
    }
    match structured {
        // The output text is the structured data.
        Some(data) if content.is_empty() => Outcome::data(Arc::new(data)),
        None if content.is_empty() => outcome_of(name, ToolOutput::Nothing),
        structured => {
            let mut content = content;
            // The model reads texts only, and some servers describe the data in them without repeating it.
            content.extend(structured.as_ref().and_then(|data| missing_text(data, &content)));
            Outcome { structured: structured.map(Arc::new), ..Outcome::blocks(content) }
        }
    }
}

/// Returns the data as a text block, unless a text is that JSON already.
fn missing_text(data: &Value, content: &[ContentBlock]) -> Option<ContentBlock> {
    // Servers put a value that is not an object into a member `result`.
    let wrapped = data.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("result"));
    let is_data = |text: &str| {
        let value = json::parse(text.as_bytes()).ok();
        value.is_some_and(|value| value == *data || Some(&value) == wrapped)
            || wrapped.and_then(Value::as_str).is_some_and(|result| result == text)
    };
    let is_there = content.iter().any(|block| matches!(block, ContentBlock::Text(text) if is_data(text)));
    (!is_there && !data.is_null()).then(|| ContentBlock::Text(data.to_string()))
}

/// Converts a block of a server. A text with the reason replaces an unreadable block.
fn shown(block: Value) -> ContentBlock {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    ContentBlock::from_value(block)
        .unwrap_or_else(|| ContentBlock::Text(format!("[a block of type \"{kind}\" is left out: it cannot be read]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert_result(result: Value) -> Outcome {
        outcome("s.t", serde_json::from_value(result).unwrap())
    }

    #[test]
    fn all_kinds_of_content_are_converted() {
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let resource =
            json!({"type": "resource", "resource": {"uri": "file:///b", "text": "b", "mimeType": "text/plain"}});
        let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let text = json!({"type": "text", "text": "one\u{0}😀"});
        let outcome = convert_result(json!({"content": [text, image, audio, link, resource]}));
        assert_eq!((outcome.output.as_str(), outcome.is_error(), &outcome.structured), ("one\u{0}😀", false, &None));
        let ours = json!({"type": "image", "data": "AA==", "mime_type": "image/png"});
        assert_eq!(json!(outcome.content), json!([text, ours, audio, link, resource]));
    }

    #[test]
    fn structured_data_is_the_text_of_an_empty_content() {
        let data = json!({"n": 1});
        let both = convert_result(json!({"content": [{"type": "text", "text": "one"}], "structuredContent": data}));
        assert_eq!((both.output.as_str(), both.structured.as_deref()), ("one\n{\"n\":1}", Some(&data)));
        for (text, data) in [("42", json!({"result": 42})), ("fine", json!({"result": "fine"}))] {
            let same = convert_result(json!({"content": [{"type": "text", "text": text}], "structuredContent": data}));
            assert_eq!((same.output.as_str(), same.structured.as_deref()), (text, Some(&data)));
        }
        let text = "{ \"n\": 1 }";
        let same = convert_result(json!({"content": [{"type": "text", "text": text}], "structuredContent": data}));
        assert_eq!((same.output.as_str(), same.structured.as_deref()), (text, Some(&data)));
        let alone = convert_result(json!({"structuredContent": data}));
        assert_eq!((alone.output.as_str(), alone.structured.as_deref()), ("{\"n\":1}", Some(&data)));
        let nothing = json!({"content": [], "structuredContent": null});
        assert_eq!(
            (convert_result(nothing.clone()).output.as_str(), convert_result(json!({"content": []})).output.as_str()),
            ("Done", "Done")
        );
        assert_eq!(lenient("s.t", nothing).unwrap().output, "Done");
    }

    #[test]
    fn error_keeps_its_message() {
        let failed = convert_result(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
        assert_eq!(failed.output, "Error executing tool \"s.t\": no such city");
        assert_eq!(failed.error.unwrap().message, "no such city");
        assert!(convert_result(json!({"content": [], "isError": true})).is_error());
        let broken = convert_result(json!({"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]}));
        assert_eq!(broken.output, "[Image left out: its data is not base64]");
    }

    #[test]
    fn unreadable_image_does_not_affect_other_blocks() {
        let text = json!({"type": "text", "text": "seen"});
        let result = json!({"content": [text, {"type": "image", "data": "AA=="}, {"type": "image"}], "isError": false});
        let outcome = lenient("s.t", result).unwrap();
        let image = json!({"type": "image", "data": "AA==", "mime_type": "application/octet-stream"});
        assert_eq!(json!(outcome.content[..2]), json!([text, image]));
        assert_eq!(outcome.output, "seen\n[Image left out: it has no data]");
        assert!(lenient("s.t", json!({"content": [text, {"type": "text"}]})).is_none());
        assert!(lenient("s.t", json!({"content": [text], "isError": true})).unwrap().is_error());
        assert!(lenient("s.t", json!({"tools": []})).is_none());
    }
}
