//! Why an exchange failed, in words for a model, and whether it is safe and sensible to make it again.

use std::error::Error;
use std::io;

use serde_json::{Map, Value};
use url::Url;

use super::egress::EgressDenied;
use super::limits::CONNECT_TIMEOUT;
use crate::domain::Failure;

/// A failed exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// One sentence for the model; nothing of the inside of the service.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When to try again, in milliseconds, if the server said so.
    pub retry_after_ms: Option<u64>,
    /// Whether any byte of a request may have reached a server. `false` is a proof that none has.
    pub sent: bool,
    /// Facts for people.
    pub details: Map<String, Value>,
}

impl Fault {
    /// A fault that no repetition mends, of a request that was sent.
    #[must_use]
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, retry_after_ms: None, sent: true, details: Map::new() }
    }

    /// The same of a request that was never sent.
    #[must_use]
    pub fn unsent(message: impl Into<String>) -> Self {
        Self { sent: false, ..Self::terminal(message) }
    }

    /// From reqwest's error while a request to `url` was made.
    #[must_use]
    pub fn of_request(error: &reqwest::Error, url: &Url) -> Self {
        let host = authority(url);
        if let Some(denied) = find::<EgressDenied>(error) {
            return Self::unsent(denied.to_string());
        }
        if error.is_connect() || error.is_dns() {
            let (message, retryable) = connect_fault(error, &host);
            return Self { retryable, ..Self::unsent(message) };
        }
        if error.is_builder() {
            return Self::unsent(format!("the request to {host} is not one that HTTP can carry"));
        }
        match find::<hyper::Error>(error) {
            Some(error) if error.is_parse_too_large() => {
                Self::terminal(format!("{host} answered with headers that are too large"))
            }
            Some(error) if error.is_parse() => {
                Self::terminal(format!("{host} answered with something that is not HTTP"))
            }
            Some(error) if error.is_incomplete_message() || error.is_canceled() => Self::closed(&host),
            _ => match find::<io::Error>(error).map(io::Error::kind) {
                Some(
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof,
                ) => Self::closed(&host),
                _ => Self::terminal(format!("the request to {host} failed before an answer came")),
            },
        }
    }

    /// A connection that was closed after the request: it may have done its work, which only a retry policy can weigh.
    fn closed(host: &str) -> Self {
        Self { retryable: true, ..Self::terminal(format!("{host} closed the connection without an answer")) }
    }

    /// From reqwest's error while the body of an answer from `url` was read.
    #[must_use]
    pub fn of_body(url: &Url) -> Self {
        Self::terminal(format!("{} closed the connection before its answer was complete", authority(url)))
    }

    /// The failure of a call of the tool `name`. `details.request_sent` tells people what `never_left` tells a retry
    /// policy.
    #[must_use]
    pub fn into_failure(self, name: &str) -> Failure {
        let Self { message, retryable, retry_after_ms, sent, mut details } = self;
        details.insert("request_sent".to_owned(), sent.into());
        let failure = Failure::execution(name, message).with_details(Value::Object(details));
        let failure = if sent { failure } else { failure.never_left() };
        if retryable { failure.retryable(retry_after_ms) } else { failure }
    }
}

/// Host and port as in the URL; the port only where it is not the scheme's own.
#[must_use]
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The sentence, and whether trying again can help: it cannot against a certificate that is not valid.
fn connect_fault(error: &reqwest::Error, host: &str) -> (String, bool) {
    if let Some(tls) = find::<rustls::Error>(error) {
        let lasting = matches!(tls, rustls::Error::InvalidCertificate(_));
        return (format!("TLS with {host} failed: {tls}"), !lasting);
    }
    if error.is_dns() {
        return (format!("the host name of {host} cannot be resolved"), true);
    }
    let message = match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => format!("{host} refused the connection"),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => format!("{host} cannot be reached"),
        Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            format!("{host} closed the connection while it was being set up")
        }
        _ if error.is_timeout() => {
            format!("{host} did not accept a connection within {} s", CONNECT_TIMEOUT.as_secs())
        }
        _ => format!("no connection to {host} could be made"),
    };
    (message, true)
}

/// The first error of type `T` among an error and its causes. An [`io::Error`] hides the error that it wraps from
/// `source`, so that one is asked for it.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_found_inside_an_io_error() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert!(find::<rustls::Error>(&wrapped).is_some());
        assert!(find::<EgressDenied>(&wrapped).is_none());
    }

    #[test]
    fn a_failure_tells_whether_the_request_was_sent() {
        let fault = Fault { retryable: true, retry_after_ms: Some(5), ..Fault::unsent("m") };
        let failure = fault.into_failure("t");
        assert_eq!(failure.text, "Error executing tool \"t\": m");
        assert_eq!((failure.retryable, failure.retry_after_ms, failure.not_sent), (true, Some(5), true));
        assert_eq!(failure.details, Some(serde_json::json!({"request_sent": false})));
        assert!(!Fault::terminal("m").into_failure("t").not_sent);
    }
}
