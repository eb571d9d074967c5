//! What there is at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::Entry;
use super::entry::etag_of;
use super::rendered::RenderedCache;
use super::search::Index;
use crate::domain::{Groups, NameSeparator, Naming, Source, Vendor};
use crate::executor::ToolRole;
use crate::formats::alias;

/// All tools by name, and in the stable order of lists.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_name: HashMap<String, Arc<Entry>>,
    by_alias: HashMap<String, Arc<Entry>>,
    /// The aliases of tools whose names some vendor refuses.
    aliases: HashMap<Arc<str>, String>,
    /// The names over MCP of the same tools.
    names_over_mcp: HashMap<Arc<str>, String>,
    /// All of them, active or not.
    all: Vec<Arc<Entry>>,
    /// Those that everybody can call.
    list: Vec<Arc<Entry>>,
    groups: Groups,
    /// Tools that are there only in sessions that name them. A registered tool of the same name is in their place.
    systems: Vec<Arc<Entry>>,
    etag: OnceLock<String>,
    index: OnceLock<Index>,
    pub(super) kept: RenderedCache,
}

impl Snapshot {
    pub(super) fn new(mut shown: BTreeMap<String, Arc<Entry>>, groups: Groups, separator: &NameSeparator) -> Self {
        let systems: Vec<Arc<Entry>> =
            shown.extract_if(.., |_, entry| is_system(entry)).map(|(_, entry)| entry).collect();
        let all: Vec<Arc<Entry>> = shown.values().cloned().collect();
        // Within a session the system tools have names, too.
        let names = shown.keys().map(String::as_str).chain(systems.iter().map(|entry| &*entry.name));
        let refused = alias::aliases(names.clone());
        let joined = alias::over_mcp(names, &refused, separator.as_str());
        let mut by_alias = HashMap::new();
        for (name, alias) in refused.iter().chain(&joined) {
            by_alias.insert(alias.clone(), shown[*name].clone());
        }
        let by_tool = |names: HashMap<&str, String>| -> HashMap<Arc<str>, String> {
            names.into_iter().map(|(name, alias)| (shown[name].name.clone(), alias)).collect()
        };
        let (aliases, names_over_mcp) = (by_tool(refused), by_tool(joined));
        let by_name = shown.into_iter().collect();
        let is_active = |group: &str| groups.get(group).is_some_and(|group| group.active);
        let list = all.iter().filter(|entry| entry.is_switched_on(is_active)).cloned().collect();
        Self { by_name, by_alias, aliases, names_over_mcp, all, list, groups, systems, ..Self::default() }
    }

    /// The tool of this name, whether or not it can be called.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// The tool that is called by this name: its own, or the one under which some vendor or clients of MCP know it;
    /// whether or not it can be called.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).or_else(|| self.by_alias.get(name))
    }

    /// The name under which the tool is shown there; `None` if it cannot be.
    #[must_use]
    pub fn name_for<'a>(&'a self, entry: &'a Entry, naming: impl Into<Naming>) -> Option<&'a str> {
        let (vendor, names) = match naming.into() {
            Naming::Own => return Some(&entry.name),
            Naming::Vendor(vendor) => (vendor, &self.aliases),
            // Its clients pass names on to any vendor, and this one has the narrowest rule.
            Naming::Mcp => (Vendor::Gemini, &self.names_over_mcp),
        };
        if alias::is_taken_by(vendor, &entry.name) {
            return Some(&entry.name);
        }
        names.get(&entry.name).map(String::as_str)
    }

    /// All tools by name, those included that cannot be called now.
    #[must_use]
    pub fn all(&self) -> &[Arc<Entry>] {
        &self.all
    }

    /// All groups by name.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The tools that everybody can call, by name.
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

    /// All tools that fit a query, best first, each with its score.
    #[must_use]
    pub fn search_all(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        let index = self.index.get_or_init(|| Index::new(self.all.iter().map(|entry| &entry.definition)));
        index.search(query).into_iter().map(|(place, score)| (self.all[place].clone(), score)).collect()
    }
}

/// Whether it is a system tool as it comes with the program. A registered one with its code is a tool like any other.
fn is_system(entry: &Entry) -> bool {
    matches!(entry.role, Some(ToolRole::Session(_))) && entry.made.source == Source::Builtin
}
