//! Snapshots: immutable sets of the tools of a tenant.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::ToolRecord;
use super::compiled::CompiledMemory;
use super::entry::etag_of;
use super::name_map::NameMap;
use super::names::Aliases;
use super::rendered::RenderedLists;
use super::tool_index::ToolIndex;
use toolpost_core::domain::{Groups, NameSeparator, Naming, Source};
use toolpost_tool::executor::ToolRole;

pub use super::rendered::RenderedTools;

/// An immutable set of tools, by name and in the stable order of lists. A changed snapshot shares all unchanged tools
/// with the one before. Its lists are created on first use.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_name: NameMap<Arc<ToolRecord>>,
    aliases: Aliases,
    /// All tools, including inactive ones.
    all: OnceLock<Vec<Arc<ToolRecord>>>,
    /// The tools that can be called without a session.
    list: OnceLock<Vec<Arc<ToolRecord>>>,
    groups: Arc<Groups>,
    /// System tools, which only sessions that name them have. A registered tool of the same name replaces a system
    /// tool.
    systems: Arc<BTreeMap<Arc<str>, Arc<ToolRecord>>>,
    etag: OnceLock<String>,
    /// The search index, which the snapshots of a tenant share.
    index: Arc<ToolIndex>,
    pub(super) rendered: RenderedLists,
}

/// The changes of a snapshot: the new tool of each name, or `None` if it was removed.
pub(super) type ToolChanges = Vec<(Arc<str>, Option<Arc<ToolRecord>>)>;

impl Snapshot {
    /// Creates an empty snapshot, whose rendered lists count for this memory.
    pub(super) fn empty(separator: &NameSeparator, memory: &Arc<CompiledMemory>) -> Self {
        let aliases = Aliases::new(std::iter::empty(), separator);
        let (rendered, index) = (RenderedLists::new(Some(memory.clone())), ToolIndex::new(Some(memory.clone())));
        Self { aliases, rendered, index: Arc::new(index), ..Self::default() }
    }

    /// Returns the snapshot after these changes of its tools and with these groups.
    pub(super) fn with_changes(&self, changes: ToolChanges, groups: Arc<Groups>, separator: &NameSeparator) -> Self {
        let (mut by_name, mut aliases, mut systems) =
            (self.by_name.clone(), self.aliases.clone(), self.systems.clone());
        // The aliases of a first snapshot are created together.
        let mut keeps_aliases = !self.is_empty();
        for (name, record) in changes {
            let (system, tool) = match record {
                Some(record) if is_system(&record) => (Some(record), None),
                tool => (None, tool),
            };
            if system.is_some() || systems.contains_key(&name) {
                keeps_aliases = false;
                let systems = Arc::make_mut(&mut systems);
                match system {
                    Some(system) => drop(systems.insert(name.clone(), system)),
                    None => drop(systems.remove(&name)),
                }
            }
            match tool {
                Some(tool) => {
                    let is_name = |name: &str| by_name.get(name).is_some() || systems.contains_key(name);
                    let is_new = by_name.get(&name).is_none();
                    keeps_aliases = keeps_aliases && (!is_new || aliases.add(&name, is_name));
                    by_name.insert(name, tool);
                }
                None if by_name.remove(&name).is_some() => keeps_aliases = keeps_aliases && aliases.remove(&name),
                None => {}
            }
        }
        if !keeps_aliases {
            // Aliases must not collide with the names of system tools, which sessions have as well.
            let mut names: Vec<&Arc<str>> = by_name.iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            aliases = Aliases::new(names.into_iter().chain(systems.keys()), separator);
        }
        let (rendered, index) = (self.rendered.of_next(keeps_aliases), self.index.clone());
        Self { by_name, aliases, groups, systems, rendered, index, ..Self::default() }
    }

    /// Returns the number of buckets that this snapshot does not share with another one.
    #[cfg(test)]
    pub(super) fn copied_buckets(&self, other: &Self) -> usize {
        self.by_name.copied_buckets(&other.by_name)
    }

    /// Returns `true` if a list was created.
    #[cfg(test)]
    pub(super) fn has_lists(&self) -> bool {
        self.all.get().is_some() || self.list.get().is_some() || self.index.len() > 0
    }

    /// Returns the number of tools, including inactive ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns `true` if the snapshot has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tool of this name, even if it cannot be called.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<ToolRecord>> {
        self.by_name.get(name)
    }

    /// Returns the tool with this name or alias, even if it cannot be called. Vendors and MCP clients use the aliases.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<ToolRecord>> {
        self.get(name).or_else(|| self.get(self.aliases.tool(name)?))
    }

    /// Returns the name of the tool in this naming, or `None` if it has no valid name there.
    #[must_use]
    pub fn name_for<'a>(&'a self, tool: &'a ToolRecord, naming: impl Into<Naming>) -> Option<&'a str> {
        self.aliases.name_for(&tool.name, naming.into())
    }

    /// Returns all tools by name, including tools that cannot be called now.
    #[must_use]
    pub fn all(&self) -> &[Arc<ToolRecord>] {
        self.all.get_or_init(|| {
            let mut all: Vec<Arc<ToolRecord>> = self.by_name.iter().map(|(_, record)| record.clone()).collect();
            all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            all
        })
    }

    /// Returns all groups by name.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the groups, to be shared with the next snapshot.
    pub(super) fn shared_groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Returns the tools that can be called without a session, by name.
    #[must_use]
    pub fn list(&self) -> &[Arc<ToolRecord>] {
        self.list.get_or_init(|| {
            let is_active = |group: &str| self.groups.get(group).is_some_and(|group| group.active);
            self.all().iter().filter(|record| record.is_switched_on(is_active)).cloned().collect()
        })
    }

    /// Returns the tools that only sessions that name them have, by name.
    pub fn systems(&self) -> impl Iterator<Item = &Arc<ToolRecord>> {
        self.systems.values()
    }

    /// Returns the system tool of this name, for any session.
    #[must_use]
    pub fn system(&self, name: &str) -> Option<&Arc<ToolRecord>> {
        self.systems.get(name)
    }

    /// Returns an entity tag that changes with every change of a list.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| {
            let tags: Vec<&str> = self.list().iter().map(|record| record.etag()).collect();
            etag_of(tags.concat().as_bytes())
        })
    }

    /// Returns all tools that match a query, best first, each with its score.
    #[must_use]
    pub fn search_all(&self, query: &str) -> Vec<(Arc<ToolRecord>, f64)> {
        self.index.search(&self.by_name, query)
    }
}

/// Returns `true` for a built-in system tool. A registered tool with the same executor is an ordinary tool.
fn is_system(record: &ToolRecord) -> bool {
    matches!(record.role, Some(ToolRole::Session(_))) && record.made.source == Source::Builtin
}
