//! Views: the tools that a caller can call, optionally in a session. All other modules use this rule.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Snapshot, ToolRecord, mangled};
use crate::system_tools;
use toolpost_core::domain::{AllowList, Failure, Group, Naming, Session, json};
use toolpost_core::schema;
use toolpost_tool::executor::ToolRole;

#[cfg(test)]
mod tests;

/// Maximum number of names in the failure of a call of an unknown tool.
const MAX_LISTED_NAMES: usize = 50;
/// Maximum length of this list, in characters.
const MAX_LISTED_CHARS: usize = 2000;
/// Name of the tool that searches tools.
const FINDER: &str = "find_tools";
/// Maximum length of an unknown name repeated to a model, in characters.
const MAX_UNKNOWN_NAME_CHARS: usize = 200;

/// A snapshot restricted to a caller and, optionally, to a session. Creating a view allocates nothing.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    snapshot: &'a Snapshot,
    session: Option<&'a Session>,
    /// The tools that the caller may use; `None` means all.
    allowed: Option<&'a AllowList>,
}

/// The result of looking up a name.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// A tool that can be called.
    Available(&'a Arc<ToolRecord>),
    /// A tool that cannot be called now, because all its groups are inactive, the session lacks it or it is
    /// quarantined.
    Unavailable(&'a Arc<ToolRecord>),
    /// An unknown tool.
    Missing,
}

impl<'a> View<'a> {
    /// Creates a view of a session, or of the whole tenant, restricted to the allowed tools.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, session: Option<&'a Session>, allowed: Option<&'a AllowList>) -> Self {
        Self { snapshot, session, allowed }
    }

    /// Returns the underlying snapshot, without restrictions.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns `true` if the caller is allowed to see a tool of this name.
    fn is_allowed(&self, name: &str) -> bool {
        self.allowed.is_none_or(|allowed| allowed.has(name))
    }

    /// Returns the tool of this name, even if it cannot be called now.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Arc<ToolRecord>> {
        self.snapshot.get(name).filter(|_| self.is_allowed(name))
    }

    /// Returns the session of the view.
    #[must_use]
    pub fn session(&self) -> Option<&'a Session> {
        self.session
    }

    /// Looks up a tool by its name or by the alias that a vendor or MCP clients use. The prefix under which a vendor
    /// shows functions to its models is ignored if no tool has the whole name.
    #[must_use]
    pub fn find(&self, name: &str) -> Lookup<'a> {
        match (self.find_exact(name), mangled::without_prefix(name)) {
            (Lookup::Missing, Some(bare)) => self.find_exact(bare),
            (found, _) => found,
        }
    }

    fn find_exact(&self, name: &str) -> Lookup<'a> {
        match self.snapshot.find(name).filter(|entry| self.is_allowed(&entry.name)) {
            Some(entry) if self.is_available(entry) => Lookup::Available(entry),
            Some(entry) => Lookup::Unavailable(entry),
            None => self.system(name).map_or(Lookup::Missing, Lookup::Available),
        }
    }

    /// Returns the system tool of this name, if the session has activated it.
    fn system(&self, name: &str) -> Option<&'a Arc<ToolRecord>> {
        self.session.filter(|session| session.names(name) && self.is_allowed(name))?;
        self.snapshot.system(name)
    }

    /// Returns `true` if a tool can be called: it is not quarantined, it is in an active group or in none, the caller
    /// is allowed to use it, and the session has it.
    #[must_use]
    pub fn is_available(&self, tool: &ToolRecord) -> bool {
        let tools = self.session.and_then(restriction);
        self.session.is_none_or(|session| tool.is_available_to(session))
            && self.is_allowed(&tool.name)
            && tool.is_switched_on(|group| self.is_active(group))
            && tools.is_none_or(|tools| tools.iter().any(|name| **name == *tool.name))
    }

    /// Returns `true` if a group is active. The session's switch takes precedence over the tenant's.
    #[must_use]
    pub fn is_active(&self, group: &str) -> bool {
        let switched = self.session.and_then(|session| session.groups.get(group));
        switched.copied().unwrap_or_else(|| self.snapshot.groups().get(group).is_some_and(|group| group.active))
    }

    /// Returns all groups by name, each with whether it is active.
    pub fn groups(&self) -> impl Iterator<Item = (&'a Group, bool)> + use<'a> {
        let view = *self;
        self.snapshot.groups().values().map(move |group| (&**group, view.is_active(&group.name)))
    }

    /// Returns the names of the tools in a group, including tools that cannot be called now.
    pub fn members(&self, group: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let view = *self;
        let is_in = move |tool: &ToolRecord| tool.groups.iter().any(|name| name == group);
        let within = move |entry: &&Arc<ToolRecord>| is_in(entry) && view.is_allowed(&entry.name);
        self.snapshot.all().iter().filter(within).map(|entry| &*entry.name)
    }

    /// Returns the tools that can be called, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<ToolRecord>> {
        // A set, because both the session and the tenant can have many tools.
        let tools = self.session.and_then(restriction);
        let tools: Option<HashSet<&str>> = tools.map(|tools| tools.iter().map(String::as_str).collect());
        self.filtered(|entry| {
            tools.as_ref().is_none_or(|tools| tools.contains(&*entry.name))
                && self.session.is_none_or(|session| entry.is_available_to(session))
                && entry.is_switched_on(|group| self.is_active(group))
        })
    }

    /// Returns all tools by name, including tools that cannot be called now, and the system tools that the session has.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ToolRecord>> {
        self.filtered(|_| true)
    }

    /// Returns the allowed tools that match a condition, and the system tools that the session has.
    fn filtered(&self, is_included: impl Fn(&ToolRecord) -> bool) -> Vec<Arc<ToolRecord>> {
        let is_allowed = |entry: &&Arc<ToolRecord>| self.is_allowed(&entry.name);
        let allowed = self.snapshot.all().iter().filter(is_allowed);
        let mut list: Vec<Arc<ToolRecord>> = allowed.filter(|entry| is_included(entry)).cloned().collect();
        if let Some(session) = self.session {
            let systems = self.snapshot.systems().filter(is_allowed);
            list.extend(systems.filter(|entry| session.names(&entry.name)).cloned());
            list.sort_by(|one, other| one.name.cmp(&other.name));
        }
        list
    }

    /// Returns the callable tools that match a query, best first, each with its score.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<(Arc<ToolRecord>, f64)> {
        let mut found = self.snapshot.search_all(query);
        found.retain(|(entry, _)| self.is_available(entry));
        found
    }

    /// Returns all tools that match a query, including tools that cannot be called now.
    #[must_use]
    pub fn search_all(&self, query: &str) -> Vec<(Arc<ToolRecord>, f64)> {
        let mut found = self.snapshot.search_all(query);
        found.retain(|(entry, _)| self.is_allowed(&entry.name));
        found
    }

    /// Returns the failure of a call of an unknown tool, with the names of callable tools in the caller's format.
    #[must_use]
    pub fn not_found(&self, name: &str, naming: impl Into<Naming>) -> Failure {
        let (list, naming) = (self.list(), naming.into());
        let mut names: Vec<&str> = list.iter().filter_map(|entry| self.snapshot.name_for(entry, naming)).collect();
        let nearest = nearest(name, &names);
        let is_cut = fitting(&names) < names.len();
        if is_cut {
            schema::sort_by_nearness(name, &mut names);
            // The suggested name is the nearest by edit distance and may not be the first in the order by shared parts.
            if let Some(index) = names.iter().position(|name| Some(*name) == nearest) {
                names[..=index].rotate_right(1);
            }
        }
        let (listed, others) = names.split_at(fitting(&names));
        let failure = Failure::not_found(&json::shorten(name, MAX_UNKNOWN_NAME_CHARS), listed, nearest);
        if is_cut { failure.and_more_tools(others.len(), self.finder(naming)) } else { failure }
    }

    /// Returns the name of the search tool, if it can be called in this view.
    fn finder(&self, naming: Naming) -> Option<&'a str> {
        let Lookup::Available(entry) = self.find(FINDER) else { return None };
        self.snapshot.name_for(entry, naming).filter(|_| entry.role == Some(ToolRole::Search))
    }
}

/// Returns the names that a session is restricted to. A list that names only system tools restricts nothing.
fn restriction(session: &Session) -> Option<&[String]> {
    let tools = session.tools.as_deref()?;
    let names_others = tools.iter().any(|name| !system_tools::NAMES.contains(&name.as_str()));
    (names_others || tools.is_empty()).then_some(tools)
}

/// Returns the name that was most likely meant: the name of a tool within the given text, or else a similar name.
fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let known = |candidate: &str| names.iter().copied().find(|name| *name == candidate);
    let similar = |candidate: &str| schema::nearest(candidate, names.iter().copied());
    let parts = || mangled::candidates(wanted).into_iter();
    similar(wanted).or_else(|| parts().find_map(known)).or_else(|| parts().find_map(similar))
}

/// Returns how many of the names fit into the list of callable tools.
fn fitting(names: &[&str]) -> usize {
    let mut chars = 0;
    let fits = |name: &&&str| {
        // Names are ASCII. A comma and a space precede all but the first.
        chars += name.len() + if chars == 0 { 0 } else { 2 };
        chars <= MAX_LISTED_CHARS
    };
    names.iter().take(MAX_LISTED_NAMES).take_while(fits).count()
}

impl<'a> From<&'a Snapshot> for View<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        Self::new(snapshot, None, None)
    }
}

impl Snapshot {
    /// Returns the failure of a call of an unknown tool, outside of a session.
    #[must_use]
    pub fn not_found(&self, name: &str, naming: impl Into<Naming>) -> Failure {
        View::from(self).not_found(name, naming)
    }
}
