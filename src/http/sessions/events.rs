//! `GET /sessions/{id}/events`.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::find;
use crate::access::Access;
use crate::events::session::of_session;
use crate::http::AppState;
use crate::http::event_response::sse;
use crate::http::extract::{self, Params};
use crate::http::openapi_common::Event;
use crate::http::problem::Problem;
use crate::http::subscribers::StreamPermit;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StreamParams {
    /// The `id:` of the last event received; `Last-Event-ID` takes precedence. Without either, the stream begins with
    /// the first event.
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
}

/// Streams all past events of a session's calls, then new ones.
///
/// The first event is `session`: the state of the session itself. It is sent again after every change. The stream ends
/// when the session is deleted.
#[utoipa::path(get, path = "/sessions/{id}/events", operation_id = "session_events", tag = "events",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("event_ticket" = [])),
    params(("id" = String, Path, example = "chat-1", description = "The session"), StreamParams,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{0,18}$", description = "The `id:` of the last event received")),
    responses((status = 200, description = "`session`, `tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 404, description = "Unknown session"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the limit on open streams is reached")))]
pub(in crate::http) async fn stream(
    State(state): State<AppState>,
    access: Access,
    seat: StreamPermit,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(params): Params<StreamParams>,
) -> Result<Response, Problem> {
    let after = extract::resume_from(&headers, params.after.as_deref())?.unwrap_or(0);
    let session = find(&access, &id).await?;
    let (tools, closing) = (access.caller().tools.clone(), state.closing.clone());
    let frames = of_session(access.store(), &state.bus, session, tools, after, closing).await?;
    Ok(seat.attach_to(sse(frames)))
}
