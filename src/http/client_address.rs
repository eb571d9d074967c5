//! The address of the client, determined from the peer and the headers of trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::config::{ForwardedHeader, Server};

/// Headers in which a proxy declares the host and the scheme of a request.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-host"), HeaderName::from_static("x-forwarded-proto")];

/// The client's address, as an extension of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientAddress(pub IpAddr);

/// The trusted proxies and the header that they set.
#[derive(Debug, Clone)]
pub(super) struct Proxies {
    trusted: Vec<IpNet>,
    header: ForwardedHeader,
}

impl Proxies {
    pub fn of(settings: &Server) -> Self {
        Self { trusted: settings.trusted_proxies.clone(), header: settings.forwarded_header }
    }

    /// Returns the client of a request.
    ///
    /// Each proxy appends the address of its peer to the header. The entries are read from the end while the address
    /// that wrote them is trusted; the first untrusted address is the client. Only the configured header is read:
    /// proxies pass on headers that they do not know, so a client could forge the other header.
    pub fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        let mut client = peer.to_canonical();
        if self.trusts(client) {
            for hop in self.hops(headers) {
                // An obfuscated or invalid entry hides the client, so the proxy that wrote the entry counts as the
                // client.
                let Some(hop) = hop else { break };
                client = hop;
                if !self.trusts(client) {
                    break;
                }
            }
        }
        ClientAddress(client)
    }

    /// Removes headers that only a trusted proxy may set, unless the peer is one: the host and the scheme that it was
    /// requested with.
    pub fn remove_forged(&self, peer: IpAddr, headers: &mut HeaderMap) {
        if !self.trusts(peer.to_canonical()) {
            FORWARDED.iter().for_each(|name| drop(headers.remove(name)));
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// Returns the entries of the header, the nearest first; `None` for an entry that is not an address.
    fn hops<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + use<'a> {
        let (name, read): (_, fn(&str) -> Option<IpAddr>) = match self.header {
            ForwardedHeader::XForwardedFor => ("x-forwarded-for", address),
            ForwardedHeader::Forwarded => ("forwarded", forwarded_for),
        };
        let lines = headers.get_all(name).iter().rev().map(|line| line.to_str().unwrap_or("unknown"));
        let entries = lines.flat_map(|line| line.rsplit(',')).map(str::trim);
        // A list may have empty elements (RFC 9110, section 5.6.1).
        entries.filter(|entry| !entry.is_empty()).map(read)
    }
}

/// Returns the `for` parameter of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, node) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(node.trim().trim_matches('"'))
}

/// Parses an address with an optional port: `192.0.2.7`, `192.0.2.7:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::config::Config;

    /// Returns the client if 10.0.0.0/8 and `::1` are trusted.
    fn client(header: ForwardedHeader, peer: &str, lines: &[(&'static str, &str)]) -> String {
        let mut settings = Config::default().server;
        settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        settings.forwarded_header = header;
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Proxies::of(&settings).client_of(peer.parse().unwrap(), &headers).0.to_string()
    }

    fn by_x_forwarded_for(peer: &str, lines: &[&str]) -> String {
        let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        client(ForwardedHeader::XForwardedFor, peer, &headers)
    }

    #[test]
    fn header_of_untrusted_peer_is_ignored() {
        assert_eq!(by_x_forwarded_for("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client(ForwardedHeader::Forwarded, "192.0.2.1", &[("forwarded", "for=198.51.100.7")]), "192.0.2.1");
        let nobody = Proxies::of(&Config::default().server);
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), HeaderValue::from_static("1.1.1.1"))]);
        assert_eq!(nobody.client_of("127.0.0.1".parse().unwrap(), &headers).0.to_string(), "127.0.0.1");
    }

    #[test]
    fn host_and_scheme_of_an_untrusted_peer_are_removed() {
        let mut settings = Config::default().server;
        let sent = || HeaderMap::from_iter(FORWARDED.map(|name| (name, HeaderValue::from_static("evil.test"))));
        let left = |settings: &Server, peer: &str| {
            let mut headers = sent();
            Proxies::of(settings).remove_forged(peer.parse().unwrap(), &mut headers);
            headers.len()
        };
        assert_eq!(left(&settings, "127.0.0.1"), 0, "by default none is trusted");
        settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        assert_eq!((left(&settings, "192.0.2.1"), left(&settings, "::ffff:10.1.1.1")), (0, FORWARDED.len()));
    }

    #[test]
    fn client_is_the_last_untrusted_address() {
        for (lines, meant) in [
            (&["192.0.2.7"][..], "192.0.2.7"),
            (&["198.51.100.7, 192.0.2.7"], "192.0.2.7"),
            (&["198.51.100.7, 192.0.2.7, 10.2.2.2"], "192.0.2.7"),
            (&["198.51.100.7", "192.0.2.7,10.2.2.2"], "192.0.2.7"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
            (&["192.0.2.7:4711"], "192.0.2.7"),
            (&["[2001:db8::1]:4711"], "2001:db8::1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["192.0.2.7, ,"], "192.0.2.7"),
            (&[], "10.1.1.1"),
            (&[""], "10.1.1.1"),
        ] {
            assert_eq!(by_x_forwarded_for("10.1.1.1", lines), meant, "{lines:?}");
            assert_eq!(by_x_forwarded_for("::ffff:10.1.1.1", lines), meant, "{lines:?}");
        }
        assert_eq!(by_x_forwarded_for("::1", &["::ffff:192.0.2.7"]), "192.0.2.7");
    }

    #[test]
    fn invalid_entry_ends_the_search() {
        for line in ["198.51.100.7, unknown", "198.51.100.7, 192.0.2", "198.51.100.7, bücher"] {
            assert_eq!(by_x_forwarded_for("10.1.1.1", &[line]), "10.1.1.1", "{line}");
        }
        assert_eq!(by_x_forwarded_for("10.1.1.1", &["198.51.100.7, _hidden, 10.2.2.2"]), "10.2.2.2");
    }

    #[test]
    fn only_the_configured_header_is_read() {
        let both = [("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client(ForwardedHeader::XForwardedFor, "10.1.1.1", &both), "198.51.100.7");
        for (line, meant) in [
            ("for=192.0.2.7", "192.0.2.7"),
            ("proto=https; For=192.0.2.7;by=10.1.1.1", "192.0.2.7"),
            ("for=198.51.100.9, for=\"[2001:db8::1]:4711\";proto=http", "2001:db8::1"),
            ("for=\"192.0.2.7:80\", for=10.2.2.2", "192.0.2.7"),
            ("for=198.51.100.9, for=unknown", "10.1.1.1"),
            ("for=198.51.100.9, proto=https", "10.1.1.1"),
            ("for=\"x, for=192.0.2.7", "192.0.2.7"),
        ] {
            let headers = [("forwarded", line), ("x-forwarded-for", "203.0.113.1")];
            assert_eq!(client(ForwardedHeader::Forwarded, "10.1.1.1", &headers), meant, "{line}");
        }
    }
}
