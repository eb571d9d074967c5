//! Errors of model streams.

use crate::domain::Vendor;

/// Maximum size of an event, in bytes: an image is a single event.
pub const MAX_EVENT: usize = 64 * 1024 * 1024;
/// Maximum number of calls in a stream.
pub const MAX_CALLS: usize = 1024;

/// An error that ends the parsing of a stream. Continuing would risk calls with wrong arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The data of an event is not valid JSON.
    #[error("an event of the model's stream is not JSON: {0}")]
    NotJson(String),
    /// An event is larger than `MAX_EVENT`.
    #[error("an event of the model's stream is larger than {MAX_EVENT} bytes")]
    TooLarge,
    /// The stream has more calls than `MAX_CALLS`.
    #[error("the model's stream has more than {MAX_CALLS} calls")]
    TooManyCalls,
    /// The format of the first event is unknown.
    #[error("the first event of the model's stream has no known shape")]
    UnknownShape,
    /// The first event is in another vendor's format than the caller specified.
    #[error("the model's stream is {}, not {}", found.as_str(), expected.as_str())]
    OtherVendor {
        /// The vendor that the caller specified.
        expected: Vendor,
        /// The detected vendor.
        found: Vendor,
    },
    /// An event about a call does not match the vendor's format.
    #[error("an event of the model's stream has no valid {0}")]
    Misshapen(&'static str),
    /// The provider ended the stream with an error.
    #[error("the model's provider reported an error: {0}")]
    Provider(String),
}
