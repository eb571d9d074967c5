//! Trusted proxies, which may declare the address of a client.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

/// The header in which trusted proxies declare the address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Parses networks and addresses.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|text| network(text).map_err(serde::de::Error::custom)).collect()
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
    fn a_network_is_a_cidr_or_one_address() {
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
