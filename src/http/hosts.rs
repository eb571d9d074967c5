//! The `Host` header. A request names one valid host, and a request to `/mcp` one that is allowed, so that a page cannot
//! reach the service under a name of its own (DNS rebinding).

use std::net::Ipv6Addr;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};

use super::{HttpResult, Problem, paths};
use crate::mcp::Settings;

/// The hosts under which clients may reach `/mcp`.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    any: bool,
    hosts: Vec<AllowedHost>,
}

/// A host name without brackets, and its port if only that one is allowed.
#[derive(Debug)]
struct AllowedHost {
    name: String,
    port: Option<u16>,
}

impl AllowedHosts {
    pub fn new(settings: &Settings) -> Self {
        let hosts = settings.hosts();
        let hosts = hosts.iter().map(|host| match Authority::try_from(host.trim()) {
            Ok(authority) => (authority.host().to_owned(), authority.port_u16()),
            // An address of version 6 without brackets.
            Err(_) => (host.trim().to_owned(), None),
        });
        let hosts = hosts.map(|(name, port)| AllowedHost { name: without_brackets(&name).to_owned(), port });
        Self { any: settings.allows_any_host(), hosts: hosts.filter(AllowedHost::is_valid).collect() }
    }

    /// Checks that a request has exactly one valid `Host`, which is allowed for `/mcp`. HTTP/1.0 requests to other paths
    /// may omit it.
    ///
    /// # Errors
    /// Returns a 400 or a 403 for any other request.
    pub fn check(&self, request: &Request) -> HttpResult<()> {
        let (version, headers) = (request.version(), request.headers());
        let mut hosts = headers.get_all(HOST).iter();
        let fault = match (hosts.next(), hosts.next()) {
            (Some(host), None) if is_host(host.as_bytes()) => None,
            (None, _) if version <= Version::HTTP_10 => None,
            (None, _) => Some("is missing"),
            (Some(_), Some(_)) => Some("occurs more than once"),
            (Some(_), None) => Some("is not a host name or address with an optional port"),
        };
        if let Some(fault) = fault {
            let detail = format!("the Host header {fault}; a request must name its host exactly once");
            return Err(Problem::bad_request(detail));
        }
        if request.uri().path() == paths::MCP && !self.allow(headers) {
            let detail = "the Host header is not allowed: add it to allowed_hosts in the [mcp] section of the settings";
            return Err(Problem::refused(StatusCode::FORBIDDEN, detail));
        }
        Ok(())
    }

    /// Returns `true` if the request names one of these hosts. A header in an unusual form is not allowed.
    fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(text) = headers.get(HOST).map(HeaderValue::to_str).and_then(Result::ok) else { return false };
        if self.any {
            return Authority::try_from(text).is_ok();
        }
        let Some((name, port)) = split(text) else { return false };
        let is_one = |host: &AllowedHost| {
            host.name.eq_ignore_ascii_case(without_brackets(name)) && host.port.is_none_or(|only| Some(only) == port)
        };
        self.hosts.iter().any(is_one)
    }
}

impl AllowedHost {
    /// Returns `true` for a name that can occur in a valid header.
    fn is_valid(&self) -> bool {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !self.name.is_empty() && (self.name.bytes().all(is_name) || self.name.parse::<Ipv6Addr>().is_ok())
    }
}

/// Splits a header into its name, with brackets around an address of version 6, and its port.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let end_of_name = match text.strip_prefix('[') {
        Some(_) => text.find(']')? + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(end_of_name);
    match port.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some((name, Some(port.parse().ok()?))),
        None if port.is_empty() => Some((name, None)),
        _ => None,
    }
}

fn without_brackets(name: &str) -> &str {
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// Returns `true` for `uri-host [ ":" port ]` (RFC 9110, section 7.2).
fn is_host(value: &[u8]) -> bool {
    let (host, port) = match value.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let is_address = std::str::from_utf8(&rest[..end]).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
            if !is_address {
                return false;
            }
            (&b""[..], &rest[end + 1..])
        }
        None => value.split_at(value.iter().position(|byte| *byte == b':').unwrap_or(value.len())),
    };
    let is_port = port.is_empty() || port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit);
    is_port && is_name(host)
}

/// Returns `true` for a `reg-name` (RFC 3986, section 3.2.2), which includes IPv4 addresses.
fn is_name(mut name: &[u8]) -> bool {
    while let [first, rest @ ..] = name {
        name = match (first, rest) {
            (b'%', [high, low, rest @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            (byte, rest) if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => rest,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(allowed: &[&str], host: &str) -> bool {
        let allowed_hosts = allowed.iter().map(|host| (*host).to_owned()).collect();
        let hosts = AllowedHosts::new(&Settings { allowed_hosts, ..Settings::default() });
        hosts.allow(&HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]))
    }

    #[test]
    fn only_named_hosts_are_allowed() {
        for host in ["localhost", "LocalHost:80", "127.0.0.1:65535", "[::1]", "[::1]:8080", "a.example", "b.example:81"]
        {
            assert!(allows(&["a.example", "b.example:81"], host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost:",
            "localhost:99999",
            "localhost:8x",
            "a@localhost",
            "::1",
            "[::1",
            "[::1]x",
            "[localhost]evil",
            "b.example",
            "b.example:82",
        ] {
            assert!(!allows(&["a.example", "b.example:81"], host), "{host}");
        }
        assert!(allows(&["*"], "evil.example:1") && !allows(&["*"], "a b"));
        assert!(!allows(&["a b"], "a b"));
        assert!(!AllowedHosts::new(&Settings::default()).allow(&HeaderMap::new()));
    }

    #[test]
    fn host_is_a_name_or_an_address_with_an_optional_port() {
        for good in ["", "localhost", "a_b.example:8080", "127.0.0.1:1", "[::1]", "[2001:db8::1]:80", "x:", "a%20b"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in
            ["a b", "a/b", "user@host", "a:b", "a:1:2", "[::1", "[x]", "[::1]x", "a%2", "a,b c", "é", "a?b", "::1"]
        {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
