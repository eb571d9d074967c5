//! What a caller sees at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::Entry;
use super::definitions::Kept;
use super::entry::etag_of;
use super::of_session;
use super::search::Index;
use crate::domain::{Failure, Vendor, json};
use crate::formats::alias;
use crate::schema;

/// Names told to a model that asked for an unknown tool.
const NAMES_TOLD: usize = 500;
/// Longest unknown name repeated to a model, in characters.
const LONGEST_NAME_TOLD: usize = 200;

/// All tools by name, and in the stable order of lists.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_name: HashMap<String, Arc<Entry>>,
    by_alias: HashMap<String, Arc<Entry>>,
    /// The aliases of tools whose names some vendor refuses.
    aliases: HashMap<Arc<str>, String>,
    list: Vec<Arc<Entry>>,
    /// Tools that are there only in sessions that name them. A registered tool of the same name is in their place.
    systems: Vec<Arc<Entry>>,
    etag: OnceLock<String>,
    index: OnceLock<Index>,
    pub(super) kept: Kept,
}

impl Snapshot {
    pub(super) fn new(mut shown: BTreeMap<String, Arc<Entry>>) -> Self {
        let systems = shown.extract_if(.., |_, entry| of_session::is_system(entry)).map(|(_, entry)| entry).collect();
        let list: Vec<Arc<Entry>> = shown.values().cloned().collect();
        let (mut by_alias, mut aliases) = (HashMap::new(), HashMap::new());
        for (name, alias) in alias::aliases(shown.keys().map(String::as_str)) {
            by_alias.insert(alias.clone(), shown[name].clone());
            aliases.insert(shown[name].name.clone(), alias);
        }
        Self { by_name: shown.into_iter().collect(), by_alias, aliases, list, systems, ..Self::default() }
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// The tool that is called by this name: its own, or the alias under which some vendor knows it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).or_else(|| self.by_alias.get(name))
    }

    /// The name under which this vendor's models know the tool; `None` if they cannot.
    #[must_use]
    pub fn name_for<'a>(&'a self, entry: &'a Entry, vendor: Option<Vendor>) -> Option<&'a str> {
        match vendor {
            Some(vendor) if !alias::is_taken_by(vendor, &entry.name) => {
                self.aliases.get(&entry.name).map(String::as_str)
            }
            _ => Some(&entry.name),
        }
    }

    /// All tools by name.
    #[must_use]
    pub fn list(&self) -> &[Arc<Entry>] {
        &self.list
    }

    /// The tools that are there only in sessions that name them.
    #[must_use]
    pub fn systems(&self) -> &[Arc<Entry>] {
        &self.systems
    }

    /// Changes with anything that a list shows.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| {
            let tags: Vec<&str> = self.list.iter().map(|entry| entry.etag()).collect();
            etag_of(tags.concat().as_bytes())
        })
    }

    /// The tools that fit a query, best first, each with its score.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        let index = self.index.get_or_init(|| Index::new(self.list.iter().map(|entry| &entry.definition)));
        index.search(query).into_iter().map(|(place, score)| (self.list[place].clone(), score)).collect()
    }

    /// What a model of this vendor is told that asked for a tool that there is not.
    #[must_use]
    pub fn not_found(&self, name: &str, vendor: Option<Vendor>) -> Failure {
        let names: Vec<&str> = self.list.iter().filter_map(|entry| self.name_for(entry, vendor)).collect();
        let nearest = schema::nearest(name, names.iter().copied());
        let told = &names[..names.len().min(NAMES_TOLD)];
        Failure::not_found(&json::shorten(name, LONGEST_NAME_TOLD), told, nearest)
    }
}
