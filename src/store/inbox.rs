//! What one node has to tell another about a call: the node that has the call looks here.

use uuid::Uuid;

use super::{Db, Store, StoreError, db};

/// One message about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The call.
    pub call: Uuid,
    /// What it is.
    pub kind: String,
    /// JSON.
    pub body: String,
}

impl Store {
    /// Leaves a message for the node that has the call. Returns whether it was taken: of several results only the first is.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn leave_message(&self, id: Uuid, message: &Message) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO inbox (id, call_id, kind, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let Message { call, kind, body } = message;
        let rows = match &self.db {
            Db::Sqlite(pools) => {
                let query = sqlx::query(SQL).bind(id).bind(*call).bind(kind.clone()).bind(body.clone());
                query.execute(&pools.writer).await?.rows_affected()
            }
            Db::Postgres(pools) => {
                let query = sqlx::query(SQL).bind(id).bind(*call).bind(kind.clone()).bind(body.clone());
                query.execute(&pools.writer).await?.rows_affected()
            }
        };
        Ok(rows > 0)
    }

    /// Whether there is any message at all: mostly there is none.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn has_messages(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM inbox LIMIT 1) AS any_message";
        let (count,): (i64,) = db::on_reader!(&self.db, pool => sqlx::query_as(SQL).fetch_one(pool).await)?;
        Ok(count > 0)
    }

    /// Takes the messages about this node's calls, oldest first, and those about calls that have ended.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn take_messages(&self, node: &str) -> Result<Vec<Message>, StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE call_id IN (SELECT c.id FROM tool_calls AS c \
            WHERE c.id = inbox.call_id AND (c.node = $1 OR c.status > 1)) RETURNING id, call_id, kind, body";
        let mut rows: Vec<(Uuid, Uuid, String, String)> = match &self.db {
            Db::Sqlite(pools) => sqlx::query_as(SQL).bind(node.to_owned()).fetch_all(&pools.writer).await?,
            Db::Postgres(pools) => sqlx::query_as(SQL).bind(node.to_owned()).fetch_all(&pools.writer).await?,
        };
        rows.sort_unstable_by_key(|(id, ..)| *id);
        Ok(rows.into_iter().map(|(_, call, kind, body)| Message { call, kind, body }).collect())
    }
}
