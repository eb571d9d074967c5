//! Notices to the other nodes, about something that only a node's memory knows: calls that are not stored yet, and
//! connections. A notice has one row for each node, which the node deletes.

use uuid::Uuid;

use super::{StoreError, Stores};

/// Maximum number of notices read at a time.
const PAGE: i64 = 64;

impl Stores {
    /// Stores a notice for all nodes except `sender`. Returns the number of these nodes.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn post_notice(&self, id: Uuid, sender: &str, body: &str) -> Result<u64, StoreError> {
        const SQL: &str =
            "INSERT INTO notices (node, id, body) SELECT n.node, $1, $3 FROM nodes AS n WHERE n.node <> $2";
        self.db.write(SQL).bind(id).bind(sender).bind(body).execute().await
    }

    /// Returns the oldest notices to a node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn notices(&self, node: &str) -> Result<Vec<(Uuid, String)>, StoreError> {
        const SQL: &str = "SELECT id, body FROM notices WHERE node = $1 ORDER BY id LIMIT $2";
        self.db.read(SQL).bind(node).bind(PAGE).all().await
    }

    /// Deletes a notice to a node, which has processed it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_notice(&self, node: &str, id: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM notices WHERE node = $1 AND id = $2";
        self.db.write(SQL).bind(node).bind(id).execute().await.map(drop)
    }

    /// Returns `true` if a node has not processed the notice yet.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn awaits_notice(&self, id: Uuid) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM notices WHERE id = $1";
        let (count,): (i64,) = self.db.read(SQL).bind(id).one().await?;
        Ok(count > 0)
    }

    /// Withdraws a notice from all nodes that have not processed it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_notice(&self, id: Uuid) -> Result<(), StoreError> {
        self.db.write("DELETE FROM notices WHERE id = $1").bind(id).execute().await.map(drop)
    }

    /// Deletes notices to nodes that no longer run.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_notices_of_lost_nodes(&self) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM notices WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.node = notices.node)";
        self.db.write(SQL).execute().await.map(drop)
    }

    /// Returns `true` if a node runs.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_node(&self, node: &str) -> Result<bool, StoreError> {
        let (count,): (i64,) = self.db.read("SELECT COUNT(*) FROM nodes WHERE node = $1").bind(node).one().await?;
        Ok(count > 0)
    }
}
