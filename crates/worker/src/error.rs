//! The errors that end a worker, because only its operator can fix them.

use std::fmt;

/// An error that repetition does not fix. Everything else is logged and retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The address is not an HTTP URL.
    #[error("invalid address `{url}`: {reason}")]
    InvalidUrl {
        /// The given address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A setting of the worker is invalid.
    #[error("invalid worker: {0}")]
    InvalidSetting(String),
    /// The HTTP client could not be created, for example because the system has no trusted root certificates.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    /// The service requires a key, or the key lacks a scope or the queue.
    #[error("the service refused the key ({status}): {detail}")]
    KeyRefused {
        /// The HTTP status: 401 if the key is missing or unknown, 403 if it lacks a permission.
        status: u16,
        /// The description of the service.
        detail: String,
    },
    /// The service refused the definitions of the tools.
    #[error("the service refused the tools: {detail}{}", listed(errors))]
    ToolsRefused {
        /// The code of the problem, such as `INVALID_REQUEST` or `TOOL_EXISTS`.
        code: String,
        /// The description of the service.
        detail: String,
        /// The invalid fields.
        errors: Vec<FieldError>,
    },
    /// The service refused another request.
    #[error("the service refused a request ({status} {code}): {detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code of the problem; empty if the response has none.
        code: String,
        /// The description of the service.
        detail: String,
    },
}

/// An invalid field of the tools of a worker.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct FieldError {
    /// JSON Pointer to the field, such as `/tools/0/name`. The number is the position of the tool.
    pub pointer: String,
    /// Explanation of the error.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.pointer, self.message)
    }
}

fn listed(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("\n- {error}")).collect()
}
