//! `POST /tool-calls/cancel`: cancels all unfinished calls that match.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::responses::{InvalidBody, Unavailable};
use super::{Api, BodyErrors, FieldError, HttpResult, JsonBody, Problem, reply};
use crate::engine::CancelFilter;

/// Maximum number of ids in a request.
const MAX_IDS: usize = 1000;

/// The calls to cancel. A call must match every given member, and at least one must be given.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = CancelCalls)]
pub(super) struct CancelBody {
    /// Only calls of this session.
    #[schema(pattern = "^[^\\u0000]*$", extensions(("x-together" = json!({"anyOf": [
        {"required": ["session"], "properties": {"session": {"type": "string"}}},
        {"required": ["batch_id"], "properties": {"batch_id": {"type": "string"}}},
        {"required": ["name"], "properties": {"name": {"type": "string"}}},
        {"required": ["ids"], "properties": {"ids": {"type": "array"}}}]}))))]
    session: Option<String>,
    /// Only calls of this batch.
    batch_id: Option<Uuid>,
    /// Only calls of this tool.
    name: Option<String>,
    /// Only these calls. Unknown ids and ended calls are ignored.
    #[schema(max_items = 1000)]
    ids: Option<Vec<Uuid>>,
}

/// The calls that are being cancelled.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct CancelledCalls {
    /// The number of unfinished calls that matched, also if they were being cancelled already. Each of them ends `CANCELLED`, unless it ends before it is stopped.
    cancelled: u64,
}

/// Cancels all unfinished calls that match, on every node.
///
/// At least one member is required; a call must match all given members. Waiting calls end immediately, and running
/// calls are stopped. Calls of other tenants, of tools that the key may not use, and calls that have ended are not
/// affected. Calls that are made during the request may be missed.
#[utoipa::path(post, path = "/tool-calls/cancel", operation_id = "cancel_tool_calls", tag = "tool calls",
    security(("api_key" = ["call"])),
    request_body(content = CancelBody, examples(
        ("session" = (summary = "All calls of a session", value = json!({"session": "chat-1"}))),
        ("tool" = (summary = "All calls of a tool in a session", value = json!({"session": "chat-1", "name": "echo"}))),
        ("ids" = (summary = "Several calls", value = json!({"ids": ["0197a1b2-0000-7000-8000-000000000000"]}))))),
    responses((status = 200, description = "The calls are being cancelled", body = CancelledCalls),
        BodyErrors, InvalidBody, Unavailable))]
pub(super) async fn cancel_matching(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
    let CancelBody { session, batch_id, name, ids } = body.read()?;
    if session.is_none() && batch_id.is_none() && name.is_none() && ids.is_none() {
        let message = "requires `session`, `batch_id`, `name` or `ids`; to cancel all calls of a tool, send its `name`";
        return Err(Problem::field("", message));
    }
    if let Some(ids) = ids.as_ref().filter(|ids| ids.len() > MAX_IDS) {
        let message =
            format!("must have at most {MAX_IDS} ids, not {}; send the others in further requests", ids.len());
        return Err(Problem::invalid(vec![FieldError { pointer: "/ids".into(), message }]));
    }
    if session.as_deref().is_some_and(|session| session.contains('\0')) {
        return Err(Problem::field("/session", "must not contain U+0000"));
    }
    let filter = CancelFilter { session, batch_id, name, ids };
    let cancelled = state.engine.cancel_matching(&access, &filter).await?;
    Ok(reply::ok(&CancelledCalls { cancelled }))
}
