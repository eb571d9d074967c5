//! Properties that are hidden in one direction: read-only ones in requests, write-only ones in responses.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Bundler, Direction};
use crate::import::reference;

/// Maximum number of `allOf` parts of one schema that are searched for hidden properties; further parts are skipped.
const MAX_PARTS: usize = 200;

impl<'d> Bundler<'d> {
    /// Adds the names of hidden properties of the schema and of all its parts; one part may require a property that
    /// another part declares.
    ///
    /// # Errors
    /// Returns the reason if the schema is too large.
    pub(super) fn find_hidden(
        &mut self,
        object: &'d Map<String, Value>,
        hidden: &mut BTreeSet<&'d str>,
    ) -> Result<(), String> {
        let (mut waiting, mut seen) = (vec![object], 0);
        while let Some(part) = waiting.pop() {
            seen += 1;
            if seen > MAX_PARTS {
                break;
            }
            for (name, property) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                self.charge(8)?;
                if self.is_hidden(property) {
                    hidden.insert(name);
                }
            }
            for part in part.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                self.charge(8)?;
                waiting.extend(reference::object(self.document, part, "").ok());
            }
        }
        Ok(())
    }

    fn is_hidden(&self, property: &Value) -> bool {
        let keyword = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        let says = |object: &Map<String, Value>| reference::is_true(object, keyword);
        property.as_object().is_some_and(says)
            || property.get("$ref").is_some() && reference::object(self.document, property, "").is_ok_and(says)
    }
}
