//! Limits shared by several steps of an exchange.

use std::time::Duration;

/// Timeout for establishing a connection, including TLS. The timeout of the call bounds the whole run.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response, in bytes.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
