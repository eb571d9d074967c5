//! Google's `generateContent`: calls are `functionCall` parts, and results are one user content of `functionResponse`
//! parts. Members are read in both spellings, because the Python library writes `function_call`.

use serde_json::{Map, Value, json};

use super::members::{array, calls_in, error_at, has, id, name, object, take};
use super::model_content::{ModelContent, Piece, is_common_image};
use super::{Kind, OriginalCall, ParsedCall, VendorCalls, is_cut_off};
use crate::domain::Call;
use crate::domain::decode::DecodeError;

pub(super) const FUNCTION_CALL: [&str; 2] = ["functionCall", "function_call"];
pub(super) const FINISH_REASON: [&str; 2] = ["finishReason", "finish_reason"];
/// Members of a response other than candidates, which may be missing.
pub(super) const RESPONSE_MEMBERS: [&str; 4] = ["promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata"];

/// Parses the response (or its chunks as an array), a candidate, its content, the parts of the content, or one part.
pub(super) fn read(body: Value) -> Result<VendorCalls, DecodeError> {
    let Value::Array(pieces) = body else {
        let body = object(body, "")?;
        let known = ["candidates", "content", "parts", "role", "text"];
        if !has(&body, &known)
            && ![&FUNCTION_CALL[..], &FINISH_REASON, &RESPONSE_MEMBERS].iter().any(|of| has(&body, of))
        {
            return Err(error_at(
                "",
                "is not a Gemini response: `candidates`, `content`, `parts` and `functionCall` are missing",
            ));
        }
        return any(body, "");
    };
    let mut found = (Vec::new(), false);
    for (index, piece) in pieces.into_iter().enumerate() {
        let pointer = format!("/{index}");
        let (calls, is_cut_off) = any(object(piece, &pointer)?, &pointer)?;
        found.0.extend(calls);
        found.1 |= is_cut_off;
    }
    Ok(found)
}

fn any(mut body: Map<String, Value>, pointer: &str) -> Result<VendorCalls, DecodeError> {
    if let Some(candidates) = take(&mut body, &["candidates"]) {
        let candidates = array(candidates, &format!("{pointer}/candidates"))?;
        // The other candidates are alternative responses.
        let Some(first) = candidates.into_iter().next() else { return Ok((Vec::new(), false)) };
        let pointer = format!("{pointer}/candidates/0");
        return candidate(object(first, &pointer)?, &pointer);
    }
    if has(&body, &["content"]) || has(&body, &FINISH_REASON) {
        return candidate(body, pointer);
    }
    let calls = if has(&body, &["parts"]) { content(body, pointer)? } else { Vec::from_iter(part(body, pointer)?) };
    Ok((calls, false))
}

fn candidate(mut candidate: Map<String, Value>, pointer: &str) -> Result<VendorCalls, DecodeError> {
    // Older libraries write the reason as a number.
    let is_cut_off = take(&mut candidate, &FINISH_REASON)
        .is_some_and(|reason| reason.as_str().is_some_and(is_cut_off) || reason.as_u64() == Some(2));
    let pointer = format!("{pointer}/content");
    let calls = match take(&mut candidate, &["content"]) {
        Some(content_value) => content(object(content_value, &pointer)?, &pointer)?,
        None => Vec::new(),
    };
    Ok((calls, is_cut_off))
}

fn content(mut content: Map<String, Value>, pointer: &str) -> Result<Vec<ParsedCall>, DecodeError> {
    match take(&mut content, &["parts"]) {
        Some(parts) => calls_in(parts, &format!("{pointer}/parts"), part),
        None => Ok(Vec::new()),
    }
}

fn part(mut part: Map<String, Value>, pointer: &str) -> Result<Option<ParsedCall>, DecodeError> {
    let Some(member) = FUNCTION_CALL.into_iter().find(|member| has(&part, &[member])) else { return Ok(None) };
    let pointer = format!("{pointer}/{member}");
    let mut called = object(part.swap_remove(member).unwrap_or_default(), &pointer)?;
    let id = id(&mut called, "id", &pointer)?;
    let name = name(&mut called, &pointer)?;
    let arguments = called.swap_remove("args");
    Ok(Some(ParsedCall { id, name, arguments, kind: Kind::Function, is_cut_off: false, pointer }))
}

/// Creates the part of a result. It has an id if the call had one.
pub(super) fn result(shown: &OriginalCall, call: &Call) -> Value {
    let result = ModelContent::of(call, is_common_image);
    let mut response = Map::new();
    if let Some(id) = &shown.id {
        response.insert("id".to_owned(), id.as_str().into());
    }
    response.insert("name".to_owned(), shown.name.as_str().into());
    let member = if result.is_error { "error" } else { "output" };
    response.insert("response".to_owned(), json!({ member: result.text() }));
    if result.has_images() {
        response.insert("parts".to_owned(), result.pieces.iter().filter_map(inline_data).collect());
    }
    json!({ "functionResponse": response })
}

fn inline_data(piece: &Piece<'_>) -> Option<Value> {
    match piece {
        Piece::Text(_) => None,
        Piece::Image { data, mime_type } => Some(json!({ "inlineData": { "mimeType": mime_type, "data": data } })),
    }
}
