//! A layer: the tools of one source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ToolRecord;

/// The names of changed tools.
pub(super) type ChangedNames = BTreeSet<Arc<str>>;

/// The tools of one source by name.
#[derive(Debug, Default)]
pub(super) struct Layer {
    tools: BTreeMap<Arc<str>, Arc<ToolRecord>>,
    /// The tools whose definition has a URL.
    remote: BTreeMap<Arc<str>, Arc<ToolRecord>>,
    /// The number of tools that name each group.
    groups: BTreeMap<String, usize>,
    /// A number that changes with the names of the groups.
    groups_version: u64,
}

impl Layer {
    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolRecord>> {
        self.tools.get(name)
    }

    /// Returns all tools by name.
    pub fn values(&self) -> impl Iterator<Item = &Arc<ToolRecord>> {
        self.tools.values()
    }

    /// Returns the tools whose definition has a URL, by name.
    pub fn remote(&self) -> impl Iterator<Item = &Arc<ToolRecord>> {
        self.remote.values()
    }

    /// Returns the names of the groups that tools name.
    pub fn groups(&self) -> impl Iterator<Item = &String> {
        self.groups.keys()
    }

    /// Returns a number that differs after each change of these names.
    pub fn groups_version(&self) -> u64 {
        self.groups_version
    }

    /// Adds or replaces a tool.
    pub fn insert(&mut self, record: Arc<ToolRecord>) {
        for group in &record.groups {
            let count = self.groups.entry(group.clone()).or_insert(0);
            self.groups_version += u64::from(*count == 0);
            *count += 1;
        }
        self.remote.remove(&record.name);
        if record.url().is_some() {
            self.remote.insert(record.name.clone(), record.clone());
        }
        let before = self.tools.insert(record.name.clone(), record);
        self.forget(before);
    }

    /// Removes a tool.
    pub fn remove(&mut self, name: &str) {
        self.remote.remove(name);
        let before = self.tools.remove(name);
        self.forget(before);
    }

    /// Counts the groups of a removed tool.
    fn forget(&mut self, before: Option<Arc<ToolRecord>>) {
        for group in before.iter().flat_map(|record| &record.groups) {
            let count = self.groups.get_mut(group);
            if count.is_some_and(|count| {
                *count = count.saturating_sub(1);
                *count == 0
            }) {
                self.groups.remove(group);
                self.groups_version += 1;
            }
        }
    }

    /// Replaces the tools that match a condition by `fresh`, and adds the names of all changed tools.
    pub fn replace(
        &mut self,
        fresh: BTreeMap<Arc<str>, Arc<ToolRecord>>,
        is_replaced: impl Fn(&str) -> bool,
        changed: &mut ChangedNames,
    ) {
        let gone = self.tools.keys().filter(|name| is_replaced(name) && !fresh.contains_key(*name));
        let gone: Vec<Arc<str>> = gone.cloned().collect();
        for name in gone {
            self.remove(&name);
            changed.insert(name);
        }
        for (name, record) in fresh {
            if !self.get(&name).is_some_and(|known| Arc::ptr_eq(known, &record)) {
                self.insert(record);
                changed.insert(name);
            }
        }
    }
}
