//! Requests to webhooks: one signed POST (Standard Webhooks) without redirects, with a bounded response.

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use url::Url;

use super::client::HttpClient;
use super::fault::Fault;
use crate::domain::Time;
use crate::executor::signing_key::SigningKey;

/// Maximum size of a response, in bytes.
pub const MAX_WEBHOOK_ANSWER: usize = 1024 * 1024;

/// Maximum length of a URL, in characters.
const MAX_URL_CHARS: usize = 2048;

/// Checks the syntax of a URL that a caller provides. The egress guard checks its target at each use.
///
/// # Errors
/// Returns a message with the reason if the URL is invalid.
pub fn check_url(text: &str) -> Result<(), String> {
    if text.chars().count() > MAX_URL_CHARS {
        return Err(format!("must have at most {MAX_URL_CHARS} characters"));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("a URL must not contain blanks, control characters or backslashes".to_owned());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !["http", "https"].iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)) {
        return Err("must begin with http:// or https://".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a URL must not contain a user or password".to_owned());
    }
    // The parser would treat the first segment of `http:///path` as the host.
    if authority.is_empty() {
        return Err("a URL needs a host".to_owned());
    }
    Url::parse(text).map(|_| ()).map_err(|error| format!("not a URL: {error}"))
}

/// Creates the headers of a message (Standard Webhooks).
#[must_use]
pub fn webhook_headers(key: &SigningKey, id: &str, now: Time, body: &[u8]) -> HeaderMap {
    let at = now.0.div_euclid(1_000_000);
    let mut signature = HeaderValue::try_from(key.signature(id, at, body));
    if let Ok(signature) = &mut signature {
        signature.set_sensitive(true);
    }
    let named = [("webhook-id", HeaderValue::try_from(id)), ("webhook-signature", signature)];
    let mut headers: HeaderMap =
        named.into_iter().filter_map(|(name, value)| Some((HeaderName::from_static(name), value.ok()?))).collect();
    headers.insert(HeaderName::from_static("webhook-timestamp"), HeaderValue::from(at));
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

impl HttpClient {
    /// Posts `body` to `url` through the egress guard and reads a 2xx response. The caller enforces the timeout;
    /// dropping the future closes the connection.
    ///
    /// # Errors
    /// Returns a message with the reason if no 2xx response was received. It contains nothing of the body.
    pub async fn ask(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<WebhookAnswer, String> {
        let url = Url::parse(url).map_err(|error| format!("the URL is invalid: {error}"))?;
        self.egress.check_url(&url).map_err(|denied| denied.to_string())?;
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let response = self.inner.execute(request).await.map_err(|error| Fault::of_request(&error, &url).message)?;
        let status = response.status();
        if !status.is_success() {
            let hint = if status.is_redirection() { ": redirects are not followed" } else { "" };
            return Err(format!("HTTP {}{hint}", status.as_u16()));
        }
        Ok(read(response).await)
    }
}

async fn read(mut response: Response) -> WebhookAnswer {
    let too_large = || WebhookAnswer::Unreadable(format!("its response is larger than {MAX_WEBHOOK_ANSWER} bytes"));
    // The service requests no encoding and decodes none, so a small response cannot expand to a huge one.
    if response.headers().get(header::CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return WebhookAnswer::Unreadable(
            "its response is compressed, although only uncompressed responses are supported".to_owned(),
        );
    }
    if response.content_length().is_some_and(|length| length > MAX_WEBHOOK_ANSWER as u64) {
        return too_large();
    }
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > MAX_WEBHOOK_ANSWER => return too_large(),
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return WebhookAnswer::Body(bytes),
            Err(_) => return WebhookAnswer::Unreadable("its response was incomplete".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked() {
        let longest = format!("http://h/{}", "é".repeat(MAX_URL_CHARS - 9));
        for good in ["http://h", "HTTPS://Hooks.example.com:8443/a/b?c=d&e=%20#f", "http://[::1]:80/", &longest] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", "begin with http://"),
            ("h.example/x", "begin with http://"),
            ("ftp://h/", "begin with http://"),
            ("http:h", "begin with http://"),
            ("http://", "host"),
            ("http:///x", "host"),
            ("http://?x", "host"),
            ("http://u:p@h/", "user"),
            ("http://@h/", "user"),
            ("http://h\\@e/", "backslashes"),
            ("http://h/a b", "blanks"),
            ("http://h/\u{0}", "control"),
            ("http://h:99999/", "not a URL"),
            ("http://[::1/", "not a URL"),
            ("http://:80/", "not a URL"),
            (&format!("{longest}x"), "at most 2048"),
        ] {
            let fault = check_url(bad).unwrap_err();
            assert!(fault.contains(why), "{bad}: {fault}");
        }
    }
}
