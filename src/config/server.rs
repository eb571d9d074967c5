//! Settings of the HTTP server.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use super::SecretString;

/// Settings of the HTTP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address that the service listens on.
    pub listen: String,
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// Timeout for receiving a request body.
    pub body_timeout_ms: u64,
    /// Timeout for receiving the headers of a request; 0 disables it.
    pub header_timeout_ms: u64,
    /// Timeout for an idle connection; 0 disables it.
    pub idle_timeout_ms: u64,
    /// Timeout for a client that does not read its response; 0 disables it.
    pub write_timeout_ms: u64,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum size of a request head.
    pub max_header_bytes: usize,
    /// Origins of web pages that may use the service from a browser.
    #[serde(deserialize_with = "origins")]
    pub cors_origins: Vec<String>,
    /// Proxies that may declare the address of a client.
    #[serde(deserialize_with = "networks", serialize_with = "as_text")]
    pub trusted_proxies: Vec<IpNet>,
    /// Header in which trusted proxies declare the client.
    pub forwarded_header: ForwardedHeader,
    /// Maximum memory of requests in flight.
    pub max_in_flight_mib: usize,
    /// Maximum number of calls waiting to be recorded; 0 disables the limit.
    pub max_backlog: usize,
    /// Maximum number of calls waiting to be recorded during a burst.
    pub burst: usize,
    /// Maximum duration of a burst.
    pub burst_ms: u64,
    /// Maximum number of calls in one request.
    pub max_batch_calls: usize,
    /// Time for running calls to end after the first signal.
    pub drain_ms: u64,
    /// Public address for external tools; empty for the address that the service listens on.
    pub public_url: String,
    /// Secret that signs outgoing requests; empty for the secret that the database stores.
    pub signing_secret: SecretString,
}

/// The header in which trusted proxies declare the address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Parses origins. An origin that a browser never sends is rejected here, because its pages would be refused silently.
fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|text| origin(text).map_err(D::Error::custom)).collect()
}

fn origin(text: &str) -> Result<String, String> {
    let refused = || {
        format!(
            "\"{text}\" is not a valid origin: use a scheme, a host and optionally a port, for example \
            https://a.example.com"
        )
    };
    let url = Url::parse(text.trim()).map_err(|_| refused())?;
    let has_only_origin = matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none();
    let has_login = !url.username().is_empty() || url.password().is_some();
    if !has_only_origin || has_login || url.fragment().is_some() {
        return Err(refused());
    }
    Ok(url.origin().ascii_serialization())
}

/// Parses networks and addresses.
fn as_text<S: Serializer>(networks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(networks.iter().map(IpNet::to_string))
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|text| network(text).map_err(D::Error::custom)).collect()
}

fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_canonical().into());
    }
    let refused =
        |_| format!("\"{text}\" is not a valid network: use a CIDR or an address, for example 10.0.0.0/8 or 192.0.2.7");
    text.parse::<IpNet>().map(|network| network.trunc()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn origin_is_normalized_like_in_browsers() {
        for (given, meant) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("https://app.example.com:443/", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
        ] {
            assert_eq!(origin(given).as_deref(), Ok(meant));
        }
        for wrong in ["*", "app.example.com", "https://a/b", "ftp://a", "https://u@a", "https://a?b", "null", ""] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn network_is_a_cidr_or_one_address() {
        for (given, meant) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            (" 127.0.0.1 ", "127.0.0.1/32"),
            ("::1", "::1/128"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("fd00::/8", "fd00::/8"),
        ] {
            assert_eq!(network(given).map(|network| network.to_string()).as_deref(), Ok(meant));
        }
        for wrong in ["gateway", "10.0.0.0/33", "10.0.0", "", "*", "10.0.0.1:80"] {
            assert!(network(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn no_proxy_is_trusted_by_default() {
        let server = Config::default().server;
        assert!(server.trusted_proxies.is_empty());
        assert_eq!(server.forwarded_header, ForwardedHeader::XForwardedFor);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[server]\ntrusted_proxies = [\"10.0.0.0/8\"]\nforwarded_header = \"forwarded\"\n")
            .unwrap();
        let server = Config::load(Some(&file)).unwrap().server;
        assert_eq!((server.trusted_proxies.len(), server.forwarded_header), (1, ForwardedHeader::Forwarded));
        std::fs::write(&file, "[server]\ntrusted_proxies = [\"gateway\"]\n").unwrap();
        let refused = Config::load(Some(&file)).unwrap_err().to_string();
        assert!(refused.contains("\"gateway\" is not a valid network"), "{refused}");
    }
}
