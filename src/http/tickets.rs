//! `POST /events/ticket`: tickets for event streams in browsers, whose `EventSource` cannot send headers.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::auth::events_path::EventsPath;
use super::auth::{CallerCredential, require};
use super::extract::JsonBody;
use super::openapi_common::BodyErrors;
use super::problem::Problem;
use super::{AppState, reply};
use crate::access::Access;
use crate::auth::tickets::TicketError;
use crate::domain::{Scope, Scopes, Time};

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
        pattern = r#"^/(events(\?(after(=[0-9]{0,18})?|(name|session)(=[!"$%'-~]*)?)?(&(after(=[0-9]{0,18})?|(name|session)(=[!"$%'-~]*)?)?)*)?|(tool-calls/[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|sessions/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)/events(\?(after(=[0-9]{0,18})?)?(&(after(=[0-9]{0,18})?)?)*)?)$"#
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
        BodyErrors,
        (status = 403, description = "`SCOPE_MISSING`: the key may not read these events"),
        (status = 422, description = "The body does not match the schema, or the path is not the path of an event stream"),
        (status = 429, description = "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded, or the tenant has too many tickets"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn create(
    State(state): State<AppState>,
    access: Access,
    CallerCredential(credential): CallerCredential,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let TicketBody { path } = body.read()?;
    let events = EventsPath::parse(&path).map_err(|fault| Problem::field("/path", fault))?;
    require(&access, scopes_of(&events))?;
    let made = state.auth.make_ticket(&access, credential.as_deref(), path).await;
    let ticket = made.map_err(|error| match error {
        TicketError::TooMany { retry_after_s } => Problem::too_many_requests(&error.to_string(), retry_after_s),
        TicketError::NoRandomness => Problem::internal(),
        TicketError::Store(error) => error.into(),
    })?;
    let mut response = reply::json(StatusCode::OK, &Ticket { ticket: &ticket.text, expires_at: ticket.expires_at });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Returns the alternative scopes for reading a stream, as declared by its route.
fn scopes_of(path: &EventsPath) -> Scopes {
    match path {
        EventsPath::All { .. } => Scopes::of([Scope::Read]),
        EventsPath::Call(_) | EventsPath::Session(_) => Scopes::of([Scope::Call, Scope::Read]),
    }
}
