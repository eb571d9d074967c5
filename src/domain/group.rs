//! Groups of tools, which are switched together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Time;

/// A group. A tool may be in several; it can be called if one of them is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, of the same letters as a tool's.
    pub name: String,
    /// What its tools are for.
    pub description: String,
    /// Whether its tools can be called.
    pub active: bool,
    /// Whether a model may switch it, in its own session.
    pub manageable: bool,
    /// Whether it was made over the API or changed there; any other exists because a definition names it.
    pub is_stored: bool,
    /// When it was made; for one that a definition names, when the service's program was.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// Groups by name.
pub type Groups = BTreeMap<String, Arc<Group>>;

impl Group {
    /// A group as it is there by itself, since a definition names it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            active: true,
            manageable: false,
            is_stored: false,
            created_at: Time(0),
            updated_at: Time(0),
        }
    }
}
