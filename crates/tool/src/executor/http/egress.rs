//! The egress guard: outgoing connections to private, loopback, link-local and metadata addresses, and to ports of
//! other protocols, are denied unless the operator allows them.
//!
//! reqwest calls its resolver only for host names, not for literal addresses. So two checks apply the same rules:
//! [`Egress::check_url`] before every request and redirect, and the resolver. The resolver returns exactly the
//! addresses that reqwest connects to, so a name cannot change its address after the check.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

mod ports;
mod ranges;

/// The rules for outgoing connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Egress(Arc<EgressAllowList>);

#[derive(Debug, Clone, Default)]
struct EgressAllowList {
    networks: Vec<IpNet>,
    /// Host names in lower case, without a trailing dot.
    hosts: Vec<String>,
    /// The part after the `*` of `*.example.com`, including the dot.
    suffixes: Vec<String>,
    /// Allowed ports of other protocols.
    ports: Vec<u16>,
}

/// A denied target. The message says how the operator can allow it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EgressDenied(String);

impl Egress {
    /// Creates rules that allow the public internet and the entries of `allow`: a network (`10.0.0.0/8`, `fd00::/8`),
    /// an address, a host name, or all hosts of a domain (`*.example.com`). An allowed host name may resolve to any
    /// address.
    ///
    /// # Errors
    /// Returns a message that names the first invalid entry.
    pub fn new(allow: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, String> {
        let mut allowed = EgressAllowList::default();
        for entry in allow {
            let entry = entry.as_ref().trim();
            let bare = entry.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(entry);
            if let Ok(address) = bare.parse::<IpAddr>() {
                allowed.networks.push(address.to_canonical().into());
            } else if let Ok(network) = bare.parse::<IpNet>() {
                allowed.networks.push(network.trunc());
            } else if let Some(domain) = entry.strip_prefix("*.") {
                allowed.suffixes.push(format!(".{}", host_name(entry, domain)?));
            } else {
                allowed.hosts.push(host_name(entry, entry)?);
            }
        }
        Ok(Self(Arc::new(allowed)))
    }

    /// Allows these ports at every host, although they belong to other protocols.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        Arc::make_mut(&mut self.0).ports.extend(ports);
        self
    }

    /// Checks the port of a URL, and its host if that is a literal address. The URL parser has already normalized
    /// spellings such as `127.1`, `0x7f000001` and `[::ffff:7f00:1]`. Host names pass, because the resolver checks
    /// them.
    ///
    /// # Errors
    /// Returns [`EgressDenied`] if the address or the port is not allowed.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressDenied> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into())?,
            Some(Host::Ipv6(address)) => self.check(address.into())?,
            Some(Host::Domain(_)) | None => {}
        }
        let Some(port) = url.port_or_known_default() else { return Ok(()) };
        match ports::denied(port) {
            Some(reason) if !self.0.ports.contains(&port) => Err(EgressDenied(format!(
                "port {port} is not allowed ({reason}; the operator of this service can allow it in egress.allow_ports)"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks one address.
    ///
    /// # Errors
    /// Returns [`EgressDenied`] if the address is neither public nor allowed.
    pub fn check(&self, address: IpAddr) -> Result<(), EgressDenied> {
        let inner = ranges::reached(address);
        match ranges::denied(inner) {
            Some(reason) if !self.allows(address) && !self.allows(inner) => Err(EgressDenied(format!(
                "address {inner} is not allowed ({reason}; the operator of this service can allow it with \
                     --egress-allow {inner})"
            ))),
            _ => Ok(()),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.0.networks.iter().any(|network| network.contains(&address))
    }

    fn allows_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.0.hosts.contains(&host) || self.0.suffixes.iter().any(|suffix| host.ends_with(suffix.as_str()))
    }

    /// Resolves `host` to the addresses that may be connected to.
    ///
    /// # Errors
    /// Returns an error if the name does not resolve, or [`EgressDenied`] if none of its addresses is allowed.
    async fn resolve(self, host: String) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
        if self.allows_host(&host) {
            return Ok(found);
        }
        let checked = || found.iter().map(|address| self.check(address.ip()).map(|()| *address));
        let permitted: Vec<SocketAddr> = checked().flatten().collect();
        match checked().find_map(Result::err) {
            Some(denied) if permitted.is_empty() => Err(denied.into()),
            None if permitted.is_empty() => Err(io::Error::new(io::ErrorKind::NotFound, "no address").into()),
            _ => Ok(permitted),
        }
    }
}

impl Resolve for Egress {
    fn resolve(&self, name: Name) -> Resolving {
        let resolving = Self::resolve(self.clone(), name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(resolving.await?.into_iter()) as Addrs) })
    }
}

/// Normalizes a host name like the URL parser (lower case, Punycode).
fn host_name(entry: &str, name: &str) -> Result<String, String> {
    match Host::parse(name.trim_end_matches('.')) {
        Ok(Host::Domain(name)) if !name.contains('*') => Ok(name),
        _ => Err(format!(
            "\"{entry}\" is not a network (10.0.0.0/8), address, host name or domain (*.example.com); ports are not \
                part of it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(egress: &Egress, url: &str) -> Result<(), String> {
        egress.check_url(&Url::parse(url).unwrap()).map_err(|denied| denied.to_string())
    }

    #[test]
    fn addresses_are_denied_in_any_spelling() {
        let egress = Egress::default();
        for host in
            ["127.0.0.1", "2130706433", "0x7f.1", "017700000001", "127.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]
        {
            assert_eq!(
                checked(&egress, &format!("http://{host}/x")).unwrap_err(),
                "address 127.0.0.1 is not allowed (loopback address; the operator of this service can allow it with \
                 --egress-allow 127.0.0.1)",
                "{host}"
            );
        }
        assert!(checked(&egress, "http://169.254.169.254/latest").unwrap_err().contains("link-local"));
        assert!(checked(&egress, "https://93.184.216.34/").is_ok());
        assert!(checked(&egress, "https://example.com/").is_ok(), "names are left to the resolver");
    }

    #[test]
    fn only_allowed_private_addresses_pass() {
        let egress = Egress::new(["127.0.0.1", "10.1.2.3/8", " [::1] ", "fd12::/16"]).unwrap();
        for host in ["127.0.0.1", "10.255.0.1", "[::1]", "[fd12::5]", "[::ffff:10.0.0.1]", "[64:ff9b::10.0.0.1]"] {
            assert_eq!(checked(&egress, &format!("http://{host}/")), Ok(()), "{host}");
        }
        for host in ["127.0.0.2", "11.0.0.1.nip.io.", "192.168.0.1", "[fd13::5]", "[::2]"] {
            let denied = checked(&egress, &format!("http://{host}/")).is_err();
            assert_eq!(denied, !host.contains("nip"), "{host}");
        }
    }

    #[test]
    fn ports_of_other_protocols_are_denied_unless_allowed() {
        let egress = Egress::new(["127.0.0.1"]).unwrap();
        for url in ["http://127.0.0.1:6379/", "https://example.com:25/", "http://db.example:5432/x"] {
            let denied = checked(&egress, url).unwrap_err();
            assert!(denied.starts_with("port ") && denied.contains("egress.allow_ports"), "{denied}");
        }
        assert!(checked(&egress, "http://127.0.0.2:6379/").unwrap_err().starts_with("address "));
        let opened = egress.with_ports([6379]);
        assert_eq!(checked(&opened, "http://127.0.0.1:6379/"), Ok(()));
        assert!(checked(&opened, "http://127.0.0.1:5432/").is_err());
        for url in ["http://127.0.0.1/", "https://example.com/", "http://example.com:8080/"] {
            assert_eq!(checked(&opened, url), Ok(()), "{url}");
        }
    }

    #[test]
    fn host_names_match_exactly_or_under_a_domain() {
        let egress = Egress::new(["Tools.Internal.", "*.Example.com", "bücher.de"]).unwrap();
        for host in ["tools.internal", "TOOLS.internal.", "a.example.com", "a.b.EXAMPLE.com", "xn--bcher-kva.de"] {
            assert!(egress.allows_host(host), "{host}");
        }
        for host in ["xtools.internal", "tools.internal.evil.com", "example.com", "notexample.com"] {
            assert!(!egress.allows_host(host), "{host}");
        }
    }

    #[test]
    fn invalid_entry_is_named() {
        for entry in ["", "10.0.0.0/40", "a b", "host:80", "*.", "*", "http://a/"] {
            assert!(Egress::new([entry]).unwrap_err().starts_with(&format!("\"{entry}\" is not a network")), "{entry}");
        }
    }

    #[tokio::test]
    async fn name_is_checked_by_its_addresses() {
        let denied = Egress::default().resolve("localhost".into()).await.unwrap_err();
        let denied = denied.downcast_ref::<EgressDenied>().unwrap();
        assert!(denied.0.contains("loopback address"), "{denied}");
        let allowed = Egress::new(["localhost"]).unwrap().resolve("localhost".into()).await.unwrap();
        assert!(allowed.iter().all(|address| address.ip().is_loopback()) && !allowed.is_empty());
    }
}
