//! Batches of messages, which clients of revisions before 2025-06-18 may send: each message is answered as if it came
//! alone, and the responses are one array.

use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::future::join_all;
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;

use super::ClientContext;
use super::accepted::AcceptedForms;
use super::endpoint::Endpoint;
use super::refusal::{is_json, refused};
use super::shared::Owner;

/// Maximum number of messages in a batch.
const MAX_MESSAGES: usize = 100;

impl<S: ServerHandler + Clone> Endpoint<S> {
    /// Responds to the messages of a batch.
    pub(super) async fn answer_batch(
        &self,
        parts: Parts,
        messages: Vec<Value>,
        caller: ClientContext,
        session: Option<String>,
        owner: Owner,
    ) -> Response<Body> {
        if messages.is_empty() || messages.len() > MAX_MESSAGES {
            let reason = format!("a batch must have 1 to {MAX_MESSAGES} messages");
            return refused(StatusCode::BAD_REQUEST, &Value::Null, &ErrorData::invalid_request(reason, None));
        }
        let one = |message| self.answer_in_batch(&parts, message, &caller, session.clone(), owner.clone());
        let mut array = Vec::new();
        for answer in join_all(messages.into_iter().map(one)).await {
            if answer.status() == StatusCode::ACCEPTED {
                continue;
            }
            if !is_json(&answer) {
                // It refuses the client and not the message.
                return answer;
            }
            // The body was created by this process.
            let Ok(body) = to_bytes(answer.into_body(), usize::MAX).await else {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            };
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&body);
        }
        if array.is_empty() {
            return StatusCode::ACCEPTED.into_response();
        }
        array.push(b']');
        (StatusCode::OK, [(CONTENT_TYPE, "application/json")], array).into_response()
    }

    async fn answer_in_batch(
        &self,
        parts: &Parts,
        message: Value,
        caller: &ClientContext,
        session: Option<String>,
        owner: Owner,
    ) -> Response<Body> {
        let invalid = |reason: &'static str, id: &Value| {
            refused(StatusCode::BAD_REQUEST, id, &ErrorData::invalid_request(reason, None))
        };
        if !message.is_object() {
            return invalid("a message must be an object", &Value::Null);
        }
        let body = Bytes::from(message.to_string());
        // Its share of the memory of the batch.
        let weight = caller.weight.saturating_mul(body.len()) / caller.bytes.max(1);
        let caller = ClientContext { bytes: body.len(), weight, ..caller.clone() };
        let message = self.outline(message, session.is_some());
        if message.is_initialize() {
            return invalid("initialize must not be part of a batch", &message.id);
        }
        let id = message.id.clone();
        let answer = self.answer_message(parts.clone(), body, caller, message, session, owner).await;
        AcceptedForms { json: true, events: false }.convert(answer, &id).await
    }
}
