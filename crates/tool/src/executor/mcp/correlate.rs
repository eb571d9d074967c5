//! What answers a request over HTTP: the response to its POST, whatever its id. Some servers and gateways answer with the
//! id `null`, with a text or with the id of another request, above all where they refuse a session that they have lost.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::lines;

type Error = StreamableHttpError<reqwest::Error>;

/// Words of errors about a session that the server does not know.
const LOST: [&str; 14] = [
    "no valid",
    "not found",
    "invalid",
    "expired",
    "unknown",
    "missing",
    "terminated",
    "required",
    "exist",
    "no such",
    "closed",
    "unrecognized",
    "stale",
    "not initialized",
];

/// A request that waits for the response to its POST.
#[derive(Debug, Clone)]
pub(super) struct PendingPost {
    id: RequestId,
    recovery: Recovery,
}

/// The errors about a lost session that begin a new session, after which the request is repeated once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// None: the request begins a session itself.
    Never,
    /// Errors that do not name the request: they come from before the server has read it, so it has not run.
    Unread,
    /// All: the request changes nothing.
    Always,
}

impl PendingPost {
    /// Returns what a message asks; `None` if it is no request.
    pub fn of(message: &ClientJsonRpcMessage) -> Option<Self> {
        let JsonRpcMessage::Request(request) = message else { return None };
        let recovery = match request.request {
            ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_) => Recovery::Never,
            ClientRequest::ListToolsRequest(_) => Recovery::Always,
            _ => Recovery::Unread,
        };
        Some(Self { id: request.id.clone(), recovery })
    }

    /// Returns the id of the request.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Makes the response to the POST the answer to the request. `is_listening` tells whether the server could send it
    /// over another stream.
    pub fn answer(
        self,
        answer: Result<StreamableHttpPostResponse, Error>,
        is_listening: bool,
    ) -> Result<StreamableHttpPostResponse, Error> {
        use StreamableHttpPostResponse::{Accepted, Json, Sse};
        match answer {
            Ok(Json(message, session)) => Ok(Json(self.message(message)?, session)),
            Ok(Accepted) if !is_listening => Err(unexpected("its server accepted the request without answering it")),
            Ok(Sse(events, session)) => {
                let events = events.map(move |event| {
                    event.map(|mut event| {
                        let readable = event.data.as_deref().and_then(readable);
                        event.data = readable.or(event.data);
                        let changed = event.data.as_deref().and_then(|data| self.event(data));
                        event.data = changed.or(event.data);
                        event
                    })
                });
                Ok(Sse(events.boxed(), session))
            }
            // The message begins with the status of a response that is no success.
            Err(StreamableHttpError::UnexpectedServerResponse(text))
                if self.recovery != Recovery::Never && text.starts_with("HTTP 4") && is_about_lost_session(&text) =>
            {
                Err(StreamableHttpError::SessionExpired)
            }
            other => other,
        }
    }

    /// Makes a message the answer to the request.
    pub fn message(&self, message: ServerJsonRpcMessage) -> Result<ServerJsonRpcMessage, Error> {
        match message {
            JsonRpcMessage::Response(mut answer) => {
                answer.id = self.id.clone();
                Ok(JsonRpcMessage::Response(answer))
            }
            JsonRpcMessage::Error(mut error) => {
                let is_unread = error.id.as_ref() != Some(&self.id);
                let may_recover = self.recovery == Recovery::Always || is_unread && self.recovery == Recovery::Unread;
                if may_recover && is_lost_session(&error.error) {
                    return Err(StreamableHttpError::SessionExpired);
                }
                error.id = Some(self.id.clone());
                Ok(JsonRpcMessage::Error(error))
            }
            _ => Err(unexpected("its server answered with a message other than a response")),
        }
    }

    /// Returns the data of an event with the id of the request, if it is a response with another one.
    fn event(&self, data: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            method: Option<IgnoredAny>,
            result: Option<IgnoredAny>,
            error: Option<IgnoredAny>,
        }
        let envelope: Envelope<'_> = serde_json::from_str(data).ok()?;
        let is_response = envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some());
        let own = serde_json::value::to_raw_value(&self.id).ok()?;
        if !is_response || envelope.id.is_some_and(|id| id.get() == own.get()) {
            return None;
        }
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(data).ok()?;
        members.insert("id".to_owned(), &own);
        serde_json::to_string(&members).ok()
    }
}

/// Returns the message of an event whose data is no JSON: corrected, or an error in its place. `None` if nothing has to
/// change.
fn readable(data: &str) -> Option<String> {
    // Values that are ignored may contain half of a surrogate pair.
    let has_surrogates = data.contains("\\ud") || data.contains("\\uD");
    let is_json = match has_surrogates {
        true => serde_json::from_str::<serde_json::Value>(data).is_ok(),
        false => serde_json::from_str::<IgnoredAny>(data).is_ok(),
    };
    let message = if is_json { None } else { lines::read(data.as_bytes()) };
    serde_json::to_string(&message?).ok()
}

fn unexpected(what: &'static str) -> Error {
    StreamableHttpError::UnexpectedServerResponse(what.into())
}

/// Returns `true` for an error that refuses a session which the server does not know, as far as its text tells.
pub(super) fn is_lost_session(error: &ErrorData) -> bool {
    is_about_lost_session(&error.message)
}

fn is_about_lost_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("server not initialized") || text.contains("session") && LOST.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pending_post(method: &str) -> PendingPost {
        let params = if method == "tools/call" { json!({"name": "t"}) } else { json!({}) };
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        PendingPost::of(&serde_json::from_value(message).unwrap()).unwrap()
    }

    fn answered(method: &str, message: Value) -> Result<Value, Error> {
        let message = pending_post(method).message(serde_json::from_value(message).unwrap())?;
        Ok(serde_json::to_value(message).unwrap())
    }

    fn error(id: &Value, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}})
    }

    #[test]
    fn response_gets_the_id_of_its_request() {
        for id in [json!(7), json!("7"), json!(8), json!("server-error")] {
            let result = answered("tools/call", json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
            assert_eq!(result.unwrap()["id"], 7);
            assert_eq!(answered("tools/call", error(&id, "no")).unwrap()["id"], 7);
        }
        assert_eq!(answered("tools/call", error(&Value::Null, "no")).unwrap()["id"], 7);
        let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        assert!(answered("tools/call", note).is_err());
    }

    #[test]
    fn event_gets_the_id_of_its_request_and_is_otherwise_unchanged() {
        let pending_post = pending_post("tools/call");
        let changed = |data: &str| pending_post.event(data);
        assert_eq!(changed(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), None);
        assert_eq!(changed(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), None);
        assert_eq!(changed("x"), None);
        for id in ["null", "\"7\"", "8", "\"a\""] {
            let data = changed(&format!(r#"{{"id":{id},"result":{{"n":1.50,"id":2}},"jsonrpc":"2.0"}}"#)).unwrap();
            assert_eq!(data, r#"{"id":7,"jsonrpc":"2.0","result":{"n":1.50,"id":2}}"#);
        }
        assert_eq!(changed(r#"{"error":{}}"#).unwrap(), r#"{"error":{},"id":7}"#);
    }

    #[test]
    fn event_in_nonstandard_json_is_corrected() {
        let corrected =
            readable(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"caf\ud83d"}]}}"#);
        assert!(corrected.unwrap().contains("caf\u{fffd}"));
        assert!(readable(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[}}"#).unwrap().contains("not valid JSON"));
        assert_eq!(readable(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), None);
        assert_eq!(readable("ping"), None);
    }

    #[test]
    fn only_an_unprocessed_request_begins_a_new_session() {
        let lost =
            ["Bad Request: No valid session ID provided", "Session not found", "Bad Request: Server not initialized"];
        let is_expired = |answer: Result<Value, Error>| matches!(answer, Err(StreamableHttpError::SessionExpired));
        for message in lost {
            for id in [Value::Null, json!("server-error")] {
                assert!(is_expired(answered("tools/call", error(&id, message))), "{message}");
                let discover = PendingPost { recovery: Recovery::Never, ..pending_post("tools/call") };
                let answer = discover.message(serde_json::from_value(error(&id, message)).unwrap());
                assert!(answer.is_ok(), "{message}");
            }
            // A tool may have failed because of a session of its own.
            assert!(!is_expired(answered("tools/call", error(&json!(7), message))), "{message}");
            assert!(is_expired(answered("tools/list", error(&json!(7), message))), "{message}");
        }
        assert!(!is_expired(answered("tools/call", error(&Value::Null, "the session of May begins"))));
    }
}
