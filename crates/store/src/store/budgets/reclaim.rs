//! Allotments of nodes that are gone. What their calls still need stays reserved until other nodes have settled these calls;
//! the rest is free again.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

use crate::store::journal::Tally;
use crate::store::nodes::UNFINISHED;
use crate::store::{StoreError, Stores};
use toolpost_core::domain::budget::{Amount, BudgetHold};

/// The holds in the record of a call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordOfHolds {
    holds: Vec<BudgetHold>,
}

/// Allotments of nodes that are gone.
const GONE: &str = "budget = $1 AND node NOT IN (SELECT node FROM nodes)";

impl Stores {
    /// Gives up all allotments of a node that has lost its lease.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn give_up_allotments(&self, node: &str) -> Result<(), StoreError> {
        self.db.write("UPDATE budget_allotments SET node = '' WHERE node = $1").bind(node).execute().await.map(drop)
    }

    /// Gives up an allotment, so that other nodes free it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn give_up_allotment(&self, budget: Uuid, allotment: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE budget_allotments SET node = '' WHERE budget = $1 AND id = $2";
        self.db.write(SQL).bind(budget).bind(allotment).execute().await.map(drop)
    }

    /// Frees what nodes that are gone hold of a budget, except what their unfinished calls need.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn reclaim_allotments(&self, budget: Uuid) -> Result<(), StoreError> {
        const LOCK: &str = "UPDATE budgets SET grants = grants + 1 WHERE id = $1 RETURNING grants";
        let any = self.db.read(format!("SELECT id FROM budget_allotments WHERE {GONE} LIMIT 1")).bind(budget);
        if any.optional::<(Uuid,)>().await?.is_none() {
            return Ok(());
        }
        let done = self.db.transaction(async |transaction| {
            // Only one node reclaims at a time. No further amount is granted to these allotments.
            if transaction.query(LOCK).bind(budget).optional::<(i64,)>().await?.is_none() {
                return Ok(None);
            }
            // One statement: a call is either unfinished, or in a note that is not folded, or folded.
            let sql = format!(
                "SELECT 0, id, calls, cost, '' FROM budget_allotments WHERE {GONE} \
                 UNION ALL SELECT 1, id, 0, 0, record FROM tool_calls WHERE {UNFINISHED} AND record LIKE '%\"holds\":%' \
                 UNION ALL SELECT 2, c.id, 0, 0, c.stats FROM commits AS c JOIN stats_folded AS f ON f.shard = c.shard \
                 WHERE c.last_pos > f.pos AND c.stats LIKE '{{%'"
            );
            let rows: Vec<(i32, Uuid, i64, i64, String)> = transaction.query(sql).bind(budget).all().await?;
            for ((allotment, there), needed) in needed_of(budget, rows) {
                if needed.is_zero() {
                    let sql = "DELETE FROM budget_allotments WHERE budget = $1 AND id = $2";
                    transaction.query(sql).bind(budget).bind(allotment).execute().await?;
                } else {
                    // Relative, because folding may have reduced it meanwhile.
                    super::reduce_allotment(transaction, (budget, allotment), there - needed).await?;
                }
            }
            Ok(Some(()))
        });
        done.await.map(drop)
    }
}

/// Returns the allotments with their amount, and the part of it that calls need.
fn needed_of(budget: Uuid, rows: Vec<(i32, Uuid, i64, i64, String)>) -> Vec<((Uuid, Amount), Amount)> {
    let (mut gone, mut needed) = (Vec::new(), BTreeMap::<Uuid, Amount>::new());
    let mut notes = Tally::default();
    for (kind, id, calls, cost, text) in rows {
        match kind {
            0 => gone.push((id, Amount { calls, cost })),
            // A record that cannot be decoded cannot be resumed either.
            1 => {
                let held: RecordOfHolds = serde_json::from_str(&text).unwrap_or_default();
                for hold in held.holds.into_iter().filter(|hold| hold.budget == budget) {
                    *needed.entry(hold.allotment).or_default() += hold.amount;
                }
            }
            // Folding reports a corrupt note.
            _ => drop(notes.add_note(&text)),
        }
    }
    for ((_, allotment), amount) in notes.reductions().filter(|((of, _), _)| *of == budget) {
        *needed.entry(allotment).or_default() += amount;
    }
    gone.into_iter().map(|one| (one, needed.get(&one.0).copied().unwrap_or_default())).collect()
}
