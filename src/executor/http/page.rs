//! Fetching a web page: one GET that follows redirects through the egress guard, bounded in size.

use reqwest::Response;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::client::HttpClient;
use super::fault::{Fault, authority};
use super::read::{Media, check_encoding};

/// The `Accept` header: pages preferred, anything else accepted.
const ACCEPTED: &str = "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,image/*;q=0.8,*/*;q=0.5";

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

/// An error returned by [`HttpClient::page`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageError {
    /// Message for a model.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl From<Fault> for PageError {
    fn from(fault: Fault) -> Self {
        Self { message: fault.message, retryable: fault.retryable }
    }
}

impl HttpClient {
    /// Fetches the page at `url` through the egress guard. The request is not signed; only its `User-Agent` identifies
    /// the service.
    ///
    /// # Errors
    /// Returns a [`PageError`] if the address is denied or unreachable, or if the response is not 2xx, larger than
    /// `max_bytes` bytes, or compressed.
    pub async fn page(&self, url: Url, max_bytes: usize) -> Result<Page, PageError> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))]);
        let response = self.get(url, headers).await?;
        let (url, status) = (response.url().clone(), response.status());
        if !status.is_success() {
            let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
            let message = format!("{} answered HTTP {}{reason} for {}", authority(&url), status.as_u16(), url.path());
            return Err(PageError { message, retryable: status.is_server_error() || status.as_u16() == 429 });
        }
        check_encoding(response.headers())?;
        let Media { essence, charset } = Media::of(response.headers());
        let bytes = body(response, max_bytes).await?;
        Ok(Page { url, status: status.as_u16(), media_type: essence, charset, bytes })
    }
}

async fn body(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, PageError> {
    let host = authority(response.url());
    let too_large =
        || PageError { message: format!("the page of {host} is larger than {max_bytes} bytes"), retryable: false };
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Fault::of_body(response.url()))? {
        if bytes.len() + chunk.len() > max_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{TestServer, response};
    use super::super::tests::client;
    use super::*;

    async fn get(url: &str, allow: &[&str]) -> Result<Page, PageError> {
        client(allow).page(Url::parse(url).unwrap(), 100).await
    }

    #[tokio::test]
    async fn a_page_is_fetched_after_redirects_without_a_signature() {
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
    async fn errors_have_clear_messages() {
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
    async fn the_guard_checks_the_first_address_and_each_redirect() {
        let mut server = TestServer::answering(response("302 Found\r\nlocation: http://127.0.0.2:1/", "")).await;
        assert!(get(&server.url("/"), &[]).await.unwrap_err().message.contains("is not allowed (loopback address"));
        assert!(server.received.try_recv().is_err());
        let no = get(&server.url("/"), &["127.0.0.1"]).await.unwrap_err().message;
        assert!(no.contains("a redirect was not followed") && no.contains("127.0.0.2"), "{no}");
    }
}
