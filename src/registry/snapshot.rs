//! Snapshots: immutable sets of the tools of a tenant.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Entry;
use super::entry::etag_of;
use super::search::Index;
use crate::domain::{Groups, NameSeparator, Naming, Source, Vendor};
use crate::executor::ToolRole;
use crate::formats::alias;
use crate::formats::definitions::Format;

/// An immutable set of entries, by name and in the stable order of lists.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_name: HashMap<String, Arc<Entry>>,
    by_alias: HashMap<String, Arc<Entry>>,
    /// Aliases of tools whose names some vendor rejects.
    aliases: HashMap<Arc<str>, String>,
    /// Names over MCP of the tools whose own name is invalid there.
    names_over_mcp: HashMap<Arc<str>, String>,
    /// All tools, including inactive ones.
    all: Vec<Arc<Entry>>,
    /// The tools that can be called without a session.
    list: Vec<Arc<Entry>>,
    groups: Groups,
    /// System tools, which only sessions that name them have. A registered tool of the same name replaces a system
    /// tool.
    systems: Vec<Arc<Entry>>,
    etag: OnceLock<String>,
    index: OnceLock<Index>,
    /// The rendered lists, by format and whether they contain losses.
    pub(super) rendered_lists: [[OnceLock<Rendered>; 2]; Format::COUNT],
}

/// A list as it is sent.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// JSON, or Markdown for [`Format::Prompt`].
    pub body: Bytes,
    /// The entity tag of the body.
    pub etag: String,
}

impl Rendered {
    /// Creates a list from its body.
    #[must_use]
    pub fn new(body: Bytes) -> Self {
        Self { etag: etag_of(&body), body }
    }
}

impl Snapshot {
    pub(super) fn new(mut tools: BTreeMap<String, Arc<Entry>>, groups: Groups, separator: &NameSeparator) -> Self {
        let systems: Vec<Arc<Entry>> =
            tools.extract_if(.., |_, entry| is_system(entry)).map(|(_, entry)| entry).collect();
        let all: Vec<Arc<Entry>> = tools.values().cloned().collect();
        // Aliases must not collide with the names of system tools, which sessions have as well.
        let names = tools.keys().map(String::as_str).chain(systems.iter().map(|entry| &*entry.name));
        let refused = alias::aliases(names.clone());
        let joined = alias::over_mcp(names, &refused, separator.as_str());
        let mut by_alias = HashMap::new();
        for (name, alias) in refused.iter().chain(&joined) {
            by_alias.insert(alias.clone(), tools[*name].clone());
        }
        let by_tool = |names: HashMap<&str, String>| -> HashMap<Arc<str>, String> {
            names.into_iter().map(|(name, alias)| (tools[name].name.clone(), alias)).collect()
        };
        let (aliases, names_over_mcp) = (by_tool(refused), by_tool(joined));
        let by_name = tools.into_iter().collect();
        let is_active = |group: &str| groups.get(group).is_some_and(|group| group.active);
        let list = all.iter().filter(|entry| entry.is_switched_on(is_active)).cloned().collect();
        Self { by_name, by_alias, aliases, names_over_mcp, all, list, groups, systems, ..Self::default() }
    }

    /// Returns the tool of this name, even if it cannot be called.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// Returns the tool with this name or alias, even if it cannot be called. Vendors and MCP clients use the aliases.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).or_else(|| self.by_alias.get(name))
    }

    /// Returns the name of the tool in this naming, or `None` if it has no valid name there.
    #[must_use]
    pub fn name_for<'a>(&'a self, entry: &'a Entry, naming: impl Into<Naming>) -> Option<&'a str> {
        let (vendor, names) = match naming.into() {
            Naming::Own => return Some(&entry.name),
            Naming::Vendor(vendor) => (vendor, &self.aliases),
            // MCP clients pass names on to any vendor, and Gemini has the narrowest rule.
            Naming::Mcp => (Vendor::Gemini, &self.names_over_mcp),
        };
        if alias::is_taken_by(vendor, &entry.name) {
            return Some(&entry.name);
        }
        names.get(&entry.name).map(String::as_str)
    }

    /// Returns all tools by name, including tools that cannot be called now.
    #[must_use]
    pub fn all(&self) -> &[Arc<Entry>] {
        &self.all
    }

    /// Returns all groups by name.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the tools that can be called without a session, by name.
    #[must_use]
    pub fn list(&self) -> &[Arc<Entry>] {
        &self.list
    }

    /// Returns the tools that only sessions that name them have.
    #[must_use]
    pub fn systems(&self) -> &[Arc<Entry>] {
        &self.systems
    }

    /// Returns the system tool of this name, for any session.
    #[must_use]
    pub fn system(&self, name: &str) -> Option<&Arc<Entry>> {
        self.systems.iter().find(|entry| *entry.name == *name)
    }

    /// Returns an entity tag that changes with every change of a list.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| {
            let tags: Vec<&str> = self.list.iter().map(|entry| entry.etag()).collect();
            etag_of(tags.concat().as_bytes())
        })
    }

    /// Returns all tools that match a query, best first, each with its score.
    #[must_use]
    pub fn search_all(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        let index = self.index.get_or_init(|| Index::new(self.all.iter().map(|entry| &entry.definition)));
        index.search(query).into_iter().map(|(place, score)| (self.all[place].clone(), score)).collect()
    }
}

/// Returns `true` for a built-in system tool. A registered tool with the same executor is an ordinary tool.
fn is_system(entry: &Entry) -> bool {
    matches!(entry.role, Some(ToolRole::Session(_))) && entry.made.source == Source::Builtin
}
