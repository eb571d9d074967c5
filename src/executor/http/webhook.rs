//! Asking a webhook: one signed POST (Standard Webhooks) that follows no redirect, and its answer, which is read within a
//! bound.

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use url::Url;

use super::client::HttpClient;
use super::fault::Fault;
use crate::domain::Time;
use crate::executor::signing_key::SigningKey;

/// Largest answer that is read, in bytes.
pub const MAX_WEBHOOK_ANSWER: usize = 1024 * 1024;

/// Longest URL, in characters.
const MAX_URL_CHARS: usize = 2048;

/// Checks a URL that a caller gives for messages. Where it leads is judged when it is used.
///
/// # Errors
/// What is wrong with it.
pub fn check_url(text: &str) -> Result<(), String> {
    if text.chars().count() > MAX_URL_CHARS {
        return Err(format!("must have at most {MAX_URL_CHARS} characters"));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("a URL has no blanks, control characters or backslashes".to_owned());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !["http", "https"].iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)) {
        return Err("must begin with http:// or https://".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a user or password does not belong in the URL".to_owned());
    }
    // The parser would take the first segment of `http:///path` for the host.
    if authority.is_empty() {
        return Err("a URL needs a host".to_owned());
    }
    Url::parse(text).map(|_| ()).map_err(|error| format!("not a URL: {error}"))
}

/// The headers of a message (Standard Webhooks).
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

/// What a webhook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// A 2xx with this body.
    Body(Vec<u8>),
    /// A 2xx whose body cannot be taken, and why.
    Unreadable(String),
}

impl HttpClient {
    /// Posts `body` to `url` through the egress guard and reads the answer of a 2xx. The caller keeps the clock; dropping
    /// the future closes the connection.
    ///
    /// # Errors
    /// Why there is no such answer. Nothing of a body is in it.
    pub async fn ask(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<WebhookAnswer, String> {
        let url = Url::parse(url).map_err(|error| format!("the URL cannot be used: {error}"))?;
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
    let too_large = || WebhookAnswer::Unreadable(format!("its answer is larger than {MAX_WEBHOOK_ANSWER} bytes"));
    // No encoding is asked for, and none is undone: a small answer must not unfold to a huge one.
    if response.headers().get(header::CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return WebhookAnswer::Unreadable("its answer is compressed, though only plain answers are read".to_owned());
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
            Err(_) => return WebhookAnswer::Unreadable("its answer broke off".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_to_a_web_address_without_a_user() {
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
            let told = check_url(bad).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
    }
}
