//! OpenAI's Responses: calls are `function_call` and `custom_tool_call` items of the output, and results are items with
//! their outputs. All other items are the provider's own.

use serde_json::{Map, Value, json};

use super::members::{arguments, calls_in, error_at, has, id, is_text, name, object, type_of};
use super::model_content::{ModelContent, Piece, is_common_image};
use super::{Kind, OriginalCall, ParsedCall, VendorCalls, is_cut_off};
use crate::domain::Call;
use crate::domain::decode::DecodeError;

/// Parses the response, its output, or one item.
pub(super) fn read(body: Value) -> Result<VendorCalls, DecodeError> {
    let mut body = match body {
        Value::Array(_) => return Ok((calls_in(body, "", item)?, false)),
        body => object(body, "")?,
    };
    if has(&body, &["output"]) {
        let output = body.swap_remove("output").unwrap_or_default();
        // Result items have an output, too, but call items do not.
        return Ok((calls_in(output, "/output", item)?, is_answer_cut_off(&body)));
    }
    if type_of(&body).is_empty() {
        return Err(error_at(
            "",
            "is not an OpenAI Responses response: `output` and the `type` of an item are missing",
        ));
    }
    Ok((item(body, "")?.into_iter().collect(), false))
}

fn is_answer_cut_off(answer: &Map<String, Value>) -> bool {
    let is_incomplete = is_text(answer, "status", |status| status == "incomplete");
    let details = answer.get("incomplete_details").and_then(Value::as_object);
    match details {
        Some(details) => is_incomplete && is_text(details, "reason", is_cut_off),
        None => is_incomplete,
    }
}

fn item(mut item: Map<String, Value>, pointer: &str) -> Result<Option<ParsedCall>, DecodeError> {
    let kind = match type_of(&item) {
        "function_call" => Kind::Function,
        "custom_tool_call" => Kind::Custom,
        _ => return Ok(None),
    };
    let id = id(&mut item, "call_id", pointer)?;
    let name = name(&mut item, pointer)?;
    let arguments = arguments(&mut item, kind, pointer)?;
    let is_cut_off = is_text(&item, "status", |status| status == "incomplete");
    Ok(Some(ParsedCall { id, name, arguments, kind, is_cut_off, pointer: pointer.to_owned() }))
}

/// Creates the item of a result.
pub(super) fn result(shown: &OriginalCall, call: &Call) -> Value {
    let result = ModelContent::of(call, |mime_type| is_common_image(mime_type) || mime_type == "image/gif").marked();
    let output = match result.has_images() {
        true => result.pieces.iter().map(part).collect(),
        false => Value::String(result.text()),
    };
    let kind = match shown.kind {
        Kind::Custom => "custom_tool_call_output",
        _ => "function_call_output",
    };
    json!({ "type": kind, "call_id": shown.id(call), "output": output })
}

fn part(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "input_text", "text": text }),
        Piece::Image { data, mime_type } => {
            json!({ "type": "input_image", "image_url": format!("data:{mime_type};base64,{data}") })
        }
    }
}
