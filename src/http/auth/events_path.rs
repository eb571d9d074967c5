//! The paths of event streams.

use percent_encoding::percent_decode_str;
use url::form_urlencoded;
use uuid::Uuid;

/// Longest path, in bytes.
const LONGEST: usize = 2048;

/// An event stream, with what it is filtered by. Where it resumes is no part of it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) enum EventsPath {
    /// Of all calls.
    All { name: Option<String>, session: Option<String> },
    /// Of one call.
    Call(Uuid),
    /// Of one session.
    Session(String),
}

impl EventsPath {
    /// Parses a path with its query.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("must have at most {LONGEST} bytes"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err("must be written as in a URL, with anything but ASCII percent-encoded".to_owned());
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let segments: Vec<&str> = path.split('/').collect();
        let of_all = matches!(segments[..], ["", "events"]);
        let [name, session] = parameters(query, of_all)?;
        match segments[..] {
            ["", "events"] => Ok(Self::All { name, session }),
            ["", "tool-calls", id, "events"] => {
                id.parse().map(Self::Call).map_err(|_| format!("must have the id of a call, not \"{}\"", short(id)))
            }
            ["", "sessions", id, "events"] if !id.is_empty() => match percent_decode_str(id).decode_utf8() {
                Ok(id) => Ok(Self::Session(id.into_owned())),
                Err(_) => Err("must have the id of a session in UTF-8".to_owned()),
            },
            _ => {
                Err("must be the path of an event stream: /events, /tool-calls/{id}/events or /sessions/{id}/events, \
                      without the prefix of a gateway"
                    .to_owned())
            }
        }
    }

    /// Returns `true` if whoever may read this stream may read the other one: it is the same, or filtered more.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All { name, session }, Self::All { name: other_name, session: other_session }) => {
                (name.is_none() || name == other_name) && (session.is_none() || session == other_session)
            }
            (one, other) => one == other,
        }
    }
}

/// The filters of a query: `name` and `session`.
fn parameters(query: &str, of_all: bool) -> Result<[Option<String>; 2], String> {
    let [mut name, mut session] = [None, None];
    for (parameter, value) in form_urlencoded::parse(query.as_bytes()) {
        let filter = match &*parameter {
            "after" => continue,
            "name" if of_all => &mut name,
            "session" if of_all => &mut session,
            other => {
                return Err(format!("has the query parameter \"{}\", which the stream does not take", short(other)));
            }
        };
        // The stream itself refuses a parameter that comes twice.
        *filter = Some(value.into_owned());
    }
    Ok([name, session])
}

fn short(text: &str) -> String {
    crate::domain::json::shorten(text, 64).to_string()
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
            "/sessions/%ff/events",
            "/sessions/a/events?name=b",
            "/sessions/ä/events",
            "/events?name=a b",
        ] {
            assert!(EventsPath::parse(bad).is_err(), "{bad}");
        }
        assert!(EventsPath::parse(&format!("/sessions/{}/events", "a".repeat(LONGEST))).is_err());
    }

    #[test]
    fn stream_covers_itself_and_what_is_filtered_more() {
        let covers = |one: &str, other: &str| parsed(one).covers(&parsed(other));
        assert!(covers("/events", "/events?name=echo&after=1") && covers("/events?name=a", "/events?session=s&name=a"));
        assert!(!covers("/events?name=a", "/events") && !covers("/events?name=a", "/events?name=b"));
        assert!(!covers("/events?session=s", "/events?session=t") && !covers("/events", "/sessions/s/events"));
        assert!(covers("/sessions/a/events", "/sessions/%61/events?after=3"));
        assert!(!covers("/sessions/a/events", "/sessions/b/events"));
    }
}
