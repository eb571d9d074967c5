//! Notes about which adopted calls a node works on. A call that stops each node that works on it is known by them.
//!
//! The column `at_work` of a call counts the nodes that adopted it and were lost while they worked on it. A node adds itself
//! before it works on the call, and removes itself afterwards. A lost node does not remove itself.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::nodes::UNFINISHED;
use super::{StoreError, Stores};
use toolpost_core::domain::Shard;

/// A value of the column `at_work` for a call.
pub type Note = (Uuid, i16);

impl Stores {
    /// Stores notes about unfinished calls of this node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. Some notes may be stored.
    pub async fn note_work(&self, node: &str, notes: &[Note]) -> Result<(), StoreError> {
        let mut equal: BTreeMap<(Shard, i16), Vec<Uuid>> = BTreeMap::new();
        for (call, value) in notes {
            equal.entry((Shard::of_call(*call), *value)).or_default().push(*call);
        }
        for ((_, value), mut calls) in equal {
            calls.sort_unstable();
            let query = self.db.write("UPDATE tool_calls SET at_work = ").push_bind(value);
            let query = query.push(" WHERE ").push(UNFINISHED).push(" AND node = ").push_bind(node);
            query.push(" AND ").push_calls(["shard", "id"], &calls).uncached().execute().await?;
        }
        Ok(())
    }

    /// Returns the notes of those of these calls that have one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn notes_of_work(&self, calls: &[Uuid]) -> Result<HashMap<Uuid, i16>, StoreError> {
        if calls.is_empty() {
            return Ok(HashMap::new());
        }
        let query = self.db.write("SELECT id, at_work FROM tool_calls WHERE at_work > 0 AND ");
        let notes: Vec<Note> = query.push_calls(["shard", "id"], calls).uncached().all().await?;
        Ok(notes.into_iter().collect())
    }
}
