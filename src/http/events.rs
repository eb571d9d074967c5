//! The event streams of one call, of one session and of all calls, and tickets for them.

use axum::Extension;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};

use super::auth::events_path::EventsPath;
use super::auth::{CallerLimits, require};
use super::event_response::sse;
use super::openapi_common::Event;
use super::responses::{Unavailable, UnknownCall, UnknownSession};
use super::subscribers::StreamPermit;
use super::{Api, BodyErrors, HttpResult, JsonBody, Params, Problem, extract, reply};
use crate::auth::tickets::TicketError;
use crate::domain::{Scope, Scopes, Time};
use crate::events::session;
use crate::events::stream::{self, EventFilter};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AfterParams {
    /// The `id:` of the last received event. `Last-Event-ID` takes precedence.
    #[param(pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$")]
    after: Option<String>,
}

/// Streams all past and future events of one call until it ends.
#[utoipa::path(get, path = "/tool-calls/{id}/events", operation_id = "tool_call_events", tag = "events",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("event_ticket" = [])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call"), AfterParams,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$", description = "The `id:` of the last received event")),
    responses((status = 200, description = "`tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the maximum number of event streams is open"),
        UnknownCall))]
pub(super) async fn of_call(
    Api { state, access }: Api,
    permit: StreamPermit,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(params): Params<AfterParams>,
) -> HttpResult {
    let id = extract::call_id(&id)?;
    let after = extract::resume_from(&headers, params.after.as_deref())?.unwrap_or_default();
    extract::check_reach(&access, id).await?;
    let frames = stream::of_call(access.store(), &state.bus, id, &after, state.closing.clone()).await?;
    frames.map(|frames| permit.attach_to(sse(frames))).ok_or_else(|| extract::no_such_call(&id.to_string()))
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
    #[param(pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$")]
    after: Option<String>,
}

/// Streams the events of all calls.
#[utoipa::path(get, path = "/events", operation_id = "all_events", tag = "events",
    security(("api_key" = ["read"]), ("event_ticket" = [])),
    params(AllParams, ("Last-Event-ID" = Option<String>, Header, pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$", description = "The `id:` of the last received event")),
    responses((status = 200, description = "`tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the maximum number of event streams is open")))]
pub(super) async fn of_all(
    Api { state, access }: Api,
    permit: StreamPermit,
    headers: HeaderMap,
    Params(params): Params<AllParams>,
) -> HttpResult {
    let after = extract::resume_from(&headers, params.after.as_deref())?;
    let filter = EventFilter {
        name: params.name,
        session: params.session,
        tools: access.caller().tools.clone(),
        approvals_only: false,
    };
    let frames = stream::of_all(access.store(), &state.bus, after, filter, state.closing.clone()).await?;
    Ok(permit.attach_to(sse(frames)))
}

/// Streams all past events of a session's calls, then new ones.
///
/// The first event is `session`: the state of the session itself. It is sent again after every change. The stream ends
/// when the session is deleted.
#[utoipa::path(get, path = "/sessions/{id}/events", operation_id = "session_events", tag = "events",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("event_ticket" = [])),
    params(("id" = String, Path, example = "chat-1", description = "The session"), AfterParams,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$", description = "The `id:` of the last event received")),
    responses((status = 200, description = "`session`, `tool_call`, `status`, `progress` and `tool_result` events; see their schemas", body = Event, content_type = "text/event-stream"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the limit on open streams is reached"),
        UnknownSession))]
pub(super) async fn of_session(
    Api { state, access }: Api,
    permit: StreamPermit,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(params): Params<AfterParams>,
) -> HttpResult {
    let after = extract::resume_from(&headers, params.after.as_deref())?.unwrap_or_default();
    let session = extract::find_session(&access, &id).await?;
    let (tools, closing) = (access.caller().tools.clone(), state.closing.clone());
    let frames = session::of_session(access.store(), &state.bus, session, tools, after, closing).await?;
    Ok(permit.attach_to(sse(frames)))
}

/// The event stream of a new ticket.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEventTicket, example = json!({"path": "/events"}))]
pub(super) struct TicketBody {
    /// The path of an event stream of the service, without the prefix of a gateway: `/events`,
    /// `/tool-calls/{id}/events` or `/sessions/{id}/events`. With `?name=` or `?session=`, the ticket is valid for this
    /// filter only.
    #[schema(
        max_length = 2048,
        pattern = r#"^/(events(\?(after(=([0-9]{1,18}|[0-9]{1,4}(:|%3A)[0-9]{1,18}((,|%2C)[0-9]{1,4}(:|%3A)[0-9]{1,18})*)?)?|(name|session)(=[!"$%'-~]*)?)?(&(after(=([0-9]{1,18}|[0-9]{1,4}(:|%3A)[0-9]{1,18}((,|%2C)[0-9]{1,4}(:|%3A)[0-9]{1,18})*)?)?|(name|session)(=[!"$%'-~]*)?)?)*)?|(tool-calls/[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|sessions/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)/events(\?(after(=([0-9]{1,18}|[0-9]{1,4}(:|%3A)[0-9]{1,18}((,|%2C)[0-9]{1,4}(:|%3A)[0-9]{1,18})*)?)?)?(&(after(=([0-9]{1,18}|[0-9]{1,4}(:|%3A)[0-9]{1,18}((,|%2C)[0-9]{1,4}(:|%3A)[0-9]{1,18})*)?)?)?)*)?)$"#
    )]
    path: String,
}

/// A ticket.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventTicket)]
struct Ticket<'a> {
    /// The value of the query parameter `ticket`.
    #[schema(example = "tpt_…")]
    ticket: &'a str,
    /// The time when an unused ticket expires. After its first use, it is valid for 12 hours.
    expires_at: Time,
}

/// Creates a ticket for an event stream, for browsers: their `EventSource` cannot send an API key.
///
/// `GET` of the path with `?ticket=` has the permissions of the key that requested the ticket. The ticket must be used
/// within 60 s and is then valid for reconnects to the same path for 12 h, on any node. `Last-Event-ID` and `after`
/// work as usual. A ticket and its streams end when its key ends.
#[utoipa::path(post, path = "/events/ticket", operation_id = "create_event_ticket", tag = "events",
    request_body(content = TicketBody, example = json!({"path": "/events"})),
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    responses((status = 200, description = "The ticket. It is returned only once", body = Ticket,
            example = json!({"ticket": "tpt_uZ5SvQm2hXNfKcYp0aWb1RrTgEoL7dJiV3nBxHs8qCk", "expires_at": "2026-01-31T12:01:00.000Z"})),
        (status = 403, description = "`SCOPE_MISSING`: the key may not read these events"),
        (status = 422, description = "The body does not match the schema, or the path is not the path of an event stream"),
        (status = 429, description = "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded, or the tenant has too many tickets"),
        BodyErrors, Unavailable))]
pub(super) async fn create_ticket(
    Api { state, access }: Api,
    caller: Option<Extension<CallerLimits>>,
    mut body: JsonBody,
) -> HttpResult {
    let TicketBody { path } = body.read()?;
    let events = EventsPath::parse(&path).map_err(|fault| Problem::field("/path", fault))?;
    require(&access, scopes_of(&events))?;
    let made = state.auth.make_ticket(&access, caller.as_deref().map(|caller| &*caller.credential), path).await;
    let ticket = made.map_err(ticket_refused)?;
    let mut response = reply::ok(&Ticket { ticket: &ticket.text, expires_at: ticket.expires_at });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Converts the error of a ticket that was not created.
pub(super) fn ticket_refused(error: TicketError) -> Problem {
    match error {
        TicketError::TooMany { retry_after_s } => {
            Problem::too_many("TOO_MANY_REQUESTS", &error.to_string(), retry_after_s)
        }
        TicketError::NoRandomness => Problem::internal(),
        TicketError::Store(error) => error.into(),
    }
}

/// Returns the alternative scopes for reading a stream, as declared by its route.
fn scopes_of(path: &EventsPath) -> Scopes {
    match path {
        EventsPath::All { .. } => Scopes::of([Scope::Read]),
        EventsPath::Call(_) | EventsPath::Session(_) => Scopes::of([Scope::Call, Scope::Read]),
    }
}
