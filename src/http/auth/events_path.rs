//! The paths of event streams, and the tickets in their query strings.

use axum::extract::{MatchedPath, Request};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{Method, header};
use percent_encoding::percent_decode_str;
use url::form_urlencoded;
use uuid::Uuid;

use super::requirements;
use crate::http::extract::is_event_id;

/// Maximum length of a path, in bytes.
const MAX_BYTES: usize = 2048;

/// An event stream with its filters. The position from which it resumes is not included.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) enum EventsPath {
    /// The events of all calls.
    All { name: Option<String>, session: Option<String> },
    /// The events of one call.
    Call(Uuid),
    /// The events of one session.
    Session(String),
}

impl EventsPath {
    /// Parses a path with its query.
    ///
    /// # Errors
    /// Returns a message that names the fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("must have at most {MAX_BYTES} bytes"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err("must be URL-encoded, with all non-ASCII characters percent-encoded".to_owned());
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let segments: Vec<&str> = path.split('/').collect();
        let of_all = matches!(segments[..], ["", "events"]);
        let [name, session] = parameters(query, of_all)?;
        match segments[..] {
            ["", "events"] => Ok(Self::All { name, session }),
            ["", "tool-calls", id, "events"] => {
                id.parse().map(Self::Call).map_err(|_| format!("must contain the id of a call, not \"{}\"", short(id)))
            }
            ["", "sessions", id, "events"] if is_segment(id) => {
                Ok(Self::Session(percent_decode_str(id).decode_utf8_lossy().into_owned()))
            }
            _ => {
                Err("must be the path of an event stream: /events, /tool-calls/{id}/events or /sessions/{id}/events, \
                      without the prefix of a gateway"
                    .to_owned())
            }
        }
    }

    /// Returns `true` if `other` is the same stream, or the same stream with more filters.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All { name, session }, Self::All { name: other_name, session: other_session }) => {
                (name.is_none() || name == other_name) && (session.is_none() || session == other_session)
            }
            (one, other) => one == other,
        }
    }
}

/// Returns the filters of a query: `name` and `session`.
fn parameters(query: &str, of_all: bool) -> Result<[Option<String>; 2], String> {
    let [mut name, mut session] = [None, None];
    for (parameter, value) in form_urlencoded::parse(query.as_bytes()) {
        let filter = match &*parameter {
            "after" if is_event_id(&value) => continue,
            "after" => return Err("has an invalid event id in `after`".to_owned()),
            "name" if of_all => &mut name,
            "session" if of_all => &mut session,
            other => {
                return Err(format!("has the query parameter \"{}\", which the stream does not support", short(other)));
            }
        };
        // The stream rejects repeated parameters.
        *filter = Some(value.into_owned());
    }
    Ok([name, session])
}

/// Returns `true` for a non-empty path segment (RFC 3986, section 3.3).
fn is_segment(text: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let is_good = |(at, byte): (usize, &u8)| match byte {
        b'%' => is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2)),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(byte),
    };
    !text.is_empty() && bytes.iter().enumerate().all(is_good)
}

fn short(text: &str) -> String {
    crate::domain::json::shorten(text, 64).to_string()
}

/// The query parameter of the ticket.
const PARAMETER: &str = "ticket";

/// Returns the ticket of a `name=value` pair, if it has one.
fn ticket_of(pair: &str) -> Option<&str> {
    pair.split_once('=').filter(|(name, _)| *name == PARAMETER).map(|(_, ticket)| ticket)
}

/// A ticket from a request for an event stream.
pub(super) struct ShownTicket {
    pub text: String,
    wanted: Option<EventsPath>,
}

impl ShownTicket {
    /// Removes the ticket from a request for an event stream, so that later layers do not see it. Returns `None`
    /// if the request has an `Authorization` header, which takes precedence.
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
        // The stream checks the position itself.
        let filters: Vec<&str> = rest.iter().copied().filter(|pair| !pair.starts_with("after=")).collect();
        let wanted = EventsPath::parse(&format!("{path}?{}", filters.join("&"))).ok();
        let rest = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(rest.parse::<PathAndQuery>().ok()?);
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        (!request.headers().contains_key(header::AUTHORIZATION)).then_some(Self { text, wanted })
    }

    /// Returns `true` if a ticket for `path` allows this request.
    pub fn is_covered_by(&self, path: &str) -> bool {
        let (Ok(path), Some(wanted)) = (EventsPath::parse(path), &self.wanted) else { return false };
        path.covers(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> EventsPath {
        EventsPath::parse(text).unwrap()
    }

    #[test]
    fn only_paths_of_event_streams_are_parsed() {
        let all = |name: Option<&str>, session: Option<&str>| EventsPath::All {
            name: name.map(str::to_owned),
            session: session.map(str::to_owned),
        };
        assert_eq!(parsed("/events?after=7"), all(None, None));
        assert_eq!(parsed("/events?session=a%20b&name=echo"), all(Some("echo"), Some("a b")));
        assert_eq!(parsed("/sessions/a%2Fb+c/events"), EventsPath::Session("a/b+c".to_owned()));
        let id = "0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f";
        assert_eq!(parsed(&format!("/tool-calls/{id}/events")), EventsPath::Call(id.parse().unwrap()));
        for bad in [
            "",
            "events",
            "/",
            "/events/",
            "//events",
            "/gateway/events",
            "https://example.com/events",
            "/events#a",
            "/events?ticket=x",
            "/tool-calls",
            "/tool-calls/x/events",
            "/sessions//events",
            "/sessions/%f/events",
            "/sessions/a\"b/events",
            "/events?after=1x",
            "/sessions/a/events?name=b",
            "/sessions/ä/events",
            "/events?name=a b",
        ] {
            assert!(EventsPath::parse(bad).is_err(), "{bad}");
        }
        assert!(EventsPath::parse(&format!("/sessions/{}/events", "a".repeat(MAX_BYTES))).is_err());
    }

    #[test]
    fn stream_covers_itself_and_narrower_streams() {
        let covers = |one: &str, other: &str| parsed(one).covers(&parsed(other));
        assert!(covers("/events", "/events?name=echo&after=1") && covers("/events?name=a", "/events?session=s&name=a"));
        assert!(!covers("/events?name=a", "/events") && !covers("/events?name=a", "/events?name=b"));
        assert!(!covers("/events?session=s", "/events?session=t") && !covers("/events", "/sessions/s/events"));
        assert!(covers("/sessions/a/events", "/sessions/%61/events?after=3"));
        assert!(!covers("/sessions/a/events", "/sessions/b/events"));
    }
}
