//! Connections over Streamable HTTP, through the egress guard.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use url::Url;

use super::http_client::Client;
use crate::executor::HttpClient;
use crate::executor::http::MAX_ANSWER_BYTES;

/// Maximum number of concurrent requests per server that are answered with plain JSON.
const MAX_CONCURRENT: usize = 256;
/// Maximum number of tries in a row to resume a stream that ended before its response, and the delay between two of
/// them. Then its request fails.
const MAX_RECONNECTS: usize = 8;
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(10);
/// Headers that the protocol sets.
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

/// Returns the error in a header's name or value, if any.
#[must_use]
pub fn header_fault(name: &str, value: Option<&str>) -> Option<String> {
    header(name, value.unwrap_or_default()).err().map(str::to_owned)
}

/// Parses a header. Its value never appears in a log.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "the header name is invalid")?;
    if RESERVED.contains(&name.as_str()) {
        return Err("the header is reserved for the protocol");
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| "the header value is invalid")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Creates a transport that is not connected yet.
///
/// # Errors
/// Returns a message, never with a header value, if the URL is invalid or denied, or if a header is invalid.
pub fn transport(
    client: &HttpClient,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<(StreamableHttpClientTransport<Client>, Url), String> {
    crate::executor::http::check_url(url).map_err(|fault| format!("its url {fault}"))?;
    let parsed = Url::parse(url).map_err(|error| format!("its url is invalid: {error}"))?;
    let inner = client.for_url(&parsed).map_err(|denied| denied.to_string())?;
    let custom = headers
        .iter()
        .map(|(name, value)| header(name, value).map_err(|fault| format!("its header \"{name}\": {fault}")));
    let custom = custom.collect::<Result<HashMap<_, _>, _>>()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(parsed.as_str())
        .custom_headers(custom)
        .max_concurrent_requests(MAX_CONCURRENT)
        .max_sse_event_size(MAX_ANSWER_BYTES);
    let mut retries = ExponentialBackoff::default();
    (retries.max_times, retries.max_delay) = (Some(MAX_RECONNECTS), Some(MAX_RECONNECT_DELAY));
    config.retry_config = Arc::new(retries);
    Ok((StreamableHttpClientTransport::with_client(Client::new(inner), config), parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_headers_are_rejected() {
        assert_eq!(header_fault("Authorization", Some("Bearer x")), None);
        for name in ["Accept", "MCP-Session-Id", "Host", "a b", ""] {
            assert!(header_fault(name, None).is_some(), "{name}");
        }
        assert!(header_fault("X", Some("a\nb")).is_some());
    }
}
