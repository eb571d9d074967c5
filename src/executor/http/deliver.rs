//! Delivery of a message: one POST without redirects. Only the status of the response counts.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Request, Response, StatusCode};
use url::Url;

use super::client::HttpClient;
use super::fault::{Fault, authority};
use super::read;

/// Maximum size (in bytes) and time for reading a response, so that its connection can be reused.
const READ_BYTES: usize = 64 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);

/// The outcome of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The status of the response; `None` if no response was received.
    pub status: Option<u16>,
    /// The reason for a failed delivery; `None` after a 2xx. It contains nothing of the response body, because the
    /// person who chose the URL may not be allowed to read what is behind it.
    pub fault: Option<String>,
}

impl HttpClient {
    /// Posts `body` to `url` through the egress guard. A 2xx response within `timeout` means success.
    pub async fn deliver(&self, url: &str, headers: HeaderMap, body: Bytes, timeout: Duration) -> Delivered {
        let failed = |fault| Delivered { status: None, fault: Some(fault) };
        let url = match Url::parse(url) {
            Ok(url) => url,
            Err(error) => return failed(format!("the URL is invalid: {error}")),
        };
        if let Err(denied) = self.egress.check_url(&url) {
            return failed(denied.to_string());
        }
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        match tokio::time::timeout(timeout, self.inner.execute(request)).await {
            Err(_) => failed(format!("{} did not answer within {} s", authority(&url), timeout.as_secs_f64())),
            Ok(Err(error)) => failed(Fault::of_request(&error, &url).message),
            Ok(Ok(response)) => {
                let status = response.status();
                finish(response).await;
                Delivered { status: Some(status.as_u16()), fault: fault_of(status) }
            }
        }
    }
}

fn fault_of(status: StatusCode) -> Option<String> {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let hint = if status.is_redirection() { ": redirects are not followed" } else { "" };
    (!status.is_success()).then(|| format!("HTTP {}{reason}{hint}", status.as_u16()))
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

    async fn deliver(url: &str, allow: &[&str], timeout: Duration) -> Delivered {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        client(allow).deliver(url, headers, Bytes::from_static("{\"a\":\"é\"}".as_bytes()), timeout).await
    }

    async fn answered(head: &str, body: &[u8]) -> Delivered {
        let server = TestServer::answering(response(head, body)).await;
        deliver(&server.url("/x"), &["127.0.0.1"], LONG).await
    }

    #[tokio::test]
    async fn a_message_is_posted_as_it_is() {
        let mut server = TestServer::answering(response("204 No Content", "")).await;
        let delivered = deliver(&server.url("/a?b=c"), &["127.0.0.1"], LONG).await;
        assert_eq!(delivered, Delivered { status: Some(204), fault: None });
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
            let expected = Delivered { status: Some(status), fault: fault.map(str::to_owned) };
            assert_eq!(answered(head, b"secret").await, expected, "{head}");
        }
    }

    #[tokio::test]
    async fn a_large_endless_or_broken_body_does_not_matter() {
        assert_eq!(answered("200 OK", &vec![b'x'; 1024 * 1024]).await.fault, None);
        for tail in ["transfer-encoding: chunked\r\n\r\nnonsense", "content-length: 100\r\n\r\ntoo short"] {
            let server = TestServer::answering(format!("HTTP/1.1 200 OK\r\n{tail}")).await;
            assert_eq!(deliver(&server.url("/"), &["127.0.0.1"], LONG).await.fault, None, "{tail}");
        }
    }

    #[tokio::test]
    async fn a_silent_server_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let delivered = deliver(&format!("http://{host}/"), &["127.0.0.1"], Duration::from_millis(50)).await;
        let fault = Some(format!("{host} did not answer within 0.05 s"));
        assert_eq!(delivered, Delivered { status: None, fault });
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
