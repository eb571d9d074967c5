//! Messages to webhooks: one POST (Standard Webhooks) without redirects.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode};

use super::client::{HttpClient, parse_url};
use super::fault::authority;
use super::read::{self, BodyError};
use super::status::status_line;
use crate::executor::signing_key::SigningKey;
use toolpost_core::domain::Time;

/// Maximum size of a response that is used, in bytes.
const MAX_WEBHOOK_ANSWER: usize = 1024 * 1024;
/// Maximum size (in bytes) and time for reading a response that is not used, so that its connection can be reused.
const READ_BYTES: usize = 64 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);

/// Creates the headers of a message (Standard Webhooks).
#[must_use]
pub fn webhook_headers(key: &SigningKey, id: &str, now: Time, body: &[u8]) -> HeaderMap {
    let mut headers = key.headers(id, now, body);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// A 2xx response of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// A response with this body.
    Body(Vec<u8>),
    /// A response with an unusable body, and the reason.
    Unreadable(String),
}

/// The outcome of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOutcome {
    /// The status of the response; `None` if no response was received.
    pub status: Option<u16>,
    /// The reason for a failed delivery; `None` after a 2xx. It contains nothing of the response body, because the
    /// person who chose the URL may not be allowed to read what is behind it.
    pub fault: Option<String>,
}

impl HttpClient {
    /// Posts `body` to `url` through the egress guard and reads a 2xx response. The caller enforces the timeout;
    /// dropping the future closes the connection.
    ///
    /// # Errors
    /// Returns a message with the reason if no 2xx response was received. It contains nothing of the body.
    pub async fn ask(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<WebhookAnswer, String> {
        let url = parse_url(url)?;
        let sent = self.send_once(Method::POST, &url, headers, Some(body)).await;
        let mut response = sent.map_err(|fault| fault.message)?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("HTTP {}{}", status.as_u16(), redirect_hint(status)));
        }
        // The service requests no encoding and decodes none, so a small response cannot expand to a huge one.
        if response.headers().get(header::CONTENT_ENCODING).is_some_and(|value| value != "identity") {
            let reason = "its response is compressed, although only uncompressed responses are supported";
            return Ok(WebhookAnswer::Unreadable(reason.to_owned()));
        }
        Ok(match read::body(&mut response, MAX_WEBHOOK_ANSWER).await {
            Ok(body) => WebhookAnswer::Body(body),
            Err(BodyError::TooLarge) => {
                WebhookAnswer::Unreadable(format!("its response is larger than {MAX_WEBHOOK_ANSWER} bytes"))
            }
            Err(BodyError::Incomplete) => WebhookAnswer::Unreadable("its response was incomplete".to_owned()),
        })
    }

    /// Posts `body` to `url` through the egress guard. A 2xx response within `timeout` means success; only its status
    /// counts.
    pub async fn deliver(&self, url: &str, headers: HeaderMap, body: Bytes, timeout: Duration) -> DeliveryOutcome {
        let sent = async {
            let url = parse_url(url)?;
            let sent = tokio::time::timeout(timeout, self.send_once(Method::POST, &url, headers, Some(body))).await;
            let late = |_| format!("{} did not answer within {} s", authority(&url), timeout.as_secs_f64());
            sent.map_err(late)?.map_err(|fault| fault.message)
        };
        match sent.await {
            Err(fault) => DeliveryOutcome { status: None, fault: Some(fault) },
            Ok(response) => {
                let status = response.status();
                finish(response).await;
                let fault = || format!("{}{}", status_line(status), redirect_hint(status));
                DeliveryOutcome { status: Some(status.as_u16()), fault: (!status.is_success()).then(fault) }
            }
        }
    }
}

fn redirect_hint(status: StatusCode) -> &'static str {
    if status.is_redirection() { ": redirects are not followed" } else { "" }
}

/// Reads a short response completely. A long or slow response is dropped with its connection.
async fn finish(response: Response) {
    if response.content_length().is_none_or(|length| length <= READ_BYTES as u64) {
        let _ = tokio::time::timeout(READ_TIME, read::beginning(response, READ_BYTES)).await;
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{CONTENT_TYPE, HeaderValue};

    use super::super::test_server::{TestServer, response};
    use super::super::tests::client;
    use super::*;

    const LONG: Duration = Duration::from_secs(15);

    async fn deliver(url: &str, allow: &[&str], timeout: Duration) -> DeliveryOutcome {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        client(allow).deliver(url, headers, Bytes::from_static("{\"a\":\"é\"}".as_bytes()), timeout).await
    }

    async fn answered(head: &str, body: &[u8]) -> DeliveryOutcome {
        let server = TestServer::answering(response(head, body)).await;
        deliver(&server.url("/x"), &["127.0.0.1"], LONG).await
    }

    #[tokio::test]
    async fn message_is_posted_unchanged() {
        let mut server = TestServer::answering(response("204 No Content", "")).await;
        let delivered = deliver(&server.url("/a?b=c"), &["127.0.0.1"], LONG).await;
        assert_eq!(delivered, DeliveryOutcome { status: Some(204), fault: None });
        let request = server.received.recv().await.unwrap();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/a?b=c"));
        assert_eq!(request.body, "{\"a\":\"é\"}".as_bytes());
        assert_eq!(request.header("content-type"), Some(b"application/json".as_slice()));
    }

    #[tokio::test]
    async fn only_2xx_is_delivered_and_no_redirect_is_followed() {
        let to = "302 Found\r\nlocation: http://127.0.0.1:1/";
        for (head, status, fault) in [
            ("200 OK", 200, None),
            ("299 Fine", 299, None),
            (to, 302, Some("HTTP 302 Found: redirects are not followed")),
            ("304 Not Modified", 304, Some("HTTP 304 Not Modified: redirects are not followed")),
            ("410 Gone", 410, Some("HTTP 410 Gone")),
            ("500 Oops", 500, Some("HTTP 500 Internal Server Error")),
        ] {
            let expected = DeliveryOutcome { status: Some(status), fault: fault.map(str::to_owned) };
            assert_eq!(answered(head, b"secret").await, expected, "{head}");
        }
    }

    #[tokio::test]
    async fn large_endless_or_broken_body_is_ignored() {
        assert_eq!(answered("200 OK", &vec![b'x'; 1024 * 1024]).await.fault, None);
        for tail in ["transfer-encoding: chunked\r\n\r\nnonsense", "content-length: 100\r\n\r\ntoo short"] {
            let server = TestServer::answering(format!("HTTP/1.1 200 OK\r\n{tail}")).await;
            assert_eq!(deliver(&server.url("/"), &["127.0.0.1"], LONG).await.fault, None, "{tail}");
        }
    }

    #[tokio::test]
    async fn silent_server_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let delivered = deliver(&format!("http://{host}/"), &["127.0.0.1"], Duration::from_millis(50)).await;
        let fault = Some(format!("{host} did not answer within 0.05 s"));
        assert_eq!(delivered, DeliveryOutcome { status: None, fault });
    }

    #[tokio::test]
    async fn denied_addresses_are_reported_and_never_connected_to() {
        let mut server = TestServer::answering(response("200 OK", "")).await;
        for host in ["127.0.0.1", "localhost", "0x7f.1"] {
            let fault = deliver(&format!("http://{host}:{}/", server.port), &[], LONG).await.fault.unwrap();
            assert!(fault.contains("is not allowed (loopback address"), "{fault}");
        }
        assert!(server.received.try_recv().is_err());
    }
}
