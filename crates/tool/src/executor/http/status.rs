//! Responses other than 2xx: their error message, and whether a retry can help.

use reqwest::header::{self, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::fault::Fault;
use super::read;
use crate::executor::Redaction;
use toolpost_core::domain::{Time, json};

/// Maximum number of bytes read from an error body.
pub const READ_BYTES: usize = 64 * 1024;

/// Maximum lengths of the quoted body in the message for the model and in the details for people, in characters.
const MESSAGE_CHARS: usize = 500;
const DETAIL_CHARS: usize = 4000;

/// Converts a response other than 2xx to a fault. 429 and 5xx are retryable, after the wait that the server specifies.
/// `hidden` are the secrets that were sent, which are removed from the quoted body, as are the secrets of `redaction`.
pub async fn fault(response: Response, now: Time, hidden: &[String], redaction: Option<&Redaction>) -> Fault {
    let status = response.status();
    let retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after_ms = retry_after.filter(|_| retryable).and_then(|text| wait_ms(text, now));
    let mut body = Redaction::apply(redaction, read::beginning(response, READ_BYTES).await);
    for secret in hidden {
        body = body.replace(secret, "[redacted]");
    }
    let mut fault = Fault { retryable, retry_after_ms, ..Fault::terminal(message(status, &body)) };
    fault.details.insert("status".to_owned(), status.as_u16().into());
    fault.details.insert("body".to_owned(), json::shorten(&body, DETAIL_CHARS).into());
    fault
}

/// Returns `HTTP 404 Not Found`.
pub fn status_line(status: StatusCode) -> String {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    format!("HTTP {}{reason}", status.as_u16())
}

/// Builds the message `HTTP 404 Not Found: …` with the text of [`error_message`].
fn message(status: StatusCode, body: &str) -> String {
    let text = error_message(body);
    let separator = if text.is_empty() { "" } else { ": " };
    format!("{}{separator}{text}", status_line(status))
}

/// Extracts the error message from a body: the detail of a problem (RFC 9457), a usual message member of JSON APIs, or
/// the beginning of the body.
pub fn error_message(body: &str) -> String {
    let message_member = json::parse(body.as_bytes()).ok().and_then(|value| message_member(&value));
    json::shorten(message_member.as_deref().unwrap_or(body).trim(), MESSAGE_CHARS)
}

fn message_member(body: &Value) -> Option<String> {
    [
        "/detail",
        "/error/message",
        "/error_description",
        "/message",
        "/error",
        "/errors/0/message",
        "/errors/0",
        "/title",
    ]
    .iter()
    .filter_map(|pointer| body.pointer(pointer).and_then(Value::as_str))
    .find(|text| !text.trim().is_empty())
    .map(str::to_owned)
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3) to milliseconds. A date in the past yields 0.
fn wait_ms(text: &str, now: Time) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Time(at.as_microsecond()).millis_since(now))
}

/// Returns the part of an `Authorization` value after the scheme, unless it is so short that it may be an ordinary word.
pub fn secret_part(value: &HeaderValue) -> Option<String> {
    let (_, secret) = value.to_str().ok()?.split_once(' ')?;
    (secret.len() >= 6).then(|| secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_that_of_the_server() {
        for (body, text) in [
            ("", "HTTP 404 Not Found"),
            ("  no such thing\n", "HTTP 404 Not Found: no such thing"),
            (r#"{"title":"t","detail":"d"}"#, "HTTP 404 Not Found: d"),
            (r#"{"error":{"message":"em"}}"#, "HTTP 404 Not Found: em"),
            (r#"{"error":"e"}"#, "HTTP 404 Not Found: e"),
            (r#"{"message":"m"}"#, "HTTP 404 Not Found: m"),
            (r#"{"code":1}"#, "HTTP 404 Not Found: {\"code\":1}"),
        ] {
            assert_eq!(message(StatusCode::NOT_FOUND, body), text);
        }
        let long = message(StatusCode::from_u16(599).unwrap(), &"é".repeat(600));
        assert_eq!(long, format!("HTTP 599: {}…", "é".repeat(500)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Time::parse("1994-11-06T08:49:07Z").unwrap();
        assert_eq!(wait_ms(" 120 ", now), Some(120_000));
        assert_eq!(wait_ms("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(30_000));
        assert_eq!(wait_ms("Sun, 06 Nov 1994 08:49:00 GMT", now), Some(0));
        assert_eq!(wait_ms("soon", now), None);
    }
}
