//! The check of the `Host` header, as in rmcp.

use std::net::Ipv6Addr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};

use crate::mcp::settings::Settings;

/// The hosts under which clients may reach the endpoint.
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

    /// Returns `true` if the request names one of these hosts. A header in an unusual form is not allowed.
    pub fn allow(&self, headers: &HeaderMap) -> bool {
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
        assert!(!allows(&["a b"], "a b"), "rmcp rejects such a header");
        assert!(!AllowedHosts::new(&Settings::default()).allow(&HeaderMap::new()));
    }
}
