//! The cached JSON of an ended call.

use std::sync::OnceLock;

use bytes::Bytes;

/// The call as compact JSON, rendered at most once. A clone starts empty, because the cloned call can change.
#[derive(Debug, Default)]
pub struct JsonCache(OnceLock<Bytes>);

impl JsonCache {
    /// Returns the JSON if it was stored.
    #[must_use]
    pub fn get(&self) -> Option<&Bytes> {
        self.0.get()
    }

    /// Stores the JSON. Later values are ignored.
    pub fn keep(&self, json: Bytes) {
        let _ = self.0.set(json);
    }
}

impl Clone for JsonCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}
