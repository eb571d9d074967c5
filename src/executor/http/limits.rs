//! Bounds of an exchange that several of its steps share.

use std::time::Duration;

/// Longest wait for a connection, TLS included. The whole run is bounded by its own clock, outside.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
