//! A call as a result of the Model Context Protocol, written without values in between. `mcp/result` converts the
//! results that are left out here.

use crate::domain::call::{CallFormat, OUTPUT_VIOLATIONS};
use crate::domain::{Call, Code, ContentBlock, Outcome, json};

use super::native::Data;
use super::{EMPTY_OUTPUT, is_blank};

/// The member of `_meta` with the id of the call.
pub const CALL_ID: &str = "toolpost/call_id";
/// The member of `_meta` with the code of a failure.
pub const ERROR_CODE: &str = "toolpost/error_code";

/// Memory of the members apart from texts, in bytes.
const TYPICAL_BYTES: usize = 256;

/// Returns the members of the result of an ended call, apart from `resultType`, as JSON without the outer braces.
///
/// Returns `None` for results that need more than the call: with blocks of other types, which are checked against the
/// protocol; with truncated data or data that does not match its schema, which depend on the schema that clients see; and
/// of unknown tools, which are errors.
#[must_use]
pub fn result_members(call: &Call) -> Option<Vec<u8>> {
    let outcome = call.outcome.as_deref()?;
    let is_plain = |block: &ContentBlock| !matches!(block, ContentBlock::Other(_));
    let is_unknown_tool = outcome.error.as_ref().is_some_and(|failure| failure.code == Code::ToolNotFound);
    let is_mismatch = call.metadata.contains_key(OUTPUT_VIOLATIONS);
    if is_unknown_tool || is_mismatch || outcome.full_output.is_some() || !outcome.content.iter().all(is_plain) {
        return None;
    }
    let mut out = Vec::with_capacity(TYPICAL_BYTES + 2 * outcome.output.len());
    write_content(&mut out, outcome);
    if !outcome.is_error() {
        write_data(&mut out, outcome);
    }
    out.extend_from_slice(if outcome.is_error() { br#","isError":true"# } else { br#","isError":false"# });
    out.extend_from_slice(br#","_meta":{"#);
    json::write_text(&mut out, CALL_ID);
    out.push(b':');
    json::write_text(&mut out, call.id.as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
    if let Some(failure) = &outcome.error {
        out.push(b',');
        json::write_text(&mut out, ERROR_CODE);
        out.push(b':');
        json::write_text(&mut out, failure.code.as_str());
    }
    out.push(b'}');
    Some(out)
}

/// Renders the members in advance for the caller that waits for the call.
pub(super) fn prerender(call: &Call) {
    if call.written.get(CallFormat::Mcp).is_none()
        && let Some(members) = result_members(call)
    {
        call.written.keep(members.into());
    }
}

fn write_content(out: &mut Vec<u8>, outcome: &Outcome) {
    out.extend_from_slice(br#""content":["#);
    if is_blank(outcome) {
        write_text_block(out, EMPTY_OUTPUT);
        out.push(b']');
        return;
    }
    if outcome.content.is_empty() && !outcome.output.is_empty() {
        write_text_block(out, &outcome.output);
    }
    for (index, block) in outcome.content.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match block {
            ContentBlock::Text(text) => write_text_block(out, text),
            ContentBlock::Image { data, mime_type } => {
                out.extend_from_slice(br#"{"type":"image","data":"#);
                json::write_text(out, data);
                out.extend_from_slice(br#","mimeType":"#);
                json::write_text(out, mime_type);
                out.push(b'}');
            }
            // `result_members` has rejected these blocks.
            ContentBlock::Other(_) => {}
        }
    }
    out.push(b']');
}

fn write_text_block(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(br#"{"type":"text","text":"#);
    json::write_text(out, text);
    out.push(b'}');
}

/// Writes `structuredContent`, which must be an object.
fn write_data(out: &mut Vec<u8>, outcome: &Outcome) {
    let (Some(value), Some(data)) = (outcome.structured.as_deref(), Data::of(outcome)) else { return };
    let is_object = value.is_object();
    out.extend_from_slice(if is_object { br#","structuredContent":"# } else { br#","structuredContent":{"result":"# });
    match data {
        Data::Text(text) => out.extend_from_slice(text.get().as_bytes()),
        Data::Value(_) | Data::Short(_) => json::write_value(out, value),
    }
    if !is_object {
        out.push(b'}');
    }
}
