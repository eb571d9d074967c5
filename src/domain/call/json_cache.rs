//! The JSON of a call that nothing happens to any more.

use std::sync::OnceLock;

use bytes::Bytes;

/// The call as compact JSON, as callers see it, once somebody has written it. A copy has none: something may happen to it.
#[derive(Debug, Default)]
pub struct JsonCache(OnceLock<Bytes>);

impl JsonCache {
    /// The JSON, if it is there.
    #[must_use]
    pub fn get(&self) -> Option<&Bytes> {
        self.0.get()
    }

    /// Keeps the JSON for whoever asks. The first stays.
    pub fn keep(&self, json: Bytes) {
        let _ = self.0.set(json);
    }
}

impl Clone for JsonCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}
