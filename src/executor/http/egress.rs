//! The guard on outgoing connections: no private, loopback, link-local or metadata address, and no port of another protocol,
//! unless the operator allowed it.
//!
//! reqwest asks its resolver for host names only, never for hosts that are written as addresses, so there are two gates
//! over the same rule: [`Egress::check_url`] before every request and every redirect, and the resolver, whose addresses
//! are the very ones that are connected to, which leaves no gap for a name that changes its address in between.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

mod ports;
mod ranges;

/// What may be connected to. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Egress(Arc<EgressAllowList>);

#[derive(Debug, Clone, Default)]
struct EgressAllowList {
    networks: Vec<IpNet>,
    /// Lower case, without a trailing dot.
    hosts: Vec<String>,
    /// What follows the `*` of `*.example.com`, with its dot.
    suffixes: Vec<String>,
    /// Ports that are allowed although they are those of other protocols.
    ports: Vec<u16>,
}

/// A target that is not allowed; its text says how the operator allows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenied {
    /// An address.
    #[error(
        "address {address} is not allowed ({reason}; the operator of this service can allow it with --egress-allow {address})"
    )]
    Address {
        /// The address that would have been connected to.
        address: IpAddr,
        /// The kind of address, as `loopback address`.
        reason: &'static str,
    },
    /// A port.
    #[error("port {port} is not allowed ({reason}; the operator of this service can allow it in egress.allow_ports)")]
    Port {
        /// The port that would have been connected to.
        port: u16,
        /// The kind of port.
        reason: &'static str,
    },
}

impl Egress {
    /// The public internet and whatever `allow` names: a network (`10.0.0.0/8`, `fd00::/8`), an address, a host name, or
    /// all hosts under a domain (`*.example.com`). An allowed host name may resolve to any address.
    ///
    /// # Errors
    /// A sentence that names the entry that is none of these.
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

    /// Allows these ports too, at every host: those of services that do not speak HTTP are denied otherwise.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        Arc::make_mut(&mut self.0).ports.extend(ports);
        self
    }

    /// Checks the port of a URL, and its host if it is written as an address, in whatever spelling (`127.1`, `0x7f000001`, `[::ffff:7f00:1]`:
    /// the parser has made them one). Host names pass: the resolver checks them.
    ///
    /// # Errors
    /// The address or the port is not allowed.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressDenied> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into())?,
            Some(Host::Ipv6(address)) => self.check(address.into())?,
            Some(Host::Domain(_)) | None => {}
        }
        let Some(port) = url.port_or_known_default() else { return Ok(()) };
        match ports::denied(port) {
            Some(reason) if !self.0.ports.contains(&port) => Err(EgressDenied::Port { port, reason }),
            _ => Ok(()),
        }
    }

    /// Checks one address.
    ///
    /// # Errors
    /// It is neither public nor allowed.
    pub fn check(&self, address: IpAddr) -> Result<(), EgressDenied> {
        let inner = ranges::reached(address);
        match ranges::denied(inner) {
            Some(reason) if !self.allows(address) && !self.allows(inner) => {
                Err(EgressDenied::Address { address: inner, reason })
            }
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

    /// The addresses of `host` that may be connected to.
    ///
    /// # Errors
    /// The name does not resolve, or only to addresses that are not allowed ([`EgressDenied`]).
    async fn resolve(self, host: String) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
        if self.allows_host(&host) {
            return Ok(found);
        }
        let mut denied = None;
        let mut permitted = found;
        permitted.retain(|address| match self.check(address.ip()) {
            Ok(()) => true,
            Err(reason) => {
                denied.get_or_insert(reason);
                false
            }
        });
        match (permitted.is_empty(), denied) {
            (true, Some(denied)) => Err(denied.into()),
            (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, "no address").into()),
            (false, _) => Ok(permitted),
        }
    }
}

impl Resolve for Egress {
    fn resolve(&self, name: Name) -> Resolving {
        let resolving = Self::resolve(self.clone(), name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(resolving.await?.into_iter()) as Addrs) })
    }
}

/// A host name as the URL parser writes it (lower case, Punycode).
fn host_name(entry: &str, name: &str) -> Result<String, String> {
    match Host::parse(name.trim_end_matches('.')) {
        Ok(Host::Domain(name)) if !name.contains('*') => Ok(name),
        _ => Err(format!(
            "\"{entry}\" is no network (10.0.0.0/8), address, host name or domain (*.example.com); ports are not part of it"
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
    fn addresses_are_refused_in_any_spelling() {
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
    fn what_the_operator_allows_passes_and_nothing_beside_it() {
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
    fn an_entry_that_is_nothing_is_named() {
        for entry in ["", "10.0.0.0/40", "a b", "host:80", "*.", "*", "http://a/"] {
            assert!(Egress::new([entry]).unwrap_err().starts_with(&format!("\"{entry}\" is no network")), "{entry}");
        }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let denied = Egress::default().resolve("localhost".into()).await.unwrap_err();
        let denied = denied.downcast_ref::<EgressDenied>().unwrap();
        assert!(matches!(denied, EgressDenied::Address { address, .. } if address.is_loopback()), "{denied}");
        let allowed = Egress::new(["localhost"]).unwrap().resolve("localhost".into()).await.unwrap();
        assert!(allowed.iter().all(|address| address.ip().is_loopback()) && !allowed.is_empty());
    }
}
