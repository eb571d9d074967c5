//! Rendered lists of tools and their cache.

use std::sync::OnceLock;

use bytes::Bytes;

use super::entry::etag_of;
use crate::formats::definitions::Format;

/// A list as it is sent.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// JSON, or Markdown for [`Format::Prompt`].
    pub body: Bytes,
    /// The entity tag of the body.
    pub etag: String,
}

/// The rendered lists of a snapshot, by format and whether they contain losses.
#[derive(Debug, Default)]
pub(super) struct RenderedCache(pub(super) [[OnceLock<Rendered>; 2]; Format::ALL.len()]);

impl From<Vec<u8>> for Rendered {
    fn from(body: Vec<u8>) -> Self {
        Self { etag: etag_of(&body), body: body.into() }
    }
}

impl From<Bytes> for Rendered {
    fn from(body: Bytes) -> Self {
        Self { etag: etag_of(&body), body }
    }
}
