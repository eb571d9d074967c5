//! `POST /sessions/{id}/…`: aborts and completes sessions.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::{SessionView, find};
use crate::access::Access;
use crate::domain::{Completion, Session};
use crate::http::auth::require_tools;
use crate::http::extract::JsonBody;
use crate::http::openapi_common::BodyErrors;
use crate::http::problem::Problem;
use crate::http::{AppState, reply};

/// Cancels all unfinished calls of a session and of its tasks, on every node. Each call ends `CANCELLED`.
///
/// The session becomes `ABORTED`, unless it is completed. A parent's call that waits for it is cancelled as well. The
/// next call reactivates the session.
#[utoipa::path(post, path = "/sessions/{id}/abort", operation_id = "abort_session", tag = "sessions",
    security(("api_key" = ["call"])),
    params(("id" = String, Path, example = "chat-1", description = "The session")),
    responses((status = 202, description = "The calls of the session are being cancelled", body = SessionView),
        (status = 403, description = "`FORBIDDEN`: this would end a call of a tool that the key may not use. \
            `SCOPE_MISSING`: the key lacks the required scope"),
        (status = 404, description = "Unknown session"),
        (status = 503, description = "The database is unavailable")))]
pub(in crate::http) async fn abort(
    State(state): State<AppState>,
    access: Access,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = find(&access, &id).await?;
    may_end(&state, &access, &session).await?;
    state.engine.abort_session(access.store(), &session).await?;
    let now = find(&access, &id).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &SessionView::from(&now)))
}

/// Checks that the caller may use all tools whose calls end with the session.
pub(super) async fn may_end(state: &AppState, access: &Access, session: &Session) -> Result<(), Problem> {
    if access.allowed().is_some() {
        require_tools(access, state.engine.tools_that_end_with(access.store(), session).await?)?;
    }
    Ok(())
}

/// The outcome of a completion.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionCompleted)]
struct CompletionReceipt<'a> {
    #[serde(flatten)]
    session: SessionView<'a>,
    /// Whether the session had already ended.
    ignored: bool,
}

/// Completes a session: its task has ended.
///
/// If a call of `new_task` created the session, that call ends now, with `summary` as its output, or as an error if
/// `success` is false. The first completion counts.
#[utoipa::path(post, path = "/sessions/{id}/complete", operation_id = "complete_session", tag = "sessions",
    security(("api_key" = ["call"])),
    params(("id" = String, Path, example = "chat-1", description = "The session")),
    request_body(content = Completion, example = json!({"success": true, "summary": "The forecast was sent."})),
    responses((status = 200, description = "Completed, or `ignored` if the session had already ended", body = CompletionReceipt),
        BodyErrors,
        (status = 403, description = "`FORBIDDEN`: this would end a call of a tool that the key may not use. \
            `SCOPE_MISSING`: the key lacks the required scope"),
        (status = 404, description = "Unknown session"),
        (status = 422, description = "The body does not match the schema"),
        (status = 503, description = "The database is unavailable")))]
pub(in crate::http) async fn complete(
    State(state): State<AppState>,
    access: Access,
    Path(id): Path<String>,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let completion: Completion = body.read()?;
    let session = find(&access, &id).await?;
    if access.allowed().is_some() {
        require_tools(&access, state.engine.tool_that_awaits(access.store(), &session).await?)?;
    }
    let is_heard = state.engine.complete_session(access.store(), &session, completion).await?;
    let now = find(&access, &id).await?;
    Ok(reply::json(StatusCode::OK, &CompletionReceipt { session: (&now).into(), ignored: !is_heard }))
}
