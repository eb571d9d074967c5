//! Tickets in the address of a request for an event stream.

use axum::extract::{MatchedPath, Request};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{Method, header};

use super::events_path::EventsPath;
use super::requirements;

/// The query parameter that has the ticket.
const PARAMETER: &str = "ticket";

/// The ticket of a query's parameter, if it is one.
fn ticket_of(pair: &str) -> Option<&str> {
    pair.split_once('=').filter(|(name, _)| *name == PARAMETER).map(|(_, ticket)| ticket)
}

/// A ticket that a request for an event stream has shown.
pub(super) struct ShownTicket {
    pub text: String,
    wanted: Option<EventsPath>,
}

impl ShownTicket {
    /// Takes the ticket out of a request for an event stream, so that nothing behind sees it. With an `Authorization` header
    /// there is no need of it, and it is only taken out.
    pub fn take(request: &mut Request) -> Option<Self> {
        let query = request.uri().query().filter(|query| query.contains(PARAMETER))?;
        let is_stream = matches!(*request.method(), Method::GET | Method::HEAD)
            && request
                .extensions()
                .get::<MatchedPath>()
                .is_some_and(|route| requirements::takes_tickets(route.as_str()));
        if !is_stream {
            return None;
        }
        let text = query.split('&').find_map(ticket_of)?.to_owned();
        let rest: Vec<&str> = query.split('&').filter(|pair| ticket_of(pair).is_none()).collect();
        let path = request.uri().path();
        // Where it resumes is the stream's to judge.
        let filters: Vec<&str> = rest.iter().copied().filter(|pair| !pair.starts_with("after=")).collect();
        let wanted = EventsPath::parse(&format!("{path}?{}", filters.join("&"))).ok();
        let rest = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(rest.parse::<PathAndQuery>().ok()?);
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        (!request.headers().contains_key(header::AUTHORIZATION)).then_some(Self { text, wanted })
    }

    /// Returns `true` if a ticket for `path` is one for this request.
    pub fn is_covered_by(&self, path: &str) -> bool {
        let (Ok(path), Some(wanted)) = (EventsPath::parse(path), &self.wanted) else { return false };
        path.covers(wanted)
    }
}
