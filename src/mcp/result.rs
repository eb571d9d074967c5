//! Converts an ended call to the result of `tools/call`: the content for the model, the structured data, and the error
//! flag. Display data is not sent.

use rmcp::model::{CallToolResult, ContentBlock as Block, MetaObject};
use serde_json::{Map, Value, json};

use crate::domain::{Call, ContentBlock, Outcome};
use crate::formats::mcp::{CALL_ID, ERROR_CODE};

/// Returns the result of a call; `has_schema` tells whether clients check its data against an output schema.
pub(super) fn of(call: &Call, has_schema: bool) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.0.insert(CALL_ID.to_owned(), call.id.to_string().into());
    let Some(outcome) = call.outcome.as_deref() else {
        // Unreachable: only ended calls are converted.
        return CallToolResult::error(Vec::new());
    };
    let content = blocks(outcome);
    let mut result = match &outcome.error {
        Some(failure) => {
            meta.0.insert(ERROR_CODE.to_owned(), failure.code.as_str().into());
            CallToolResult::error(content)
        }
        None => CallToolResult::success(content),
    };
    if !outcome.is_error() {
        result.structured_content = data(outcome, has_schema);
    }
    result.meta = Some(meta);
    result
}

fn blocks(outcome: &Outcome) -> Vec<Block> {
    if outcome.content.is_empty() && !outcome.output.is_empty() {
        return vec![Block::text(outcome.output.as_str())];
    }
    outcome.content.iter().map(block).collect()
}

fn block(block: &ContentBlock) -> Block {
    match block {
        ContentBlock::Text(text) => Block::text(text.as_str()),
        ContentBlock::Image { data, mime_type } => Block::image(data.as_str(), mime_type.as_str()),
        ContentBlock::Other(members) => other(members),
    }
}

/// Converts audio and resource blocks to the types of the protocol, and unknown blocks to text.
fn other(members: &Map<String, Value>) -> Block {
    let mut renamed = members.clone();
    if let Some(mime_type) = renamed.remove("mime_type") {
        renamed.entry("mimeType").or_insert(mime_type);
    }
    serde_json::from_value(Value::Object(renamed))
        .unwrap_or_else(|_| Block::text(Value::Object(members.clone()).to_string()))
}

/// Returns `structuredContent`, which must be an object. It is omitted if the output was truncated, because it would be
/// the full output; unless clients check it against a schema.
fn data(outcome: &Outcome, has_schema: bool) -> Option<Value> {
    if outcome.full_output.is_some() && !has_schema {
        return None;
    }
    let value = outcome.structured.as_deref()?;
    Some(if value.is_object() { value.clone() } else { json!({ "result": value }) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::domain::call::CallRecord;
    use crate::domain::outcome::FullOutput;
    use crate::domain::{Code, Failure, Time, ToolOutput, outcome_of};
    use crate::formats::mcp::result_members;

    fn ended(outcome: Outcome) -> Call {
        let mut call =
            Call::from(CallRecord::accepted(Uuid::nil(), "a".into(), None, Arc::new(json!({})), Time(0), "n".into()));
        call.start(Time(0)).unwrap();
        call.settle(outcome, Time(1)).unwrap();
        call
    }

    /// Returns the result of a call. The members that are written without rmcp are the same.
    fn result(outcome: Outcome) -> Value {
        let call = ended(outcome);
        let result = serde_json::to_value(of(&call, false)).unwrap();
        if let Some(members) = result_members(&call) {
            let members = String::from_utf8(members).unwrap();
            let written: Value = serde_json::from_str(&format!(r#"{{"resultType":"complete",{members}}}"#)).unwrap();
            assert_eq!(written, result);
        }
        result
    }

    fn answered(value: Value) -> Value {
        result(outcome_of("a", ToolOutput::Json(value)))
    }

    #[test]
    fn structured_data_is_always_an_object() {
        assert_eq!(answered(json!({"a": [1]}))["structuredContent"], json!({"a": [1]}));
        assert_eq!(answered(json!([1, 2]))["structuredContent"], json!({"result": [1, 2]}));
        assert_eq!(answered(json!("a")).get("structuredContent"), None);
    }

    #[test]
    fn results_without_other_blocks_are_written_directly() {
        let mut image = Outcome::text("a \"b\"\n");
        image.content.push(ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() });
        let mut bare = Outcome::text("text");
        bare.content.clear();
        let failed = Outcome { structured: Some(Arc::new(json!({"a": 1}))), ..Failure::execution("a", "x").into() };
        let data = Outcome { structured_text: None, ..Outcome::data(Arc::new(json!({"n": [1.50, null]}))) };
        for outcome in [image, bare, failed, data, Outcome::default(), Outcome::data(Arc::new(json!(null)))] {
            assert!(result_members(&ended(outcome.clone())).is_some(), "{outcome:?}");
            result(outcome);
        }
        let unknown = Failure { code: Code::ToolNotFound, ..Failure::execution("a", "x") };
        let cut = Outcome { full_output: Some(Arc::new(FullOutput::Structured)), ..Outcome::text("a") };
        let other = Outcome::blocks(vec![ContentBlock::Other(Map::new())]);
        for outcome in [unknown.into(), cut, other] {
            assert_eq!(result_members(&ended(outcome)), None);
        }
    }

    #[test]
    fn protocol_content_blocks_are_kept() {
        let resource = json!({"type": "resource", "resource": {"uri": "a:b", "text": "t"}});
        let audio = json!({"type": "audio", "data": "AA==", "mime_type": "audio/wav"});
        let unknown = json!({"type": "chart", "points": [1]});
        let sent = answered(json!({"content": [resource, audio, unknown]}));
        assert_eq!(sent["content"][0], resource);
        assert_eq!(sent["content"][1], json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}));
        assert_eq!(sent["content"][2], json!({"type": "text", "text": unknown.to_string()}));
    }

    #[test]
    fn failure_becomes_result_with_text_and_code() {
        let sent = result(Failure::blocked(Some("no"), "h").into());
        assert_eq!((&sent["isError"], &sent["content"][0]["text"]), (&json!(true), &json!("Error: no")));
        assert_eq!(sent["_meta"][ERROR_CODE], "TOOL_BLOCKED");
        assert_eq!(sent["_meta"][CALL_ID], Uuid::nil().to_string());
    }
}
