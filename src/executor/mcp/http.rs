//! A connection over Streamable HTTP, through the guard on outgoing connections.

use std::collections::{BTreeMap, HashMap};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::http_client::Client;
use crate::executor::HttpClient;
use crate::executor::http::MAX_ANSWER_BYTES;

/// Calls of one server at once whose answers are plain JSON.
const AT_ONCE: usize = 256;
/// Headers that the protocol has for itself.
const RESERVED: [&str; 9] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "connection",
    "transfer-encoding",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
];

/// What is wrong with the name of a header, or its value.
#[must_use]
pub fn header_fault(name: &str, value: Option<&str>) -> Option<String> {
    let Ok(parsed) = HeaderName::try_from(name) else { return Some("this is no name of a header".to_owned()) };
    if RESERVED.contains(&parsed.as_str()) {
        return Some("the protocol has this header for itself".to_owned());
    }
    let is_fit = value.is_none_or(|value| HeaderValue::try_from(value).is_ok());
    (!is_fit).then(|| "its value cannot be that of a header".to_owned())
}

/// A transport that is not connected yet.
///
/// # Errors
/// An address that is none or not allowed, or a header that is none; never a value.
pub fn transport(
    client: &HttpClient,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<(StreamableHttpClientTransport<Client>, Url), String> {
    crate::executor::http::check_url(url).map_err(|fault| format!("its url {fault}"))?;
    let parsed = Url::parse(url).map_err(|error| format!("its url is none: {error}"))?;
    let inner = client.for_url(&parsed).map_err(|denied| denied.to_string())?;
    let mut custom = HashMap::new();
    for (name, value) in headers {
        if let Some(fault) = header_fault(name, Some(value)) {
            return Err(format!("its header \"{name}\": {fault}"));
        }
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            value.set_sensitive(true);
            custom.insert(name, value);
        }
    }
    let config = StreamableHttpClientTransportConfig::with_uri(parsed.as_str())
        .custom_headers(custom)
        .max_concurrent_requests(AT_ONCE)
        .max_sse_event_size(MAX_ANSWER_BYTES);
    Ok((StreamableHttpClientTransport::with_client(Client(inner), config), parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_s_own_headers_are_refused() {
        assert_eq!(header_fault("Authorization", Some("Bearer x")), None);
        for name in ["Accept", "MCP-Session-Id", "Host", "a b", ""] {
            assert!(header_fault(name, None).is_some(), "{name}");
        }
        assert!(header_fault("X", Some("a\nb")).is_some());
    }
}
