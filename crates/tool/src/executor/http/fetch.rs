//! Fetching documents and web pages: one GET, bounded in size.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::client::{HttpClient, Outgoing, parse_url};
use super::fault::{Fault, authority};
use super::read::{self, BodyError, Media, check_encoding};
use super::status::status_line;
use toolpost_core::domain::json::JsonError;

/// The `Accept` header for pages: pages preferred, anything else accepted.
const PAGES: &str = "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,image/*;q=0.8,*/*;q=0.5";

/// A fetched page.
#[derive(Debug)]
pub struct Page {
    /// The final URL, after all redirects.
    pub url: Url,
    /// The status of the response, a 2xx.
    pub status: u16,
    /// The media type, in lower case and without parameters; empty if unknown.
    pub media_type: String,
    /// The charset that the server declared.
    pub charset: Option<String>,
    /// The body.
    pub bytes: Vec<u8>,
}

impl HttpClient {
    /// Fetches the JSON document at `url` through the egress guard and parses it with `parse`. Redirects are not
    /// followed.
    ///
    /// # Errors
    /// Returns a message with the reason. It contains nothing of the response body.
    pub async fn fetch_json<T>(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
        parse: impl FnOnce(&[u8]) -> Result<T, JsonError>,
    ) -> Result<T, String> {
        let url = parse_url(url)?;
        let bytes = self.fetch(&url, "application/json", max_bytes, timeout).await?;
        parse(&bytes).map_err(|_| format!("{} answered with invalid JSON", authority(&url)))
    }

    /// Fetches the text of the document at `url`, JSON or YAML, through the egress guard. Redirects are not followed.
    ///
    /// # Errors
    /// Returns a message like [`Self::fetch_json`].
    pub async fn fetch_text(&self, url: &Url, max_bytes: usize, timeout: Duration) -> Result<Vec<u8>, String> {
        self.fetch(url, "application/json, application/yaml;q=0.9, */*;q=0.5", max_bytes, timeout).await
    }

    async fn fetch(
        &self,
        url: &Url,
        accept: &'static str,
        max_bytes: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, String> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        let exchange = async {
            let mut response = self.send_once(Method::GET, url, headers, None).await.map_err(|fault| fault.message)?;
            let status = response.status();
            if !status.is_success() {
                let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
                return Err(format!("{} answered {}{hint}", authority(url), status_line(status)));
            }
            read::body(&mut response, max_bytes).await.map_err(|error| match error {
                BodyError::TooLarge => format!("{} answered with more than {max_bytes} bytes", authority(url)),
                BodyError::Incomplete => Fault::of_body(url).message,
            })
        };
        let late = |_| format!("{} did not answer within {} s", authority(url), timeout.as_secs_f64());
        tokio::time::timeout(timeout, exchange).await.map_err(late)?
    }

    /// Fetches the page at `url` through the egress guard and follows redirects. The request is not signed; only its
    /// `User-Agent` identifies the service.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the address is denied or unreachable, or if the response is not 2xx, larger than
    /// `max_bytes` bytes, or compressed.
    pub async fn page(&self, url: Url, max_bytes: usize) -> Result<Page, Fault> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(PAGES))]);
        let (method, private) = (Method::GET, HeaderMap::new());
        let mut response = self.send(Outgoing { signed_for: None, method, url, headers, private, body: None }).await?;
        let (url, status) = (response.url().clone(), response.status());
        if !status.is_success() {
            let message = format!("{} answered {} for {}", authority(&url), status_line(status), url.path());
            let retryable = status.is_server_error() || status.as_u16() == 429;
            return Err(Fault { retryable, ..Fault::terminal(message) });
        }
        check_encoding(response.headers())?;
        let Media { essence, charset } = Media::of(response.headers());
        let bytes = read::body(&mut response, max_bytes).await.map_err(|error| match error {
            BodyError::TooLarge => {
                Fault::terminal(format!("the page of {} is larger than {max_bytes} bytes", authority(&url)))
            }
            BodyError::Incomplete => Fault::of_body(&url),
        })?;
        Ok(Page { url, status: status.as_u16(), media_type: essence, charset, bytes })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::test_server::{TestServer, response};
    use super::super::tests::client;
    use super::*;
    use toolpost_core::domain::json::parse;

    async fn fetched(answer: impl Into<Vec<u8>>) -> Result<Value, String> {
        let server = TestServer::answering(answer).await;
        let fetched = client(&["127.0.0.1"]).fetch_json(&server.url("/d"), 100, Duration::from_secs(15), parse).await;
        fetched.map_err(|message| message.replace(&format!("127.0.0.1:{}", server.port), "HOST"))
    }

    #[tokio::test]
    async fn document_is_read_and_errors_have_clear_messages() {
        let head = "200 OK\r\ncontent-type: application/json";
        assert_eq!(fetched(response(head, "{\"a\":1}")).await, Ok(json!({"a": 1})));
        for (answer, message) in [
            (response("500 Oops", "secret"), "HOST answered HTTP 500 Internal Server Error"),
            (response("302 Found\r\nlocation: /x", ""), "HOST answered HTTP 302 Found; redirects are not followed"),
            (response(head, "{\"a\":"), "HOST answered with invalid JSON"),
            (response(head, "x".repeat(101)), "HOST answered with more than 100 bytes"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{".to_vec(),
                "HOST closed the connection before the response was complete",
            ),
        ] {
            assert_eq!(fetched(answer).await, Err(message.to_owned()));
        }
    }

    #[tokio::test]
    async fn silent_server_times_out_and_a_denied_address_is_not_contacted() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let url = format!("http://{host}/");
        let late = client(&["127.0.0.1"]).fetch_json(&url, 100, Duration::from_millis(50), parse).await;
        assert_eq!(late, Err(format!("{host} did not answer within 0.05 s")));
        let denied = client(&[]).fetch_json(&url, 100, Duration::from_secs(15), parse).await.unwrap_err();
        assert!(denied.contains("is not allowed (loopback address"), "{denied}");
    }

    async fn get(url: &str, allow: &[&str]) -> Result<Page, Fault> {
        client(allow).page(Url::parse(url).unwrap(), 100).await
    }

    #[tokio::test]
    async fn page_is_fetched_after_redirects_without_a_signature() {
        let mut server = TestServer::start(|request| match request.target.as_str() {
            "/a" => response("302 Found\r\nlocation: /b?c=d", ""),
            _ => response("200 OK\r\ncontent-type: Text/HTML; charset=latin1", "caf\u{e9}"),
        })
        .await;
        let page = get(&server.url("/a"), &["127.0.0.1"]).await.unwrap();
        assert_eq!((page.url.as_str(), page.status), (server.url("/b?c=d").as_str(), 200));
        assert_eq!((page.media_type.as_str(), page.charset.as_deref()), ("text/html", Some("latin1")));
        assert_eq!(page.bytes, "caf\u{e9}".as_bytes());
        for _ in 0..2 {
            let request = server.received.recv().await.unwrap();
            assert_eq!(request.method, "GET");
            assert!(request.header("webhook-signature").is_none() && request.header("accept").is_some());
        }
    }

    #[tokio::test]
    async fn page_errors_have_clear_messages() {
        for (answer, message, retryable) in [
            (response("404 Not Found", "x"), "HOST answered HTTP 404 Not Found for /p", false),
            (response("503 Busy", "x"), "HOST answered HTTP 503 Service Unavailable for /p", true),
            (response("200 OK", "x".repeat(101)), "the page of HOST is larger than 100 bytes", false),
            (
                response("200 OK\r\ncontent-encoding: gzip", "x"),
                "the response is compressed (gzip), although only uncompressed responses were requested",
                false,
            ),
        ] {
            let server = TestServer::answering(answer).await;
            let no = get(&server.url("/p"), &["127.0.0.1"]).await.unwrap_err();
            let message_seen = no.message.replace(&format!("127.0.0.1:{}", server.port), "HOST");
            assert_eq!((message_seen.as_str(), no.retryable), (message, retryable));
        }
    }

    #[tokio::test]
    async fn guard_checks_the_first_address_and_each_redirect() {
        let mut server = TestServer::answering(response("302 Found\r\nlocation: http://127.0.0.2:1/", "")).await;
        assert!(get(&server.url("/"), &[]).await.unwrap_err().message.contains("is not allowed (loopback address"));
        assert!(server.received.try_recv().is_err());
        let no = get(&server.url("/"), &["127.0.0.1"]).await.unwrap_err().message;
        assert!(no.contains("a redirect was not followed") && no.contains("127.0.0.2"), "{no}");
    }
}
