//! JSON in segments: existing long texts become segments of their own and are not copied.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;

use crate::domain::JsonText;

/// Minimum length of a text that becomes a segment of its own, in bytes.
const MIN_SEGMENT_BYTES: usize = 16 * 1024;

/// A JSON writer. It dereferences to the current segment.
#[derive(Debug, Default)]
pub struct Pieces {
    done: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    /// Creates a writer with the given capacity.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { done: Vec::new(), last: Vec::with_capacity(bytes) }
    }

    /// Appends serialized JSON.
    pub(super) fn push_text(&mut self, text: &JsonText) {
        if text.get().len() < MIN_SEGMENT_BYTES {
            return self.last.extend_from_slice(text.get().as_bytes());
        }
        self.push_bytes(&Bytes::from_owner(text.clone()));
    }

    /// Appends serialized JSON in bytes.
    pub(super) fn push_bytes(&mut self, json: &Bytes) {
        if json.len() < MIN_SEGMENT_BYTES {
            return self.last.extend_from_slice(json);
        }
        if !self.last.is_empty() {
            self.done.push(std::mem::take(&mut self.last).into());
        }
        self.done.push(json.clone());
    }

    /// Returns all segments in order.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Bytes> {
        let Self { mut done, last } = self;
        if done.is_empty() || !last.is_empty() {
            done.push(last.into());
        }
        done
    }

    /// Returns all segments, joined.
    #[must_use]
    pub fn joined(self) -> Bytes {
        match self.done.is_empty() {
            true => self.last.into(),
            false => self.into_pieces().concat().into(),
        }
    }
}

impl Deref for Pieces {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.last
    }
}

impl DerefMut for Pieces {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }
}
