//! Lists of tools as they are sent, and those that a snapshot keeps.

use std::sync::OnceLock;

use bytes::Bytes;

use super::entry::etag_of;
use crate::formats::definitions::Format;

/// A list as it is sent.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// JSON, or Markdown for [`Format::Prompt`].
    pub body: Bytes,
    /// Changes with it.
    pub etag: String,
}

/// Lists that were asked for, by format and whether losses are told.
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
