//! The JSON responses of `POST /tool-calls`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use uuid::Uuid;

use super::{HttpResult, Problem, reply};
use crate::access::Access;
use crate::domain::Call;
use crate::domain::call::CallFormat;
use crate::engine::WaitOutcome;
use crate::formats::messages::Continuation;
use crate::formats::native::{BatchAnswer, ToolCall};

/// Returns the response for a message without calls.
pub(super) fn nothing() -> Response {
    reply::ok(&BatchAnswer::nothing())
}

fn build_response(
    status: StatusCode,
    batch_id: Option<Uuid>,
    is_batch: bool,
    calls: &[Arc<Call>],
    continuation: Option<&Continuation>,
) -> Response {
    match calls {
        [only] if !is_batch => match only.written.get(CallFormat::Native) {
            Some(json) => reply::written(status, Ok(json.clone())),
            None => reply::pieces(status, ToolCall::from(&**only).to_json(), only.counted.clone()),
        },
        calls => {
            let results = calls.iter().map(|call| ToolCall::from(&**call)).collect();
            let messages = continuation
                .map(|continuation| continuation.messages(&calls.iter().map(|call| &**call).collect::<Vec<_>>()));
            // All calls of a request share one memory footprint.
            let counted = calls.first().map(|call| call.counted.clone()).unwrap_or_default();
            reply::pieces(status, BatchAnswer { batch_id, results, messages }.to_json(), counted)
        }
    }
}

/// Returns the response for calls that were waited for: 200 if all have ended, else 202 with `Location`.
pub(super) async fn seen(
    access: &Access,
    batch_id: Option<Uuid>,
    seen: Vec<WaitOutcome>,
    continuation: Option<&Continuation>,
) -> HttpResult {
    let going: Vec<Uuid> = seen
        .iter()
        .filter_map(|seen| match seen {
            WaitOutcome::Pending(id) => Some(*id),
            WaitOutcome::Settled(_) => None,
        })
        .collect();
    let first = seen.first().map(|seen| match seen {
        WaitOutcome::Settled(call) => call.id,
        WaitOutcome::Pending(id) => *id,
    });
    // The calls are accepted, so a caller that cannot get their status gets their location.
    let stored = access.store().calls_of(&going).await.map_err(|_| not_recorded(true, batch_id, first))?;
    let mut stored: HashMap<Uuid, Call> = stored.into_iter().map(|call| (call.id, call)).collect();
    let mut calls = Vec::with_capacity(seen.len());
    for seen in seen {
        calls.push(match seen {
            WaitOutcome::Settled(call) => call,
            WaitOutcome::Pending(id) => Arc::new(stored.remove(&id).ok_or_else(Problem::internal)?),
        });
    }
    Ok(as_they_are(batch_id, batch_id.is_some(), &calls, continuation))
}

/// Returns 200 if all calls have ended, else 202 with `Location`.
pub(super) fn as_they_are(
    batch_id: Option<Uuid>,
    is_batch: bool,
    calls: &[Arc<Call>],
    continuation: Option<&Continuation>,
) -> Response {
    let goes_on = calls.iter().any(|call| !call.status.is_terminal());
    let status = if goes_on { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = build_response(status, batch_id, is_batch, calls, continuation);
    if goes_on {
        let location = location(batch_id, calls.first().map(|call| call.id));
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    response
}

fn location(batch_id: Option<Uuid>, call: Option<Uuid>) -> String {
    match (batch_id, call) {
        (Some(batch_id), _) => format!("/tool-calls?batch_id={batch_id}"),
        (None, call) => format!("/tool-calls/{}", call.unwrap_or_default()),
    }
}

/// Returns the problem for an unavailable database. Accepted calls continue; other calls can safely be sent again.
pub(super) fn not_recorded(accepted: bool, batch_id: Option<Uuid>, call: Option<Uuid>) -> Problem {
    if accepted {
        let detail = "the end could not be recorded in time; accepted calls will be at `Location` once it is recorded";
        return Problem::store_unavailable(detail).with(header::LOCATION, location(batch_id, call));
    }
    Problem::store_unavailable("the call could not be recorded in time; it was not run unless its tool is read-only")
}
