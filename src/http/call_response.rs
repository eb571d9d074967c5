//! What `POST /tool-calls` answers: calls that have ended, and where those are found that go on.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use uuid::Uuid;

use super::problem::Problem;
use super::reply;
use crate::access::Access;
use crate::domain::Call;
use crate::engine::WaitOutcome;
use crate::formats::messages::Continuation;
use crate::formats::native::{BatchAnswer, ToolCall};

/// Calls that have all ended.
pub(super) fn ended(batch_id: Option<Uuid>, calls: &[Arc<Call>], said: Option<&Continuation>) -> Response {
    of(StatusCode::OK, batch_id, batch_id.is_some(), calls, said)
}

/// The answer to a message without calls.
pub(super) fn nothing() -> Response {
    reply::json(StatusCode::OK, &BatchAnswer::nothing())
}

fn of(
    status: StatusCode,
    batch_id: Option<Uuid>,
    is_batch: bool,
    calls: &[Arc<Call>],
    said: Option<&Continuation>,
) -> Response {
    match calls {
        [only] if !is_batch => match only.written.get() {
            Some(json) => reply::written(status, Ok(json.clone())),
            None => reply::pieces(status, ToolCall::from(&**only).to_json(), only.counted.clone()),
        },
        calls => {
            let results = calls.iter().map(|call| ToolCall::from(&**call)).collect();
            let messages = said.map(|said| said.messages(&calls.iter().map(|call| &**call).collect::<Vec<_>>()));
            // Calls of one request are counted together.
            let counted = calls.first().map(|call| call.counted.clone()).unwrap_or_default();
            reply::pieces(status, BatchAnswer { batch_id, results, messages }.to_json(), counted)
        }
    }
}

/// Calls as they are seen: 200 if all have ended, else 202 and where they are found.
pub(super) async fn seen(
    access: &Access,
    batch_id: Option<Uuid>,
    seen: Vec<WaitOutcome>,
    said: Option<&Continuation>,
) -> Result<Response, Problem> {
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
    // They are accepted: whoever cannot be told how they stand is told where they are.
    let stored = access.store().calls_of(&going).await.map_err(|_| not_recorded(true, batch_id, first))?;
    let mut stored: HashMap<Uuid, Call> = stored.into_iter().map(|call| (call.id, call)).collect();
    let mut calls = Vec::with_capacity(seen.len());
    for seen in seen {
        calls.push(match seen {
            WaitOutcome::Settled(call) => call,
            WaitOutcome::Pending(id) => Arc::new(stored.remove(&id).ok_or_else(Problem::internal)?),
        });
    }
    Ok(as_they_are(batch_id, batch_id.is_some(), &calls, said))
}

/// 200 if all have ended, else 202 and where they are found.
pub(super) fn as_they_are(
    batch_id: Option<Uuid>,
    is_batch: bool,
    calls: &[Arc<Call>],
    said: Option<&Continuation>,
) -> Response {
    let goes_on = calls.iter().any(|call| !call.status.is_terminal());
    let status = if goes_on { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = of(status, batch_id, is_batch, calls, said);
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

/// The database is away. What was accepted goes on; what was not may safely be sent again.
pub(super) fn not_recorded(accepted: bool, batch_id: Option<Uuid>, call: Option<Uuid>) -> Problem {
    if accepted {
        let detail = "the end could not be recorded in time; what was accepted is at `Location` once it is";
        return Problem::store_unavailable(detail).at(location(batch_id, call));
    }
    Problem::store_unavailable("the call could not be recorded in time; a tool that is not read-only was not run")
}
