//! Fetching a page of the web: one GET that follows redirects through the guard, bounded in size.

use reqwest::Response;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::client::HttpClient;
use super::fault::{Fault, authority};
use super::read::{Media, check_encoding};

/// What is taken: pages first, and anything else, since servers often give what they have.
const TAKEN: &str = "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,image/*;q=0.8,*/*;q=0.5";

/// A page as it came.
#[derive(Debug)]
pub struct Page {
    /// Where it came from, behind all redirects.
    pub url: Url,
    /// The status of the answer, a 2xx.
    pub status: u16,
    /// Its media type, in lower case and without parameters; empty if there is none.
    pub media_type: String,
    /// The charset that the server named.
    pub charset: Option<String>,
    /// The body.
    pub bytes: Vec<u8>,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageError {
    /// One sentence for a model.
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
    /// Gets the page at `url` through the egress guard. It is not signed, and nothing of the service is told but its name.
    ///
    /// # Errors
    /// If there is none: refused, not reached, not 2xx, larger than `most` bytes, or compressed.
    pub async fn page(&self, url: Url, most: usize) -> Result<Page, PageError> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(TAKEN))]);
        let response = self.get(url, headers).await?;
        let (url, status) = (response.url().clone(), response.status());
        if !status.is_success() {
            let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
            let message = format!("{} answered HTTP {}{reason} for {}", authority(&url), status.as_u16(), url.path());
            return Err(PageError { message, retryable: status.is_server_error() || status.as_u16() == 429 });
        }
        check_encoding(response.headers())?;
        let Media { essence, charset } = Media::of(response.headers());
        let bytes = body(response, most).await?;
        Ok(Page { url, status: status.as_u16(), media_type: essence, charset, bytes })
    }
}

async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, PageError> {
    let host = authority(response.url());
    let too_large =
        || PageError { message: format!("the page of {host} is larger than {most} bytes"), retryable: false };
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Fault::of_body(response.url()))? {
        if bytes.len() + chunk.len() > most {
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
    async fn a_page_is_fetched_behind_its_redirects_and_without_a_signature() {
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
    async fn what_is_no_page_is_said_clearly() {
        for (answer, message, retryable) in [
            (response("404 Not Found", "x"), "HOST answered HTTP 404 Not Found for /p", false),
            (response("503 Busy", "x"), "HOST answered HTTP 503 Service Unavailable for /p", true),
            (response("200 OK", "x".repeat(101)), "the page of HOST is larger than 100 bytes", false),
            (
                response("200 OK\r\ncontent-encoding: gzip", "x"),
                "the answer is compressed (gzip), though only plain answers were asked for",
                false,
            ),
        ] {
            let server = TestServer::answering(answer).await;
            let no = get(&server.url("/p"), &["127.0.0.1"]).await.unwrap_err();
            let said = no.message.replace(&format!("127.0.0.1:{}", server.port), "HOST");
            assert_eq!((said.as_str(), no.retryable), (message, retryable));
        }
    }

    #[tokio::test]
    async fn the_guard_stands_before_the_first_address_and_before_each_redirect() {
        let mut server = TestServer::answering(response("302 Found\r\nlocation: http://127.0.0.2:1/", "")).await;
        assert!(get(&server.url("/"), &[]).await.unwrap_err().message.contains("is not allowed (loopback address"));
        assert!(server.received.try_recv().is_err());
        let no = get(&server.url("/"), &["127.0.0.1"]).await.unwrap_err().message;
        assert!(no.contains("a redirect was not followed") && no.contains("127.0.0.2"), "{no}");
    }
}
