//! Groups of tools, which are activated or deactivated together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Time;

/// A group. A tool can be in several groups, and is active if one of them is active.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// The name, with the same characters as a tool name.
    pub name: String,
    /// A description of its tools.
    pub description: String,
    /// Whether its tools can be called.
    pub active: bool,
    /// Whether a model can switch the group in its own session.
    pub manageable: bool,
    /// Whether the group was created or changed over the API. Other groups exist because a definition names them.
    pub is_stored: bool,
    /// The time of creation; the Unix epoch if the group exists because a definition names it.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

/// Groups by name.
pub type Groups = BTreeMap<String, Arc<Group>>;

impl Group {
    /// Returns the group that exists because a definition names it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), active: true, ..Self::default() }
    }
}
