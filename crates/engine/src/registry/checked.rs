//! Stored definitions that were checked before: their mark, and what a record needs of them without a full parse.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::builder::EntryBuilder;
use super::fetched::{FetchedDefinition, to_store};
use super::record::Outline;
use toolpost_core::domain::ToolDefinition;
use toolpost_store::store::tools::{Precondition, ToolWrite};

/// The version of the checks. Increased if a release rejects definitions that the previous one accepted.
const CHECKS: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// Returns the mark of a stored definition that has passed the checks of this release. The mark of a changed text or of
/// another release differs.
pub(super) fn mark(text: &str) -> String {
    let digest = Sha256::new_with_prefix(CHECKS).chain_update([0]).chain_update(text).finalize();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the write of a checked definition.
///
/// # Errors
/// Returns an error if the definition cannot be serialized.
pub fn write_of(
    definition: &ToolDefinition,
    fetched: &FetchedDefinition,
    expected: Precondition,
) -> Result<ToolWrite, serde_json::Error> {
    let text = to_store(definition, fetched)?;
    let checked = Some(mark(&text));
    Ok(ToolWrite { name: definition.name.clone(), definition: text, checked, expected })
}

/// The members of a definition that a record needs.
#[derive(Deserialize)]
struct StoredOutline<'a> {
    name: String,
    title: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(borrow)]
    executor: StoredExecutor<'a>,
    definition_url: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct StoredExecutor<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

/// Returns the outline of a definition, or `None` if its check depends on more than its text: on the configuration, on
/// this machine or on a fetched document.
pub(super) fn outline(text: &str, builder: &EntryBuilder) -> Option<Outline> {
    let stored: StoredOutline<'_> = serde_json::from_str(text).ok()?;
    if stored.definition_url.is_some() {
        return None;
    }
    let StoredOutline { name, title, groups, executor, .. } = stored;
    let role = match &*executor.kind {
        "http" | "external" => None,
        "builtin" => {
            let builtin = builder.builtins.get(&*executor.name?)?;
            let has_condition = builtin.executor.is_available().is_some();
            // The instances of a factory belong to the registration.
            if has_condition || builtin.executor.for_entry(&builder.instances).is_some() {
                return None;
            }
            builtin.executor.role()
        }
        _ => return None,
    };
    Some(Outline { name, title, groups, role })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_depends_on_the_whole_text() {
        assert_eq!(mark("{}"), mark("{}"));
        assert_ne!(mark("{}"), mark("{ }"));
        assert_eq!(mark("").len(), 32);
    }
}
