//! The `details` of a call for people: the tool's own details, and facts that every call has.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::cut::ShortValue;
use crate::domain::{Call, Outcome};

/// The `details` of an ended call. The facts replace a tool's own members of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Details<'a> {
    call: &'a Call,
    outcome: &'a Outcome,
    short: bool,
}

/// The names of the facts, which are reserved.
const FACTS: [&str; 3] = ["execution_time_ms", "tool_name", "success"];

impl<'a> Details<'a> {
    /// Creates the full details.
    #[must_use]
    pub fn whole(call: &'a Call, outcome: &'a Outcome) -> Self {
        Self { call, outcome, short: false }
    }

    /// Creates the details with long texts truncated.
    #[must_use]
    pub fn short(call: &'a Call, outcome: &'a Outcome) -> Self {
        Self { call, outcome, short: true }
    }
}

impl<'a> Details<'a> {
    /// Returns the duration in milliseconds, the tool and the success, if the tool has no details of its own.
    pub(super) fn facts_only(&self) -> Option<(u64, &'a str, bool)> {
        let facts = || (self.call.duration_ms().unwrap_or(0), &*self.call.name, !self.outcome.is_error());
        self.outcome.details.is_empty().then(facts)
    }
}

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.outcome.details.iter().filter(|(name, _)| !FACTS.contains(&name.as_str()));
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in own {
            match self.short {
                true => map.serialize_entry(name, &ShortValue(value))?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.serialize_entry(FACTS[0], &self.call.duration_ms().unwrap_or(0))?;
        map.serialize_entry(FACTS[1], &*self.call.name)?;
        map.serialize_entry(FACTS[2], &!self.outcome.is_error())?;
        map.end()
    }
}
