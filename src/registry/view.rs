//! Which tools can be called, by everybody or in one session: the one place with the rule.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Entry, Snapshot};
use crate::domain::{AllowList, Failure, Group, Naming, Session, json};
use crate::executor::ToolRole;
use crate::schema;

#[cfg(test)]
mod tests;

/// Maximum number of names told to a model that asked for an unknown tool.
const MAX_NAMES_TOLD: usize = 50;
/// Maximum length of their list, in characters.
const MAX_CHARS_TOLD: usize = 2000;
/// Name of the tool that finds other tools.
const FINDER: &str = "find_tools";
/// Longest unknown name repeated to a model, in characters.
const LONGEST_NAME_TOLD: usize = 200;

/// The tools as one session sees them, and whoever asks; without a session as everybody of the tenant does. Costs nothing to
/// make.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    snapshot: &'a Snapshot,
    session: Option<&'a Session>,
    /// Others are not there.
    allowed: Option<&'a AllowList>,
}

/// What there is under a name.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// A tool that can be called.
    Available(&'a Arc<Entry>),
    /// A tool that cannot be called now: all its groups are inactive, or the session does not have it.
    Unavailable(&'a Arc<Entry>),
    /// No tool.
    Missing,
}

impl<'a> View<'a> {
    /// What this session sees, for whom there are these tools only, or all of the tenant.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, session: Option<&'a Session>, allowed: Option<&'a AllowList>) -> Self {
        Self { snapshot, session, allowed }
    }

    /// All tools beneath, whoever sees them.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Whether a tool of this name can exist for whoever asks.
    fn may_be(&self, name: &str) -> bool {
        self.allowed.is_none_or(|allowed| allowed.has(name))
    }

    /// Whether whoever asks sees what everybody of the tenant does.
    #[must_use]
    pub fn is_everybodys(&self) -> bool {
        self.session.is_none() && self.allowed.is_none()
    }

    /// The tool of this name, whether or not it can be called.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Arc<Entry>> {
        self.snapshot.get(name).filter(|_| self.may_be(name))
    }

    /// The session whose view it is.
    #[must_use]
    pub fn session(&self) -> Option<&'a Session> {
        self.session
    }

    /// The tool that is called by this name: its own, or the one under which some vendor or clients of MCP know it.
    #[must_use]
    pub fn find(&self, name: &str) -> Lookup<'a> {
        match self.snapshot.find(name).filter(|entry| self.may_be(&entry.name)) {
            Some(entry) if self.is_available(entry) => Lookup::Available(entry),
            Some(entry) => Lookup::Unavailable(entry),
            None => self.system(name).map_or(Lookup::Missing, Lookup::Available),
        }
    }

    /// The system tool of this name, if it is on in the session.
    fn system(&self, name: &str) -> Option<&'a Arc<Entry>> {
        self.session.filter(|_| self.may_be(name)).and_then(|session| self.snapshot.system_of(session, name))
    }

    /// The names that the session is restricted to, if it is.
    fn restriction(&self) -> Option<&'a [String]> {
        self.session.and_then(|session| self.snapshot.restriction(session))
    }

    /// Whether a tool can be called: one of its groups is active, or it is in none; and the session has it, if that has
    /// tools of its own. A tool that is withheld cannot be called by anybody.
    #[must_use]
    pub fn is_available(&self, entry: &Entry) -> bool {
        let tools = self.restriction();
        let is_there = self.session.is_none_or(|session| entry.is_available_to(session));
        is_there
            && self.may_be(&entry.name)
            && self.is_switched_on(entry)
            && tools.is_none_or(|tools| tools.iter().any(|name| **name == *entry.name))
    }

    fn is_switched_on(&self, entry: &Entry) -> bool {
        entry.is_switched_on(|group| self.is_active(group))
    }

    /// Whether a group is active: as the session has it, else as everybody.
    #[must_use]
    pub fn is_active(&self, group: &str) -> bool {
        let switched = self.session.and_then(|session| session.groups.get(group));
        switched.copied().unwrap_or_else(|| self.snapshot.groups().get(group).is_some_and(|group| group.active))
    }

    /// All groups by name, each with whether it is active.
    pub fn groups(&self) -> impl Iterator<Item = (&'a Group, bool)> + use<'a> {
        let view = *self;
        self.snapshot.groups().values().map(move |group| (&**group, view.is_active(&group.name)))
    }

    /// The names of the tools in a group, whether or not they can be called.
    pub fn members(&self, group: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let view = *self;
        let is_in = move |entry: &Entry| entry.definition.groups.iter().any(|name| name == group);
        let within = move |entry: &&Arc<Entry>| is_in(entry) && view.may_be(&entry.name);
        self.snapshot.all().iter().filter(within).map(|entry| &*entry.name)
    }

    /// The tools that can be called, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Entry>> {
        let tools = self.restriction();
        // There may be many on both sides.
        let had: Option<HashSet<&str>> = tools.map(|tools| tools.iter().map(String::as_str).collect());
        let is_had = |entry: &&Arc<Entry>| had.as_ref().is_none_or(|had| had.contains(&*entry.name));
        let is_there = |entry: &&Arc<Entry>| self.session.is_none_or(|session| entry.is_available_to(session));
        let may_be = |entry: &&Arc<Entry>| self.may_be(&entry.name);
        let all = self.snapshot.all().iter().filter(may_be).filter(is_had).filter(is_there);
        let mut list: Vec<Arc<Entry>> = all.filter(|entry| self.is_switched_on(entry)).cloned().collect();
        if let Some(session) = self.session {
            let systems = self.snapshot.systems().iter().filter(may_be);
            list.extend(systems.filter(|entry| session.names(&entry.name)).cloned());
            list.sort_by(|one, other| one.name.cmp(&other.name));
        }
        list
    }

    /// All tools, also those that cannot be called, by name; of system tools those that the session has.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Entry>> {
        let may_be = |entry: &&Arc<Entry>| self.may_be(&entry.name);
        let mut all: Vec<Arc<Entry>> = self.snapshot.all().iter().filter(may_be).cloned().collect();
        if let Some(session) = self.session {
            let systems = self.snapshot.systems().iter().filter(may_be);
            all.extend(systems.filter(|entry| session.names(&entry.name)).cloned());
            all.sort_by(|one, other| one.name.cmp(&other.name));
        }
        all
    }

    /// Those of them that fit a query, best first, each with its score.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        let mut found = self.snapshot.search_all(query);
        found.retain(|(entry, _)| self.is_available(entry));
        found
    }

    /// All tools that fit, also those that cannot be called.
    #[must_use]
    pub fn search_all(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        let mut found = self.snapshot.search_all(query);
        found.retain(|(entry, _)| self.may_be(&entry.name));
        found
    }

    /// What a caller is told that asked for an unknown tool, with the names that it is shown.
    #[must_use]
    pub fn not_found(&self, name: &str, naming: impl Into<Naming>) -> Failure {
        let (list, naming) = (self.list(), naming.into());
        let mut names: Vec<&str> = list.iter().filter_map(|entry| self.snapshot.name_for(entry, naming)).collect();
        let nearest = schema::nearest(name, names.iter().copied());
        let is_cut = fitting(&names) < names.len();
        if is_cut {
            schema::sort_by_nearness(name, &mut names);
            // It is the nearest by edits, which need not be the nearest by shared parts.
            if let Some(place) = names.iter().position(|name| Some(*name) == nearest) {
                names[..=place].rotate_right(1);
            }
        }
        let (told, others) = names.split_at(fitting(&names));
        let failure = Failure::not_found(&json::shorten(name, LONGEST_NAME_TOLD), told, nearest);
        if is_cut { failure.and_more_tools(others.len(), self.finder(naming)) } else { failure }
    }

    /// The name of the tool that finds others, if it can be called here.
    fn finder(&self, naming: Naming) -> Option<&'a str> {
        let Lookup::Available(entry) = self.find(FINDER) else { return None };
        self.snapshot.name_for(entry, naming).filter(|_| entry.role == Some(ToolRole::Search))
    }
}

/// Returns how many of the names fit into the list of an unknown tool.
fn fitting(names: &[&str]) -> usize {
    let mut chars = 0;
    let fits = |name: &&&str| {
        // Names are ASCII, and a comma and a space are before all but the first.
        chars += name.len() + if chars == 0 { 0 } else { 2 };
        chars <= MAX_CHARS_TOLD
    };
    names.iter().take(MAX_NAMES_TOLD).take_while(fits).count()
}

impl<'a> From<&'a Snapshot> for View<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        Self::new(snapshot, None, None)
    }
}

impl Snapshot {
    /// The tools that everybody can call and that fit a query, best first, each with its score.
    #[must_use]
    pub fn search(&self, query: &str) -> Vec<(Arc<Entry>, f64)> {
        View::from(self).search(query)
    }

    /// What a caller is told that asked for an unknown tool, outside of any session.
    #[must_use]
    pub fn not_found(&self, name: &str, naming: impl Into<Naming>) -> Failure {
        View::from(self).not_found(name, naming)
    }
}
