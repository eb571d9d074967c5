//! Anthropic's Messages: calls are `tool_use` blocks, and results are one user message of `tool_result` blocks. The
//! provider runs `server_tool_use` and `mcp_tool_use`.

use serde_json::{Map, Value, json};

use super::members::{calls_in, error_at, has, id, is_text, name, object, take, type_of};
use super::model_content::{ModelContent, Piece, is_common_image};
use super::{Kind, OriginalCall, ParsedCall, VendorCalls, is_cut_off};
use crate::domain::Call;
use crate::domain::decode::DecodeError;

/// Parses the message, its content, or one block.
pub(super) fn read(body: Value) -> Result<VendorCalls, DecodeError> {
    let mut body = match body {
        Value::Array(_) => return Ok((calls_in(body, "", block)?, false)),
        body => object(body, "")?,
    };
    let is_cut_off = is_text(&body, "stop_reason", is_cut_off);
    match take(&mut body, &["content"]) {
        // A message with only text.
        Some(Value::String(_)) => Ok((Vec::new(), is_cut_off)),
        Some(content) => Ok((calls_in(content, "/content", block)?, is_cut_off)),
        None if has(&body, &["role", "stop_reason"]) => Ok((Vec::new(), is_cut_off)),
        None if has(&body, &["type"]) => Ok((block(body, "")?.into_iter().collect(), is_cut_off)),
        None => Err(error_at("", "is not an Anthropic message: `content` is missing")),
    }
}

fn block(mut block: Map<String, Value>, pointer: &str) -> Result<Option<ParsedCall>, DecodeError> {
    if type_of(&block) != "tool_use" {
        return Ok(None);
    }
    let id = id(&mut block, "id", pointer)?;
    let name = name(&mut block, pointer)?;
    let (arguments, pointer) = (block.swap_remove("input"), pointer.to_owned());
    Ok(Some(ParsedCall { id, name, arguments, kind: Kind::Function, is_cut_off: false, pointer }))
}

/// Creates the block of a result.
pub(super) fn result(shown: &OriginalCall, call: &Call) -> Value {
    // The API allows only text in a result that is marked as an error.
    let takes = |mime_type: &str| is_common_image(mime_type) || mime_type == "image/gif";
    let is_error = call.outcome.as_deref().is_some_and(crate::domain::Outcome::is_error);
    let result = ModelContent::of(call, |mime_type| !is_error && takes(mime_type));
    let content = match result.has_images() {
        true => result.pieces.iter().map(content_block).collect(),
        false => match result.text() {
            // The API requires text in an error.
            text if is_error && text.trim().is_empty() => Value::String("Error".to_owned()),
            text => Value::String(text),
        },
    };
    json!({ "type": "tool_result", "tool_use_id": shown.id(call), "content": content, "is_error": is_error })
}

fn content_block(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image { data, mime_type } => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": mime_type, "data": data } })
        }
    }
}
