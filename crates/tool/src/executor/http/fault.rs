//! Failed exchanges: the message for a model, and whether a retry is safe and useful.

use std::error::Error;
use std::io;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use super::egress::EgressDenied;
use toolpost_core::domain::Failure;

/// Timeout for establishing a connection, including TLS. The timeout of the call bounds the whole run.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A failed exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Message for the model, without internals of the service.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Wait before a retry, in milliseconds, if the server specified it.
    pub retry_after_ms: Option<u64>,
    /// Whether a part of a request may have reached a server. `false` proves that nothing was sent.
    pub sent: bool,
    /// Details for people.
    pub details: Map<String, Value>,
}

impl Fault {
    /// Creates a fault of a sent request that a retry cannot fix.
    #[must_use]
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, retry_after_ms: None, sent: true, details: Map::new() }
    }

    /// Creates a fault of a request that was never sent and that a retry cannot fix.
    #[must_use]
    pub fn unsent(message: impl Into<String>) -> Self {
        Self { sent: false, ..Self::terminal(message) }
    }

    /// Converts an error of reqwest from sending a request to `url`.
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
            return Self::unsent(format!("the request to {host} is not a valid HTTP request"));
        }
        match find::<hyper::Error>(error) {
            Some(error) if error.is_parse_too_large() => {
                Self::terminal(format!("{host} answered with headers that are too large"))
            }
            Some(error) if error.is_parse() => Self::terminal(format!("{host} answered with invalid HTTP")),
            Some(error) if error.is_incomplete_message() || error.is_canceled() => Self::closed(&host),
            _ => match find::<io::Error>(error).map(io::Error::kind) {
                Some(
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof,
                ) => Self::closed(&host),
                _ => Self::terminal(format!("the request to {host} failed before a response was received")),
            },
        }
    }

    /// Creates a fault for a connection closed after the request was sent. The server may have processed the request;
    /// the retry policy decides.
    fn closed(host: &str) -> Self {
        Self { retryable: true, ..Self::terminal(format!("{host} closed the connection without a response")) }
    }

    /// Creates a fault for an error while reading the body of a response from `url`.
    #[must_use]
    pub fn of_body(url: &Url) -> Self {
        Self::terminal(format!("{} closed the connection before the response was complete", authority(url)))
    }

    /// Converts the fault to the failure of a call of the tool `name`. `details.request_sent` gives people the same
    /// information as `never_left` gives to the retry policy.
    #[must_use]
    pub fn into_failure(self, name: &str) -> Failure {
        let Self { message, retryable, retry_after_ms, sent, mut details } = self;
        details.insert("request_sent".to_owned(), sent.into());
        let failure = Failure::execution(name, message).with_details(Value::Object(details));
        let failure = if sent { failure } else { failure.never_left() };
        if retryable { failure.retryable(retry_after_ms) } else { failure }
    }
}

/// Returns host and port of a URL; the port only if it is not the default of the scheme.
#[must_use]
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the message, and whether a retry can help. It cannot if the certificate is invalid.
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
            format!("{host} closed the connection during setup")
        }
        _ if error.is_timeout() => {
            format!("{host} did not accept a connection within {} s", CONNECT_TIMEOUT.as_secs())
        }
        _ => format!("cannot connect to {host}"),
    };
    (message, true)
}

/// Finds the first error of type `T` in an error and its causes. The source of an [`io::Error`] skips the error that it
/// wraps, so the wrapped error is visited explicitly.
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
    fn cause_is_found_inside_an_io_error() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert!(find::<rustls::Error>(&wrapped).is_some());
        assert!(find::<EgressDenied>(&wrapped).is_none());
    }

    #[test]
    fn failure_states_whether_the_request_was_sent() {
        let fault = Fault { retryable: true, retry_after_ms: Some(5), ..Fault::unsent("m") };
        let failure = fault.into_failure("t");
        assert_eq!(failure.text, "Error executing tool \"t\": m");
        assert_eq!((failure.retryable, failure.retry_after_ms, failure.not_sent), (true, Some(5), true));
        assert_eq!(failure.details, Some(serde_json::json!({"request_sent": false})));
        assert!(!Fault::terminal("m").into_failure("t").not_sent);
    }
}
