//! Reporting of tools to the service: the URLs and the token sent to a tool, and the signature of requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use reqwest::header::HeaderMap;
use uuid::Uuid;

use crate::executor::signing_key::SigningKey;
use toolpost_core::domain::Time;

/// The signing key and the base URL of this service. Cheap to clone; setting the URL of one clone sets it for all.
#[derive(Debug, Clone)]
pub struct Reporting {
    key: SigningKey,
    base: Arc<OnceLock<String>>,
}

impl Reporting {
    /// Creates an instance without a base URL, which is known only once the service listens. Until then, requests
    /// contain no URLs to report to.
    #[must_use]
    pub fn new(key: SigningKey) -> Self {
        Self { key, base: Arc::default() }
    }

    /// Sets the URL at which tools reach this service, as in `https://tools.example.com/toolpost`. The first value
    /// stays.
    pub fn set_base(&self, url: &str) {
        // An error means that a URL is already set.
        let _ = self.base.set(url.trim_end_matches('/').to_owned());
    }

    /// Sets the base URL to the address that the service listens on, with the loopback address in place of an
    /// unspecified one.
    pub fn set_base_to_listener(&self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        self.set_base(&format!("http://{}", SocketAddr::new(ip, address.port())));
    }

    /// Returns the URL for reports on the progress of a call.
    #[must_use]
    pub fn progress_url(&self, call: Uuid) -> Option<String> {
        self.url(call, "progress")
    }

    /// Returns the URL for the result of a call.
    #[must_use]
    pub fn result_url(&self, call: Uuid) -> Option<String> {
        self.url(call, "result")
    }

    /// Returns the token that authenticates reports on a call.
    #[must_use]
    pub fn token(&self, call: Uuid) -> Option<String> {
        self.is_reachable().then(|| self.key.token(call))
    }

    /// Returns `true` if tools can post to this service.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.base.get().is_some()
    }

    /// Creates the headers that sign a request (Standard Webhooks). The message id is the call's id in every attempt,
    /// so that a receiver can recognize a repeated request.
    pub(super) fn signed(&self, call: Uuid, now: Time, body: &[u8]) -> HeaderMap {
        self.key.headers(&call.to_string(), now, body)
    }

    fn url(&self, call: Uuid, what: &str) -> Option<String> {
        self.base.get().map(|base| format!("{base}/tool-calls/{call}/{what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reporting() -> Reporting {
        Reporting::new(SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap())
    }

    #[test]
    fn reporting_needs_a_base_url_and_the_first_one_stays() {
        let (reporting, call) = (reporting(), Uuid::from_u128(7));
        assert_eq!(
            (reporting.progress_url(call), reporting.result_url(call), reporting.token(call)),
            (None, None, None)
        );
        let clone = reporting.clone();
        reporting.set_base("https://h/under/");
        reporting.set_base("https://other");
        let url = |what: &str| Some(format!("https://h/under/tool-calls/00000000-0000-0000-0000-000000000007/{what}"));
        assert_eq!((clone.progress_url(call), clone.result_url(call)), (url("progress"), url("result")));
        assert!(clone.key.is_token(call, &clone.token(call).unwrap()));
    }

    #[test]
    fn listener_on_all_addresses_is_reached_on_this_machine() {
        for (address, base) in [
            ("127.0.0.1:80", "http://127.0.0.1:80/"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
            ("[::]:1", "http://[::1]:1/"),
            ("192.0.2.1:2", "http://192.0.2.1:2/"),
        ] {
            let reporting = reporting();
            reporting.set_base_to_listener(address.parse().unwrap());
            let url = reporting.result_url(Uuid::nil()).unwrap();
            assert!(url.starts_with(base), "{address}: {url}");
        }
    }
}
