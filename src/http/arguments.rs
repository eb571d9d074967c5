//! `PATCH /tool-calls/{id}/arguments`: arguments sent in chunks (docs/reference/contract.md, section 8).

use std::time::Duration;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::request_headers::Preference;
use super::responses::{InvalidBody, Unavailable, UnknownCall};
use super::{Api, AppState, BodyErrors, HttpResult, JsonBody, Problem, extract, reply, wait};
use crate::access::Access;
use crate::arguments::stream::{ArgumentChunk as EngineChunk, ArgumentStreamError};
use crate::domain::{Phase, Status};
use crate::engine::{ChunkAnswer, Wait};
use crate::executor::ToolRole;
use crate::formats::native::ToolCall;
use crate::formats::stream::partial;

/// A chunk of the arguments, their end, or both.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Piece)]
pub(super) struct ArgumentChunk {
    /// Text to append to the arguments.
    delta: Option<String>,
    /// The number of the chunk, from 1. A chunk that was already received is ignored, and a gap is rejected. Without
    /// numbers, chunks are appended in the order of arrival.
    #[schema(minimum = 1)]
    seq: Option<u64>,
    /// Marks the arguments as complete and starts the call.
    #[serde(default)]
    #[schema(extensions(("x-together" = json!({"anyOf": [{"required": ["delta"], "properties": {"delta": {"type": "string"}}},
        {"required": ["final"], "properties": {"final": {"const": true}}}]}))))]
    r#final: bool,
}

/// A chunk that was accepted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = PieceTaken)]
struct ChunkAccepted {
    /// The id of the call.
    id: Uuid,
    status: Status,
    phase: Phase,
    /// The number of the last chunk.
    seq: u64,
}

/// The accepted chunk, or the call if `final` is set.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
enum PatchAnswer<'a> {
    Taken(ChunkAccepted),
    Call(Box<ToolCall<'a>>),
}

/// Appends to the arguments of a call that was opened with `partial`.
///
/// The arguments received so far are in the call's `status` events, as `params`. With `final` the call starts, and the
/// response is the ToolCall: immediately, or after the time in `Prefer: wait=SECONDS`.
#[utoipa::path(patch, path = "/tool-calls/{id}/arguments", operation_id = "patch_arguments", tag = "tool calls",
    security(("api_key" = ["call"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"),
        ("Prefer" = Option<String>, Header, example = "wait=10", description = "With `final`: seconds to wait for the end of the call (RFC 7240), at most 3600")),
    request_body(content = ArgumentChunk, example = json!({"delta": "{\"city\":\"Paris\"}", "final": true})),
    responses((status = 200, description = "The call has ended", body = ToolCall),
        (status = 202, description = "Accepted. With `final`: the arguments are recorded, and the call continues at `Location`", body = PatchAnswer,
            headers(("Location" = String, description = "With `final`: `/tool-calls/{id}`"))),
        (status = 409, description = "`SEQUENCE_GAP`: a chunk is missing. `ARGUMENTS_COMPLETE`: the arguments are already complete"),
        BodyErrors, UnknownCall, InvalidBody, Unavailable))]
pub(super) async fn patch(
    Api { state, access }: Api,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut body: JsonBody,
) -> HttpResult {
    let id = extract::call_id(&id)?;
    let ArgumentChunk { delta, seq, r#final } = body.read()?;
    if seq == Some(0) {
        return Err(Problem::field("/seq", "must be 1 or more; the arguments of the opening request precede it"));
    }
    if delta.is_none() && !r#final {
        return Err(Problem::field("", "must have `delta`, or `final`, or both"));
    }
    check_may_supply(&access, id).await?;
    let chunk = EngineChunk { seq, delta: delta.unwrap_or_default(), is_final: r#final };
    let timeout = Duration::from_millis(state.config.store.patience_ms);
    let seq = match state.engine.control().supply(access.tenant(), id, chunk, timeout).await? {
        ChunkAnswer::Accepted(seq) => seq,
        ChunkAnswer::Refused(error) => return Err(refused(error)),
        ChunkAnswer::NoSuchCall => return Err(extract::no_such_call(&id.to_string())),
        ChunkAnswer::NotRecorded => {
            return Err(Problem::store_unavailable("the arguments could not be recorded in time"));
        }
        ChunkAnswer::Unanswered => {
            return Err(Problem::store_unavailable(
                "the node that runs the call did not answer in time; repeat the chunk with its `seq`",
            ));
        }
    };
    if r#final {
        return answer_complete(&state, &access, id, &headers).await;
    }
    Ok(reply::accepted(&ChunkAccepted { id, status: Status::Wait, phase: Phase::Arguments, seq }))
}

/// Checks that the caller may use the call's tool.
///
/// If the arguments can name another tool, the call must have been made with the caller's allow-list, because the call
/// can reach any tool on that list.
async fn check_may_supply(access: &Access, id: Uuid) -> HttpResult<()> {
    if access.allowed().is_none() {
        return Ok(());
    }
    let found = access.call(id).await?.filter(|call| {
        let snapshot = access.snapshot();
        let names_another = snapshot.get(&call.name).is_some_and(|entry| entry.role == Some(ToolRole::Forward));
        !names_another || call.allowed == access.caller().tools
    });
    found.map(drop).ok_or_else(|| extract::no_such_call(&id.to_string()))
}

/// Returns the call, after the time that the caller waits for its end.
async fn answer_complete(state: &AppState, access: &Access, id: Uuid, headers: &HeaderMap) -> HttpResult {
    let wait = match Preference::of(headers).map(Preference::wait) {
        Some(Wait::For(longest)) => longest,
        _ => Duration::ZERO,
    };
    let call = wait::wait(state, access, id, Some(wait)).await?;
    let status = if call.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(reply::at(&format!("/tool-calls/{id}"), reply::json(status, &ToolCall::from(&call))))
}

fn refused(error: ArgumentStreamError) -> Problem {
    match error {
        ArgumentStreamError::Gap { .. } => Problem::conflict("SEQUENCE_GAP", error.to_string()),
        ArgumentStreamError::Closed => Problem::conflict("ARGUMENTS_COMPLETE", error.to_string()),
        ArgumentStreamError::MemoryExhausted => Problem::too_many_calls(),
        ArgumentStreamError::TooLong => Problem::arguments_too_large(partial::LIMIT),
    }
}
