//! The JSON-RPC message around a result or an error.

use rmcp::ErrorData;

use super::headers::Era;
use super::message::Id;
use crate::domain::json;
use crate::formats::native::Pieces;

/// Memory of an envelope with a typical id, in bytes.
const TYPICAL_BYTES: usize = 128;

/// Returns the response with the members of a result, at least one.
pub(super) fn result(id: &Id, era: Era, members: &bytes::Bytes) -> Pieces {
    let mut before = begin(id);
    before.extend_from_slice(br#","result":{"#);
    if era == Era::Modern {
        before.extend_from_slice(br#""resultType":"complete","#);
    }
    Pieces::around(&before, members, b"}}")
}

/// Returns the response with an error.
pub(super) fn error(id: &Id, error: &ErrorData) -> Pieces {
    let mut all = begin(id);
    all.extend_from_slice(br#","error":"#);
    // The members of an error are a number, a text and a value.
    all.extend_from_slice(&serde_json::to_vec(error).unwrap_or_default());
    Pieces::around(&all, &bytes::Bytes::new(), b"}")
}

fn begin(id: &Id) -> Vec<u8> {
    let mut out = Vec::with_capacity(TYPICAL_BYTES);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    match id {
        Id::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Id::Text(text) => json::write_text(&mut out, text),
    }
    out
}
