//! The ids of events in the streams of sessions. They tell every node which response a client wants to resume.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::{ProgressToken, RequestId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of an event. Clients see it as an opaque string.
///
/// A client can make up an id, but gains nothing: access to the call is checked, and everything else comes from the
/// client anyway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EventId {
    /// The node that serves the stream.
    pub node: Arc<str>,
    /// The id that rmcp has given to the event on this node; empty for a stream that another node took over.
    pub local: String,
    /// The request that the stream belongs to; `None` for the stream of notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PendingRequest>,
}

/// A request whose response is a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingRequest {
    /// The id that the client gave to the request.
    pub id: RequestId,
    /// The call; `None` for a request that calls no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// The token of progress notifications, if the client asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<ProgressToken>,
    /// The last progress that was sent before the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

impl EventId {
    /// Writes the id as text.
    pub fn text(&self) -> String {
        // Strings and numbers always serialize.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads an id. Returns `None` for ids that rmcp gives without a session.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let request = PendingRequest {
            id: serde_json::from_value(json!("c-1")).unwrap(),
            call: Some(Uuid::from_u128(7)),
            token: Some(serde_json::from_value(json!(3)).unwrap()),
            progress: Some(0.5),
        };
        for request in [None, Some(request)] {
            let id = EventId { node: "a".into(), local: "3/1".into(), request };
            assert_eq!(EventId::read(&id.text()), Some(id));
        }
        for foreign in ["0", "3/1", "", "e30", "\u{e9}"] {
            assert_eq!(EventId::read(foreign), None, "{foreign}");
        }
    }
}
