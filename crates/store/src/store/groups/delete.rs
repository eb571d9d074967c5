//! Deletion of a group: deletes registered tools that have no other group, and removes the group from the other tools.

use serde_json::Value;

use crate::store::{Store, StoreError};
use toolpost_core::domain::Time;

/// The effect of deleting a group on one registered tool.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The tool was never in this group.
    Same,
    /// The tool has other groups. Contains its definition without the group.
    Changed(String),
    /// The tool had no other group.
    Removed,
}

impl Store {
    /// Deletes a group and the registered tools that have no other group, and removes it from the definitions of other
    /// tools.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_group(&self, name: &str, now: Time) -> Result<(), StoreError> {
        const READ: &str = "SELECT name, definition FROM tools WHERE tenant = $1";
        const FORGET: &str = "DELETE FROM tool_groups WHERE tenant = $1 AND name = $2";
        const REMOVE: &str = "DELETE FROM tools WHERE tenant = $1 AND name = $2";
        const PRESETS: &str = "DELETE FROM tool_presets WHERE tenant = $1 AND tool = $2";
        const CHANGE: &str = "UPDATE tools SET definition = $3, revision = revision + 1, updated_at = $4 \
            WHERE tenant = $1 AND name = $2";
        let tenant = &self.tenant;
        let deleted = self.change_tools(async |transaction| {
            transaction.query(FORGET).bind(tenant).bind(name).execute().await?;
            // Concurrent changes of tools wait for the version row, so the tools cannot change after this query.
            let tools: Vec<(String, String)> = transaction.query(READ).bind(tenant).all().await?;
            for (tool, definition) in tools {
                match fate(&definition, name)? {
                    Fate::Same => {}
                    Fate::Changed(definition) => {
                        let query = transaction.query(CHANGE).bind(tenant).bind(tool).bind(definition);
                        query.bind(now).execute().await?;
                    }
                    Fate::Removed => {
                        // A tool registered later under this name must not receive these secrets.
                        transaction.query(PRESETS).bind(tenant).bind(&tool).execute().await?;
                        transaction.query(REMOVE).bind(tenant).bind(&tool).execute().await?;
                    }
                }
            }
            Ok(true)
        });
        deleted.await.map(drop)
    }
}

fn fate(definition: &str, group: &str) -> Result<Fate, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
    let mut definition: Value = serde_json::from_str(definition).map_err(corrupt)?;
    let Some(groups) = definition.get_mut("groups").and_then(Value::as_array_mut) else { return Ok(Fate::Same) };
    let before = groups.len();
    groups.retain(|name| name != group);
    Ok(match groups.len() {
        after if after == before => Fate::Same,
        0 => Fate::Removed,
        _ => Fate::Changed(serde_json::to_string(&definition).map_err(corrupt)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_is_deleted_with_its_last_group() {
        let of = |definition| fate(definition, "a").unwrap();
        assert_eq!(of(r#"{"groups":["a"]}"#), Fate::Removed);
        assert_eq!(of(r#"{"groups":["a","a"]}"#), Fate::Removed);
        assert_eq!(of(r#"{"groups":["b","a"],"n":1.50}"#), Fate::Changed(r#"{"groups":["b"],"n":1.5}"#.into()));
        for same in [r#"{"groups":["b","A"]}"#, r#"{"groups":[]}"#, r#"{"name":"a"}"#] {
            assert_eq!(of(same), Fate::Same);
        }
    }
}
