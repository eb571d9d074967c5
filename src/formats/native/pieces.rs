//! JSON in pieces: long texts that are there already stand in it as they are, and are not copied.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;

use crate::domain::JsonText;

/// Shortest text, in bytes, that is a piece of its own.
const LONG: usize = 16 * 1024;

/// JSON that is being written. What it derefs to is the piece in hand.
#[derive(Debug, Default)]
pub struct Pieces {
    done: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    /// Begins with so much room.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { done: Vec::new(), last: Vec::with_capacity(bytes) }
    }

    /// Appends JSON that is written already.
    pub(super) fn push_text(&mut self, text: &JsonText) {
        if text.get().len() < LONG {
            return self.last.extend_from_slice(text.get().as_bytes());
        }
        self.push_bytes(&Bytes::from_owner(text.clone()));
    }

    /// The same where it is bytes.
    pub(super) fn push_bytes(&mut self, json: &Bytes) {
        if json.len() < LONG {
            return self.last.extend_from_slice(json);
        }
        if !self.last.is_empty() {
            self.done.push(std::mem::take(&mut self.last).into());
        }
        self.done.push(json.clone());
    }

    /// All pieces in order.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Bytes> {
        let Self { mut done, last } = self;
        if done.is_empty() || !last.is_empty() {
            done.push(last.into());
        }
        done
    }

    /// All of it in one piece.
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
