//! The HTTP client shared by all tools: connections, egress guard and redirects.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap};
use reqwest::{Method, Request, Response, StatusCode, redirect};
use url::Url;
use uuid::Uuid;

use super::egress::{Egress, EgressDenied};
use super::fault::{CONNECT_TIMEOUT, Fault, authority};
use super::reporting::Reporting;
use crate::executor::secrets::Secrets;
use toolpost_core::domain::Clock;

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

/// A request and its redirects.
#[derive(Debug)]
pub struct Outgoing {
    /// Id of the call to sign the request for, as long as it goes to the declared origin; `None` means no signature.
    pub signed_for: Option<Uuid>,
    /// HTTP method.
    pub method: Method,
    /// Target URL.
    pub url: Url,
    /// Headers sent to any server, also after redirects.
    pub headers: HeaderMap,
    /// Headers for the declared origin only: declared headers and credentials.
    pub private: HeaderMap,
    /// Request body, if any.
    pub body: Option<Bytes>,
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
        Ok(Self::over(Self::transport(&egress)?, egress, secrets, clock, reporting))
    }

    /// Creates the client over this transport, which was created for the same addresses.
    pub fn over(
        transport: reqwest::Client,
        egress: Egress,
        secrets: Secrets,
        clock: Clock,
        reporting: Reporting,
    ) -> Self {
        Self { inner: transport, egress, secrets, clock, reporting }
    }

    /// Creates connections to these addresses. This reads the trusted root certificates of the system, which takes some
    /// milliseconds.
    ///
    /// # Errors
    /// Returns a message if TLS cannot be set up, for example if the system has no trusted root certificates.
    pub fn transport(egress: &Egress) -> Result<reqwest::Client, String> {
        install_crypto_provider();
        reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .dns_resolver(egress.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("cannot create an HTTP client: {error}"))
    }

    /// Returns the underlying client for other protocols over HTTP; it follows no redirects.
    ///
    /// # Errors
    /// Returns [`EgressDenied`] if the address is not allowed. Addresses of host names are
    /// checked at each connection.
    pub fn for_url(&self, url: &Url) -> Result<reqwest::Client, EgressDenied> {
        self.egress.check_url(url).map(|()| self.inner.clone())
    }

    /// Sends one request through the egress guard, without a signature and without following redirects.
    pub(super) async fn send_once(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response, Fault> {
        self.egress.check_url(url).map_err(|denied| Fault::unsent(denied.to_string()))?;
        let mut request = Request::new(method, url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = body.map(Into::into);
        self.inner.execute(request).await.map_err(|error| Fault::of_request(&error, url))
    }

    /// Sends a request and follows redirects as in the Fetch standard ("HTTP-redirect fetch"). The egress guard checks
    /// each of them.
    /// - 307 and 308 send the same request again, as do 301 and 302 unless the method is `POST`.
    /// - 303, and 301 and 302 after a `POST`, are followed with `GET`.
    /// - After a redirect to another origin, requests have no credentials, declared headers or signature. A request that
    ///   could carry arguments or secrets, because it has a body or a method other than `GET` and `HEAD`, is not sent there.
    ///
    /// Returns the first other response with an unread body. Dropping the future or the response closes the connection.
    pub(super) async fn send(&self, mut outgoing: Outgoing) -> Result<Response, Fault> {
        for followed in 0..=MAX_REDIRECTS {
            self.egress.check_url(&outgoing.url).map_err(|denied| match followed {
                0 => Fault::unsent(denied.to_string()),
                _ => Fault::terminal(format!("a redirect was not followed: {denied}")),
            })?;
            let response = self.inner.execute(self.request(&outgoing)).await.map_err(|error| {
                let fault = Fault::of_request(&error, &outgoing.url);
                // Only a fault of the first request can prove that nothing was sent.
                Fault { sent: fault.sent || followed > 0, ..fault }
            })?;
            if !outgoing.redirect(&response)? {
                return Ok(response);
            }
        }
        let host = authority(&outgoing.url);
        Err(Fault::terminal(format!("more than {MAX_REDIRECTS} redirects; the last one led to {host}")))
    }

    fn request(&self, outgoing: &Outgoing) -> Request {
        let mut request = Request::new(outgoing.method.clone(), outgoing.url.clone());
        let headers = request.headers_mut();
        headers.extend(outgoing.headers.clone());
        // Declared headers replace default headers of the same name.
        headers.extend(outgoing.private.clone());
        if let Some(call) = outgoing.signed_for {
            // Signed for each request, because a redirect may drop the body.
            let body = outgoing.body.as_deref().unwrap_or_default();
            headers.extend(self.reporting.signed(call, self.clock.now(), body));
        }
        *request.body_mut() = outgoing.body.clone().map(Into::into);
        request
    }
}

impl Outgoing {
    /// Changes the request to the one that follows a redirect. Returns `false` if the response is not a redirect to
    /// follow.
    fn redirect(&mut self, response: &Response) -> Result<bool, Fault> {
        let is_repeated = match response.status() {
            StatusCode::SEE_OTHER => matches!(self.method, Method::GET | Method::HEAD),
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method != Method::POST,
            _ => return Ok(false),
        };
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(false) };
        let parsed = std::str::from_utf8(location.as_bytes()).ok().and_then(|text| self.url.join(text).ok());
        let Some(mut url) = parsed.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(Fault::terminal(format!("{} redirects to an invalid web address", authority(&self.url))));
        };
        url.set_fragment(None);
        // Credentials in a `Location` come from the server, not from the definition.
        let _ = (url.set_username(""), url.set_password(None));
        if url.origin() != self.url.origin() {
            let is_safe = matches!(self.method, Method::GET | Method::HEAD);
            if is_repeated && (self.body.is_some() || !is_safe) {
                let [from, to] = [&self.url, &url].map(|url| url.origin().ascii_serialization());
                return Err(Fault::terminal(format!(
                    "{from} redirects the request to {to}; a {} request is not sent to another origin. Set the URL of the tool \
                     to the new one if you trust it",
                    self.method
                )));
            }
            self.signed_for = None;
            self.private.clear();
        }
        if !is_repeated {
            self.method = Method::GET;
            self.body = None;
            self.private.remove(header::CONTENT_TYPE);
        }
        self.url = url;
        Ok(true)
    }
}

/// Parses the URL of a message or document.
pub fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("the URL is invalid: {error}"))
}
