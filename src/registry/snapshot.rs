//! What a caller sees at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::Entry;
use super::entry::etag_of;
use crate::domain::{Failure, json};
use crate::schema;

/// Names told to a model that asked for an unknown tool.
const NAMES_TOLD: usize = 500;
/// Longest unknown name repeated to a model, in characters.
const LONGEST_NAME_TOLD: usize = 200;

/// All tools by name, and in the stable order of lists.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_name: HashMap<String, Arc<Entry>>,
    list: Vec<Arc<Entry>>,
    etag: OnceLock<String>,
}

impl Snapshot {
    pub(super) fn new(shown: BTreeMap<String, Arc<Entry>>) -> Self {
        let list = shown.values().cloned().collect();
        Self { by_name: shown.into_iter().collect(), list, etag: OnceLock::new() }
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// All tools by name.
    #[must_use]
    pub fn list(&self) -> &[Arc<Entry>] {
        &self.list
    }

    /// Changes with anything that a list shows.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| {
            let tags: Vec<&str> = self.list.iter().map(|entry| entry.etag()).collect();
            etag_of(tags.concat().as_bytes())
        })
    }

    /// What a model is told that asked for a tool that there is not.
    #[must_use]
    pub fn not_found(&self, name: &str) -> Failure {
        let names: Vec<&str> = self.list.iter().map(|entry| &*entry.name).collect();
        let nearest = schema::nearest(name, names.iter().copied());
        let told = &names[..names.len().min(NAMES_TOLD)];
        Failure::not_found(&json::shorten(name, LONGEST_NAME_TOLD), told, nearest)
    }
}
