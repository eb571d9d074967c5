//! Why a stream cannot be followed any further.

use crate::domain::Vendor;

/// Most bytes of one event: images come whole in one.
pub const MAX_EVENT: usize = 64 * 1024 * 1024;
/// Most calls of one stream.
pub const MAX_CALLS: usize = 1024;

/// Why a stream cannot be followed any further. To go on would risk calls with wrong arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An event's data is no JSON that the service takes.
    #[error("an event of the model's stream is not JSON: {0}")]
    NotJson(String),
    /// An event is larger than [`MAX_EVENT`].
    #[error("an event of the model's stream is larger than {MAX_EVENT} bytes")]
    TooLarge,
    /// There are more calls than [`MAX_CALLS`].
    #[error("the model's stream has more than {MAX_CALLS} calls")]
    TooManyCalls,
    /// The first event is none of a vendor that we know.
    #[error("the first event of the model's stream has no known shape")]
    UnknownShape,
    /// The first event is another vendor's than the caller said.
    #[error("the model's stream is {}, not {}", found.as_str(), expected.as_str())]
    OtherVendor {
        /// Whose it was said to be.
        expected: Vendor,
        /// Whose it is.
        found: Vendor,
    },
    /// An event says something about a call in a way that its vendor does not.
    #[error("an event of the model's stream has no {0}")]
    Misshapen(&'static str),
    /// The provider ended the stream with an error of its own.
    #[error("the model's provider reported an error: {0}")]
    Provider(String),
}
