//! The one HTTP client that all tools share: its connections, its guard, and the way it follows redirects.

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

/// How long an unused connection is kept. Below the 5 s after which common servers close theirs, so that a request is
/// hardly ever written to a connection that is just being closed, which would leave its outcome unknown.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Sends requests of tools. Cheap to clone; all clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    pub(super) inner: reqwest::Client,
    pub(super) egress: Egress,
    pub(super) secrets: Secrets,
    pub(super) clock: Clock,
    pub(super) reporting: Reporting,
}

/// Makes ring the process's TLS provider, once. Without one, making a client panics.
pub fn install_crypto_provider() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // An error means that there is one already, which is all that is needed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

impl HttpClient {
    /// A client that connects to nothing but what `egress` lets through. Proxies from the environment are not used: the
    /// guard has to see the address that is really connected to.
    ///
    /// # Errors
    /// TLS cannot be set up, as without any trusted root certificate.
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
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        Ok(Self { inner, egress, secrets, clock, reporting })
    }

    /// The same client for whoever speaks with one server by a protocol of its own; it follows no redirect.
    ///
    /// # Errors
    /// The address is not allowed. What a name resolves to is checked at each connection.
    pub fn for_url(&self, url: &Url) -> Result<reqwest::Client, super::egress::EgressDenied> {
        self.egress.check_url(url).map(|()| self.inner.clone())
    }

    /// Sends a request and follows redirects, each of them through the guard, as the Fetch standard has it ("HTTP-redirect
    /// fetch"):
    /// - 307 and 308 send the same request again, and so do 301 and 302 but for a `POST`;
    /// - 303, and 301 and 302 after a `POST`, are followed with `GET`;
    /// - once another origin is asked, it and all that follow get neither credentials nor declared headers nor a signature.
    ///
    /// The answer is whatever is no such redirect. Its body is not read yet. Dropping the future or the answer closes
    /// the connection.
    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<Response, Fault> {
        let Outgoing { call, method, url, headers, private, body } = outgoing;
        self.follow(Hop { call, at_home: true, method, url, headers, private, body }).await
    }

    /// The same for a page of the web, which has no declared server: a `GET` without a signature.
    pub(super) async fn get(&self, url: Url, headers: HeaderMap) -> Result<Response, Fault> {
        let (method, private) = (Method::GET, HeaderMap::new());
        self.follow(Hop { call: Uuid::nil(), at_home: false, method, url, headers, private, body: None }).await
    }

    async fn follow(&self, mut hop: Hop) -> Result<Response, Fault> {
        for followed in 0..=MAX_REDIRECTS {
            // Only the first hop can prove that nothing was ever sent.
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
        // The definition's own headers replace the service's of the same name.
        headers.extend(hop.private.clone());
        if hop.at_home {
            // Made for each hop, as a redirect may take the body away.
            let body = hop.body.as_deref().unwrap_or_default();
            headers.extend(self.reporting.signed(hop.call, self.clock.now(), body));
        }
        *request.body_mut() = hop.body.clone().map(Into::into);
        request
    }
}

/// One request on the way through redirects.
struct Hop {
    call: Uuid,
    /// Only the declared server has been asked so far.
    at_home: bool,
    method: Method,
    url: Url,
    headers: HeaderMap,
    private: HeaderMap,
    body: Option<Bytes>,
}

impl Hop {
    /// The request that a redirect asks for; `None` if the answer is none that is followed.
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
            return Err(Fault::terminal(format!(
                "{} redirects to something that is no web address",
                authority(&self.url)
            )));
        };
        url.set_fragment(None);
        // Credentials in a Location are the server's idea, not the definition's.
        let _ = (url.set_username(""), url.set_password(None));
        let same_origin = url.origin() == self.url.origin();
        let (mut headers, mut private) = (self.headers.clone(), self.private.clone());
        if !same_origin {
            // What the body is stays with the body.
            let content_type = private.remove(header::CONTENT_TYPE);
            private = content_type.into_iter().map(|value| (header::CONTENT_TYPE, value)).collect();
        }
        if !again {
            headers.remove(header::CONTENT_TYPE);
            private.remove(header::CONTENT_TYPE);
        }
        Ok(Some(Self {
            call: self.call,
            at_home: self.at_home && same_origin,
            method: if again { self.method.clone() } else { Method::GET },
            url,
            headers,
            private,
            body: self.body.clone().filter(|_| again),
        }))
    }
}
