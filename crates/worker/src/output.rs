//! Results of tools as bodies of `POST /tool-calls/{id}/result`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use toolpost_core::domain::{Code, ContentBlock, Failure, JsonText, Outcome, ToolOutput};

/// The members that give an object another meaning than data.
const MEANINGFUL: [&str; 5] = ["output", "content", "success", "status", "error"];

/// The body of a result. It is empty for a tool that returned nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultBody {
    pub(crate) media_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl ResultBody {
    fn json(value: &Value) -> Self {
        Self { media_type: "application/json".into(), bytes: value.to_string().into_bytes() }
    }
}

/// Returns the body from which the service makes the same outcome as in its own process.
pub(crate) fn body_of(result: Result<ToolOutput, Failure>) -> ResultBody {
    match result {
        Err(failure) => failed(&failure),
        Ok(ToolOutput::Nothing) => ResultBody { media_type: "application/json".into(), bytes: Vec::new() },
        Ok(ToolOutput::Text(text)) => ResultBody::json(&Value::String(text)),
        Ok(ToolOutput::Json(value) | ToolOutput::Corrected(value, _)) => ResultBody::json(&value),
        Ok(ToolOutput::Data(value)) => data(&value),
        Ok(ToolOutput::Image { bytes, mime_type }) => image(bytes, mime_type),
        Ok(ToolOutput::Outcome(outcome)) => finished(*outcome),
    }
}

/// Returns the body of a failed run.
pub(crate) fn failed(failure: &Failure) -> ResultBody {
    let code = (failure.code == Code::ToolValidationError).then_some(failure.code);
    let error = json!({
        "code": code, "retryable": failure.retryable, "retry_after_ms": failure.retry_after_ms,
        "details": failure.details,
    });
    let message =
        if failure.message.trim().is_empty() { "the tool failed without a message" } else { &failure.message };
    ResultBody::json(&json!({"output": message, "is_error": true, "error": error}))
}

/// Returns the body of a value that is always data, even if it looks like an error.
fn data(value: &Value) -> ResultBody {
    let is_plain = match value {
        Value::Object(members) => !MEANINGFUL.iter().any(|member| members.contains_key(*member)),
        Value::String(_) => false,
        _ => true,
    };
    if is_plain {
        return ResultBody::json(value);
    }
    ResultBody::json(&json!({"output": JsonText::of(value).get(), "structured": value}))
}

fn image(bytes: Vec<u8>, mime_type: String) -> ResultBody {
    // An empty body would be no result.
    if mime_type.starts_with("image/") && !bytes.is_empty() {
        return ResultBody { media_type: mime_type, bytes };
    }
    let block = ContentBlock::Image { data: STANDARD.encode(bytes), mime_type };
    finished(Outcome::blocks(vec![block]))
}

fn finished(outcome: Outcome) -> ResultBody {
    let Outcome { content, structured, details, metadata, error, .. } = outcome;
    let mut members = Map::new();
    let content = match &error {
        None => content,
        // The service writes the text of a failure from its message.
        Some(failure) => {
            let others = content.into_iter().filter(|block| !matches!(block, ContentBlock::Text(_)));
            [ContentBlock::Text(failure.message.clone())].into_iter().chain(others).collect()
        }
    };
    if let Some(failure) = &error
        && content.len() == 1
        && structured.is_none()
        && details.is_empty()
        && metadata.is_empty()
    {
        return failed(failure);
    }
    members.insert("content".into(), json!(content));
    if error.is_some() {
        members.insert("is_error".into(), true.into());
    }
    if let Some(structured) = structured {
        members.insert("structured".into(), (*structured).clone());
    }
    for (name, value) in [("details", details), ("metadata", metadata)] {
        if !value.is_empty() {
            members.insert(name.into(), Value::Object(value));
        }
    }
    ResultBody::json(&Value::Object(members))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolpost_core::domain::outcome_of;
    use toolpost_tool::tool::{InvalidArgument, ToolError};

    use super::*;

    /// Returns the output that the service reads from the body of a result.
    fn read(body: &ResultBody) -> ToolOutput {
        match &body.bytes[..] {
            [] => ToolOutput::Nothing,
            bytes if body.media_type == "application/json" => {
                ToolOutput::Json(serde_json::from_slice(bytes).expect("valid JSON"))
            }
            bytes => ToolOutput::Image { bytes: bytes.to_vec(), mime_type: body.media_type.clone() },
        }
    }

    fn without_text(outcome: Outcome) -> Outcome {
        Outcome { structured_text: None, ..outcome }
    }

    #[test]
    fn every_output_arrives_as_the_same_outcome() {
        let block = |value| ContentBlock::from_value(value).unwrap();
        let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"});
        let full = Outcome {
            details: Map::from_iter([("d".to_owned(), json!(1))]),
            metadata: Map::from_iter([("m".to_owned(), json!(2))]),
            structured: Some(Arc::new(json!([null]))),
            ..Outcome::blocks(vec![block(json!({"type": "text", "text": "a"})), block(image)])
        };
        let failed = Outcome::failed(Failure::execution("t", "no"));
        let mut outputs = vec![
            ToolOutput::Nothing,
            ToolOutput::Image { bytes: vec![1, 2], mime_type: "image/png".into() },
            ToolOutput::Outcome(Box::default()),
            ToolOutput::Outcome(Box::new(full.clone())),
            ToolOutput::Outcome(Box::new(failed.clone())),
            ToolOutput::Outcome(Box::new(Outcome { details: full.details, ..failed })),
        ];
        outputs.extend(["", "plain", "{\"error\":1}"].map(|text| ToolOutput::Text(text.into())));
        let values = [
            json!(null),
            json!("text"),
            json!(1.5),
            json!([1]),
            json!({"a": {"b": u64::MAX}}),
            json!({"success": false}),
            json!({"output": "x", "is_error": true}),
            json!({"error": "e"}),
            json!({"content": []}),
        ];
        outputs.extend(values.iter().cloned().map(ToolOutput::Json));
        outputs.extend(values.into_iter().map(|value| ToolOutput::Data(Arc::new(value))));
        for output in outputs {
            let arrived = outcome_of("t", read(&body_of(Ok(output.clone()))));
            assert_eq!(without_text(arrived), without_text(outcome_of("t", output.clone())), "{output:?}");
        }
    }

    #[test]
    fn every_failure_arrives_as_the_same_failure() {
        let invalid = [InvalidArgument::at("/n", "must be even"), InvalidArgument::at("", "too many")];
        let error = ToolError::new("busy").with_details(json!({"queue": 3}));
        for failure in [
            Failure::execution("t", "no such city"),
            error.clone().into_failure("t"),
            error.clone().retryable().into_failure("t"),
            error.retryable_after_ms(500).into_failure("t"),
            InvalidArgument::failure(&invalid, "t", &json!({"n": 1}), &json!({"type": "object"})),
        ] {
            let arrived = outcome_of("t", read(&body_of(Err(failure.clone()))));
            assert_eq!(arrived, Outcome::failed(failure));
        }
    }
}
