//! OpenAI's Chat Completions: calls are the `tool_calls` or the older `function_call` of a message, and results are
//! `role: "tool"` messages.

use serde_json::{Map, Value, json};

use super::members::{arguments, array, calls_in, error_at, has, id, is_text, name, object, take, type_of};
use super::model_content::ModelContent;
use super::{Kind, OriginalCall, ParsedCall, VendorCalls, is_cut_off};
use crate::domain::Call;
use crate::domain::decode::DecodeError;

/// Parses the response, a choice, its message, its `tool_calls`, or one of these calls.
pub(super) fn read(body: Value) -> Result<VendorCalls, DecodeError> {
    let mut body = match body {
        Value::Array(_) => return Ok((calls_in(body, "", tool_call)?, false)),
        body => object(body, "")?,
    };
    if has(&body, &["choices"]) {
        let choices = array(body.swap_remove("choices").unwrap_or_default(), "/choices")?;
        // The other choices are alternative responses.
        let Some(first) = choices.into_iter().next() else { return Ok((Vec::new(), false)) };
        return choice(object(first, "/choices/0")?, "/choices/0");
    }
    if has(&body, &["message"]) {
        return choice(body, "");
    }
    if has(&body, &["function", "custom"]) {
        return Ok((tool_call(body, "")?.into_iter().collect(), false));
    }
    if !has(&body, &["tool_calls", "function_call", "role", "content"]) {
        return Err(error_at("", "is not an OpenAI Chat message: `choices`, `message` and `tool_calls` are missing"));
    }
    let is_cut_off = is_text(&body, "finish_reason", is_cut_off) || is_text(&body, "stop_reason", is_cut_off);
    Ok((message(body, "")?, is_cut_off))
}

fn choice(mut choice: Map<String, Value>, pointer: &str) -> Result<VendorCalls, DecodeError> {
    let pointer = format!("{pointer}/message");
    let message_value = take(&mut choice, &["message"]).ok_or_else(|| error_at(&pointer, "is missing"))?;
    let calls = message(object(message_value, &pointer)?, &pointer)?;
    Ok((calls, is_text(&choice, "finish_reason", is_cut_off)))
}

fn message(mut message: Map<String, Value>, pointer: &str) -> Result<Vec<ParsedCall>, DecodeError> {
    let calls = match take(&mut message, &["tool_calls"]) {
        Some(calls) => calls_in(calls, &format!("{pointer}/tool_calls"), tool_call)?,
        None => Vec::new(),
    };
    match take(&mut message, &["function_call"]) {
        // Some servers send both for one call.
        Some(legacy) if calls.is_empty() => {
            let pointer = format!("{pointer}/function_call");
            let mut legacy = object(legacy, &pointer)?;
            let name = name(&mut legacy, &pointer)?;
            let arguments = legacy.swap_remove("arguments");
            Ok(vec![ParsedCall { id: None, name, arguments, kind: Kind::Legacy, is_cut_off: false, pointer }])
        }
        _ => Ok(calls),
    }
}

/// Parses a call; returns `None` for a type that the provider runs itself.
fn tool_call(mut call: Map<String, Value>, pointer: &str) -> Result<Option<ParsedCall>, DecodeError> {
    let id = id(&mut call, "id", pointer)?;
    let (kind, member) = match has(&call, &["custom"]) {
        true => (Kind::Custom, "custom"),
        false => (Kind::Function, "function"),
    };
    let within = format!("{pointer}/{member}");
    let Some(called) = take(&mut call, &[member]) else {
        return match type_of(&call) {
            "function" | "custom" | "" => Err(error_at(&within, "is missing")),
            _ => Ok(None),
        };
    };
    let mut called = object(called, &within)?;
    let name = name(&mut called, &within)?;
    let arguments = arguments(&mut called, kind, &within)?;
    Ok(Some(ParsedCall { id, name, arguments, kind, is_cut_off: false, pointer: pointer.to_owned() }))
}

/// Creates the message of a result, which can only have text.
pub(super) fn result(shown: &OriginalCall, call: &Call) -> Value {
    let content = ModelContent::of(call, |_| false).marked().text();
    match shown.kind {
        Kind::Legacy => json!({ "role": "function", "name": shown.name, "content": content }),
        _ => json!({ "role": "tool", "tool_call_id": shown.id(call), "content": content }),
    }
}
