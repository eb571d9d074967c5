//! The `Host` of a request (RFC 9112, section 3.2).

use std::net::Ipv6Addr;

use axum::http::header::HOST;
use axum::http::{HeaderMap, Version};

use super::problem::Problem;

/// Checks that a request has exactly one valid `Host`. HTTP/1.0 requests may omit it.
///
/// # Errors
/// Returns a 400 for any other request.
pub(super) fn check(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (None, _) if version <= Version::HTTP_10 => Ok(()),
        (None, _) => Err(Problem::bad_host("is missing")),
        (Some(_), Some(_)) => Err(Problem::bad_host("occurs more than once")),
        (Some(_), None) => Err(Problem::bad_host("is not a host name or address with an optional port")),
    }
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
