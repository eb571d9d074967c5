//! Converts an ended call to the result of `tools/call`: the content for the model, the structured data, and the error
//! flag. Display data is not sent.

use rmcp::model::{CallToolResult, ContentBlock as Block, MetaObject};
use serde_json::{Map, Value, json};

use crate::domain::call::OUTPUT_VIOLATIONS;
use crate::domain::{Call, Code, ContentBlock, Outcome};
use crate::formats::mcp::{CALL_ID, ERROR_CODE};
use crate::formats::{EMPTY_OUTPUT, is_blank};

/// Maximum number of violations of an output schema that are named.
const MAX_VIOLATIONS: usize = 5;

/// The check that clients make of the data of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Not at all: they see no output schema.
    None,
    /// Against an output schema, as the service did when the tool had run.
    Checked,
    /// Against an output schema, which the stored result does not match any more: a hook has changed it.
    Broken,
}

/// Returns the result of a call.
pub(super) fn build_result(call: &Call, promise: Promise) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.0.insert(CALL_ID.to_owned(), call.id.to_string().into());
    let Some(outcome) = call.outcome.as_deref() else {
        // Unreachable: only ended calls are converted.
        return CallToolResult::error(Vec::new());
    };
    let mut content = blocks(outcome);
    let has_schema = promise != Promise::None;
    let mismatch =
        if has_schema && !outcome.is_error() { mismatch(call, outcome, promise == Promise::Broken) } else { None };
    let code = outcome.error.as_ref().map(|failure| failure.code).or(mismatch.as_ref().map(|_| Code::ResultInvalid));
    content.splice(0..0, mismatch.map(Block::text));
    let mut result = match code {
        Some(code) => {
            meta.0.insert(ERROR_CODE.to_owned(), code.as_str().into());
            CallToolResult::error(content)
        }
        None => CallToolResult::success(content),
    };
    if code.is_none() {
        result.structured_content = data(outcome, has_schema);
    }
    result.meta = Some(meta);
    result
}

/// Returns what a model reads of a successful result that does not match the schema which clients see. They would raise an
/// error in place of the result, and the model would not learn that the tool has run.
fn mismatch(call: &Call, outcome: &Outcome, is_broken: bool) -> Option<String> {
    let is_object = outcome.structured.as_deref().is_some_and(Value::is_object);
    let violations = call.metadata.get(OUTPUT_VIOLATIONS);
    if is_object && violations.is_none() && !is_broken {
        return None;
    }
    let text = |violation: &Value| {
        let message = violation["message"].as_str()?;
        Some(match violation["pointer"].as_str() {
            Some(pointer) if !pointer.is_empty() => format!("{pointer}: {message}"),
            _ => message.to_owned(),
        })
    };
    let reasons: Vec<String> = violations.and_then(Value::as_array).into_iter().flatten().filter_map(text).collect();
    let reasons = match reasons.as_slice() {
        [] if is_object => "it was changed after the tool had run".to_owned(),
        [] => "it is not an object".to_owned(),
        some => some[..some.len().min(MAX_VIOLATIONS)].join("; "),
    };
    Some(format!("The tool has run, but its result does not match its output schema ({reasons}). The result is:"))
}

fn blocks(outcome: &Outcome) -> Vec<Block> {
    if is_blank(outcome) {
        return vec![Block::text(EMPTY_OUTPUT)];
    }
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
    use crate::domain::{Failure, Time, ToolOutput, outcome_of};
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
        let result = serde_json::to_value(build_result(&call, Promise::None)).unwrap();
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
    fn result_that_does_not_match_its_schema_is_a_readable_error() {
        let mut odd = ended(Outcome::data(Arc::new(json!({"n": "five"}))));
        let violation = json!({"pointer": "/n", "message": "must be an integer"});
        odd.extend_metadata([(OUTPUT_VIOLATIONS.to_owned(), json!([violation]))]);
        let sent = serde_json::to_value(build_result(&odd, Promise::Checked)).unwrap();
        assert_eq!((&sent["isError"], sent.get("structuredContent")), (&json!(true), None));
        let expected = "The tool has run, but its result does not match its output schema (/n: must be an integer). The result is:";
        assert_eq!(
            (&sent["content"][0]["text"], &sent["content"][1]["text"]),
            (&json!(expected), &json!("{\"n\":\"five\"}"))
        );
        assert_eq!(sent["_meta"][ERROR_CODE], "RESULT_INVALID");
        // A client that does not see the schema gets the data.
        let plain = serde_json::to_value(build_result(&odd, Promise::None)).unwrap();
        assert_eq!((&plain["isError"], &plain["structuredContent"]), (&json!(false), &json!({"n": "five"})));
        assert_eq!(result_members(&odd), None);
        let changed = ended(Outcome::data(Arc::new(json!({"n": 5}))));
        assert_eq!(build_result(&changed, Promise::Checked).is_error, Some(false));
        let result = serde_json::to_value(build_result(&changed, Promise::Broken)).unwrap();
        assert!(result["isError"] == true && result["content"][0]["text"].as_str().unwrap().contains("was changed"));
        let text = serde_json::to_value(build_result(&ended(Outcome::text("plain")), Promise::Checked)).unwrap();
        assert!(text["isError"] == true && text["content"][0]["text"].as_str().unwrap().contains("not an object"));
    }

    #[test]
    fn failure_becomes_result_with_text_and_code() {
        let sent = result(Failure::blocked(Some("no"), "h").into());
        assert_eq!((&sent["isError"], &sent["content"][0]["text"]), (&json!(true), &json!("Error: no")));
        assert_eq!(sent["_meta"][ERROR_CODE], "TOOL_BLOCKED");
        assert_eq!(sent["_meta"][CALL_ID], Uuid::nil().to_string());
    }
}
