//! What a call shows to people beside its result: the tool's own details and the facts that every call has.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::cut::ShortValue;
use crate::domain::{Call, Outcome};

/// The `details` of an ended call: the facts win over a tool's own members of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Details<'a> {
    call: &'a Call,
    outcome: &'a Outcome,
    short: bool,
}

/// Names of the facts, which no tool can take.
const FACTS: [&str; 3] = ["execution_time_ms", "tool_name", "success"];

impl<'a> Details<'a> {
    /// As they are.
    #[must_use]
    pub fn whole(call: &'a Call, outcome: &'a Outcome) -> Self {
        Self { call, outcome, short: false }
    }

    /// With long texts cut.
    #[must_use]
    pub fn short(call: &'a Call, outcome: &'a Outcome) -> Self {
        Self { call, outcome, short: true }
    }
}

impl<'a> Details<'a> {
    /// Duration in milliseconds, tool and success, where the tool has no details of its own.
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
