//! The event streams of one call and of all calls.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::AppState;
use super::event_response::sse;
use super::extract::{self, Params};
use super::openapi_common::Event;
use super::problem::Problem;
use super::subscribers::StreamPermit;
use crate::access::Access;
use crate::events::stream::{self, EventFilter};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OneParams {
    /// The `id:` of the last received event. `Last-Event-ID` takes precedence.
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
}

/// Streams all past and future events of one call until it ends.
#[utoipa::path(get, path = "/tool-calls/{id}/events", operation_id = "tool_call_events", tag = "events",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("event_ticket" = [])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), OneParams,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{0,18}$", description = "The `id:` of the last received event")),
    responses((status = 200, description = "`tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 404, description = "Unknown call"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the maximum number of event streams is open")))]
pub(super) async fn of_call(
    State(state): State<AppState>,
    access: Access,
    seat: StreamPermit,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(params): Params<OneParams>,
) -> Result<Response, Problem> {
    let id = extract::call_id(&id)?;
    let after = extract::resume_from(&headers, params.after.as_deref())?.unwrap_or(0);
    if !access.may_reach_id(id).await? {
        return Err(extract::no_such_call(&id.to_string()));
    }
    let frames = stream::of_call(access.store(), &state.bus, id, after, state.closing.clone()).await?;
    frames.map(|frames| seat.attach_to(sse(frames))).ok_or_else(|| extract::no_such_call(&id.to_string()))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AllParams {
    /// Only events of calls of this tool.
    name: Option<String>,
    /// Only events of this session.
    session: Option<String>,
    /// The `id:` of the last received event. `Last-Event-ID` takes precedence. 0 starts at the beginning; without
    /// either, only new events are sent. If older events were deleted (`[retention]`), the stream starts with the
    /// oldest stored event.
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
}

/// Streams the events of all calls.
#[utoipa::path(get, path = "/events", operation_id = "all_events", tag = "events",
    security(("api_key" = ["read"]), ("event_ticket" = [])),
    params(AllParams, ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{0,18}$", description = "The `id:` of the last received event")),
    responses((status = 200, description = "`tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the maximum number of event streams is open")))]
pub(super) async fn of_all(
    State(state): State<AppState>,
    access: Access,
    seat: StreamPermit,
    headers: HeaderMap,
    Params(params): Params<AllParams>,
) -> Result<Response, Problem> {
    let after = extract::resume_from(&headers, params.after.as_deref())?;
    let filter = EventFilter { name: params.name, session: params.session, tools: access.caller().tools.clone() };
    let frames = stream::of_all(access.store(), &state.bus, after, filter, state.closing.clone()).await?;
    Ok(seat.attach_to(sse(frames)))
}
