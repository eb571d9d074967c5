//! The HTTP client shared by all tools: connections, egress guard and redirects.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap};
use reqwest::{Method, Request, Response, StatusCode, redirect};
use url::Url;
use uuid::Uuid;

use super::egress::Egress;
use super::fault::{Fault, authority};
use super::limits::CONNECT_TIMEOUT;
use super::plan::Outgoing;
use super::reporting::Reporting;
use crate::domain::Clock;
use crate::executor::secrets::Secrets;

/// Maximum idle time of a connection. It is below the 5 s after which common servers close idle connections: a request
/// written to a connection that is being closed would have an unknown outcome.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// A client for the requests of tools. Cheap to clone; all clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    pub(super) inner: reqwest::Client,
    pub(super) egress: Egress,
    pub(super) secrets: Secrets,
    pub(super) clock: Clock,
    pub(super) reporting: Reporting,
}

/// Installs ring as the TLS provider of the process, once. Creating a client without a provider panics.
pub fn install_crypto_provider() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

impl HttpClient {
    /// Creates a client that connects only to addresses that `egress` allows. It ignores proxies of the environment,
    /// because the guard must see the address of the connection.
    ///
    /// # Errors
    /// Returns a message if TLS cannot be set up, for example if the system has no trusted root certificates.
    pub fn new(egress: Egress, secrets: Secrets, clock: Clock, reporting: Reporting) -> Result<Self, String> {
        install_crypto_provider();
        let inner = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .dns_resolver(egress.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("cannot create an HTTP client: {error}"))?;
        Ok(Self { inner, egress, secrets, clock, reporting })
    }

    /// Returns the underlying client for other protocols over HTTP; it follows no redirects.
    ///
    /// # Errors
    /// Returns [`EgressDenied`](super::egress::EgressDenied) if the address is not allowed. Addresses of host names are
    /// checked at each connection.
    pub fn for_url(&self, url: &Url) -> Result<reqwest::Client, super::egress::EgressDenied> {
        self.egress.check_url(url).map(|()| self.inner.clone())
    }

    /// Sends a request and follows redirects as in the Fetch standard ("HTTP-redirect fetch"). The egress guard checks
    /// each of them.
    /// - 307 and 308 send the same request again, as do 301 and 302 unless the method is `POST`.
    /// - 303, and 301 and 302 after a `POST`, are followed with `GET`.
    /// - After a redirect to another origin, requests have no credentials, declared headers or signature.
    ///
    /// Returns the first other response with an unread body. Dropping the future or the response closes the connection.
    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<Response, Fault> {
        let Outgoing { call, method, url, headers, private, body } = outgoing;
        self.follow(Hop { call, is_declared_origin: true, method, url, headers, private, body }).await
    }

    /// Sends an unsigned `GET` for a web page, which has no declared server, and follows redirects like `send`.
    pub(super) async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response, Fault> {
        let (method, private) = (Method::GET, HeaderMap::new());
        self.follow(Hop { call: Uuid::nil(), is_declared_origin: false, method, url, headers, private, body: None })
            .await
    }

    async fn follow(&self, mut hop: Hop) -> Result<Response, Fault> {
        for followed in 0..=MAX_REDIRECTS {
            // Only a fault of the first hop can prove that nothing was sent.
            let place = |fault: Fault| Fault { sent: fault.sent || followed > 0, ..fault };
            let through = |denied: super::egress::EgressDenied| match followed {
                0 => Fault::unsent(denied.to_string()),
                _ => Fault::terminal(format!("a redirect was not followed: {denied}")),
            };
            self.egress.check_url(&hop.url).map_err(through)?;
            let answer = self.inner.execute(self.request(&hop)).await;
            let response = answer.map_err(|error| place(Fault::of_request(&error, &hop.url)))?;
            match hop.next(&response)? {
                Some(next) => hop = next,
                None => return Ok(response),
            }
        }
        Err(Fault::terminal(format!(
            "more than {MAX_REDIRECTS} redirects; the last one led to {}",
            authority(&hop.url)
        )))
    }

    fn request(&self, hop: &Hop) -> Request {
        let mut request = Request::new(hop.method.clone(), hop.url.clone());
        let headers = request.headers_mut();
        headers.extend(hop.headers.clone());
        // Declared headers replace default headers of the same name.
        headers.extend(hop.private.clone());
        if hop.is_declared_origin {
            // Signed for each hop, because a redirect may drop the body.
            let body = hop.body.as_deref().unwrap_or_default();
            headers.extend(self.reporting.signed(hop.call, self.clock.now(), body));
        }
        *request.body_mut() = hop.body.clone().map(Into::into);
        request
    }
}

/// One request in a chain of redirects.
struct Hop {
    call: Uuid,
    /// Whether all requests so far went to the declared origin.
    is_declared_origin: bool,
    method: Method,
    url: Url,
    headers: HeaderMap,
    private: HeaderMap,
    body: Option<Bytes>,
}

impl Hop {
    /// Builds the request that follows a redirect; `None` if the response is not a redirect to follow.
    fn next(&self, response: &Response) -> Result<Option<Self>, Fault> {
        let again = match response.status() {
            StatusCode::SEE_OTHER => matches!(self.method, Method::GET | Method::HEAD),
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method != Method::POST,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let parsed = std::str::from_utf8(location.as_bytes()).ok().and_then(|text| self.url.join(text).ok());
        let Some(mut url) = parsed.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(Fault::terminal(format!("{} redirects to an invalid web address", authority(&self.url))));
        };
        url.set_fragment(None);
        // Credentials in a `Location` come from the server, not from the definition.
        let _ = (url.set_username(""), url.set_password(None));
        let same_origin = url.origin() == self.url.origin();
        let (mut headers, mut private) = (self.headers.clone(), self.private.clone());
        if !same_origin {
            // The content type describes the body, so it is sent to the other origin as well.
            let content_type = private.remove(header::CONTENT_TYPE);
            private = content_type.into_iter().map(|value| (header::CONTENT_TYPE, value)).collect();
        }
        if !again {
            headers.remove(header::CONTENT_TYPE);
            private.remove(header::CONTENT_TYPE);
        }
        Ok(Some(Self {
            call: self.call,
            is_declared_origin: self.is_declared_origin && same_origin,
            method: if again { self.method.clone() } else { Method::GET },
            url,
            headers,
            private,
            body: self.body.clone().filter(|_| again),
        }))
    }
}
