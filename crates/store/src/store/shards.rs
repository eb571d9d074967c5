//! The shards of the journal: which exist, how far each has come, and which node writes new calls to it.
//!
//! That a shard belongs to one node keeps nodes from waiting for each other. It is not a lock: the row of the shard
//! serializes its commits, and a node that has lost a shard, or has adopted a call of another shard, still commits to
//! it correctly.

use super::{Db, StoreError, Stores, codec};
use toolpost_core::domain::{Cursor, Shard};

/// Attempts to create a shard while other nodes create theirs.
const ATTEMPTS: usize = 16;

impl Stores {
    /// Returns the position of the newest event of each shard.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn newest(&self) -> Result<Cursor, StoreError> {
        Ok(Cursor::at(self.db.read("SELECT pos FROM event_clock").column::<i64>().await?))
    }

    /// Returns a shard to which this node alone writes new calls: one whose node is gone, or a new one. On SQLite, and
    /// if there can be no further shard, it is shard 0, which several nodes can share.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claim_shard(&self, node: &str) -> Result<Shard, StoreError> {
        const CLAIM: &str = "UPDATE shard_owners SET node = $1 WHERE shard = (SELECT shard FROM shard_owners AS s \
            WHERE s.node IS NULL OR NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.node = s.node) \
            ORDER BY shard LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING shard";
        const LAST: &str = "SELECT MAX(shard) FROM shard_owners";
        if matches!(self.db, Db::Sqlite(_)) {
            return Ok(Shard::default());
        }
        for _ in 0..ATTEMPTS {
            let claimed: Option<(i16,)> = self.db.write(CLAIM).bind(node).optional().await?;
            if let Some((number,)) = claimed {
                return Ok(shard(number));
            }
            let (last,): (Option<i16>,) = self.db.write(LAST).one().await?;
            let next = last.map_or(0, |last| shard(last).number() + 1);
            let Some(next) = Shard::new(next) else { break };
            // Another node may take it first.
            self.open_shard(next).await?;
        }
        Ok(Shard::default())
    }

    /// Creates the rows of a shard that do not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn open_shard(&self, shard: Shard) -> Result<(), StoreError> {
        open(&self.db, shard).await
    }

    /// Gives up the shards of a node, so that other nodes can claim them.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn release_shards(&self, node: &str) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE shard_owners SET node = NULL WHERE node = $1";
        self.db.write(SQL).bind(node).execute().await.map(drop)
    }
}

/// Creates the rows of a shard that do not exist.
pub(super) async fn open(db: &Db, shard: Shard) -> Result<(), StoreError> {
    // The row of the owner comes last, so that a shard with an owner has all its rows.
    const ROWS: [&str; 4] = [
        "INSERT INTO retention (shard, calls_pos, events_pos) VALUES ($1, $2, $2) ON CONFLICT DO NOTHING",
        "INSERT INTO stats_folded (shard, pos) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        "INSERT INTO words_indexed (shard, pos, node, leased_until) VALUES ($1, $2, '', 0) ON CONFLICT DO NOTHING",
        "INSERT INTO event_clock (shard, pos) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    ];
    for sql in ROWS {
        db.write(sql).bind(codec::shard_column(shard)).bind(shard.start()).execute().await?;
    }
    const OWNER: &str = "INSERT INTO shard_owners (shard, node) VALUES ($1, NULL) ON CONFLICT DO NOTHING";
    db.write(OWNER).bind(codec::shard_column(shard)).execute().await.map(drop)
}

fn shard(number: i16) -> Shard {
    u16::try_from(number).ok().and_then(Shard::new).unwrap_or_default()
}
