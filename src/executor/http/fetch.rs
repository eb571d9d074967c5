//! Fetching a document: one GET without redirects, bounded in time and size.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Method, Request, Response};
use serde_json::Value;
use url::Url;

use super::client::HttpClient;
use super::fault::{Fault, authority};
use crate::domain::json::{self, JsonError};

impl HttpClient {
    /// Fetches the JSON document at `url` through the egress guard.
    ///
    /// # Errors
    /// Returns a message with the reason. It contains nothing of the response body.
    pub async fn fetch_json(&self, url: &str, max_bytes: usize, timeout: Duration) -> Result<Value, String> {
        self.fetch_parsed(url, max_bytes, timeout, json::parse).await
    }

    /// Fetches the JSON document at `url` through the egress guard and parses it with `parse`.
    ///
    /// # Errors
    /// Returns a message like [`Self::fetch_json`].
    pub async fn fetch_parsed<T>(
        &self,
        url: &str,
        max_bytes: usize,
        timeout: Duration,
        parse: impl FnOnce(&[u8]) -> Result<T, JsonError>,
    ) -> Result<T, String> {
        let url = Url::parse(url).map_err(|error| format!("the URL is invalid: {error}"))?;
        let bytes = self.fetch(&url, "application/json", max_bytes, timeout).await?;
        parse(&bytes).map_err(|_| format!("{} answered with invalid JSON", authority(&url)))
    }

    /// Fetches the text of the document at `url`, JSON or YAML, through the egress guard.
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
        self.egress.check_url(url).map_err(|denied| denied.to_string())?;
        let mut request = Request::new(Method::GET, url.clone());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let whole = async {
            let answer = self.inner.execute(request).await;
            let response = answer.map_err(|error| Fault::of_request(&error, url).message)?;
            let status = response.status();
            if !status.is_success() {
                let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
                let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
                return Err(format!("{} answered HTTP {}{reason}{hint}", authority(url), status.as_u16()));
            }
            bytes(response, url, max_bytes).await
        };
        let late = |_| format!("{} did not answer within {} s", authority(url), timeout.as_secs_f64());
        tokio::time::timeout(timeout, whole).await.map_err(late)?
    }
}

async fn bytes(mut response: Response, url: &Url, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|_| format!("{} closed the connection before the response was complete", authority(url)))?
    {
        if bytes.len() + chunk.len() > max_bytes {
            return Err(format!("{} answered with more than {max_bytes} bytes", authority(url)));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_server::{TestServer, response};
    use super::super::tests::client;
    use super::*;

    async fn fetched(answer: impl Into<Vec<u8>>) -> Result<Value, String> {
        let server = TestServer::answering(answer).await;
        let fetched = client(&["127.0.0.1"]).fetch_json(&server.url("/d"), 100, Duration::from_secs(15)).await;
        fetched.map_err(|message| message.replace(&format!("127.0.0.1:{}", server.port), "HOST"))
    }

    #[tokio::test]
    async fn a_document_is_read_and_errors_have_clear_messages() {
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
    async fn a_silent_server_times_out_and_a_denied_address_is_not_contacted() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let url = format!("http://{host}/");
        let late = client(&["127.0.0.1"]).fetch_json(&url, 100, Duration::from_millis(50)).await;
        assert_eq!(late, Err(format!("{host} did not answer within 0.05 s")));
        let denied = client(&[]).fetch_json(&url, 100, Duration::from_secs(15)).await.unwrap_err();
        assert!(denied.contains("is not allowed (loopback address"), "{denied}");
    }
}
