//! What one node has to tell another about a call: the node that has the call looks here.

use uuid::Uuid;

use super::{StoreError, Stores, db};

/// Messages that are read at a time; each may be as large as a request.
const PAGE: i64 = 16;

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

impl Stores {
    /// Leaves a message for the node that has the call. Returns whether it was taken: of several results only the first is.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn leave_message(&self, id: Uuid, message: &Message) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO inbox (id, call_id, kind, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let Message { call, kind, body } = message;
        let rows = db::on_writer!(&self.db, pool => sqlx::query(SQL)
            .bind(id).bind(*call).bind(kind.clone()).bind(body.clone())
            .execute(pool).await?.rows_affected());
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

    /// Messages about this node's calls that have not ended, oldest first, behind `after`. They stay until they are
    /// forgotten.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn messages(&self, node: &str, after: Uuid) -> Result<Vec<(Uuid, Message)>, StoreError> {
        const SQL: &str = "SELECT id, call_id, kind, body FROM inbox WHERE id > $1 AND EXISTS (SELECT 1 FROM tool_calls \
            AS c WHERE c.id = inbox.call_id AND c.node = $2 AND c.status < 2) ORDER BY id LIMIT $3";
        let rows: Vec<(Uuid, Uuid, String, String)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(after).bind(node.to_owned()).bind(PAGE).fetch_all(pool).await)?;
        Ok(rows.into_iter().map(|(id, call, kind, body)| (id, Message { call, kind, body })).collect())
    }

    /// Forgets a message that has been heard.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_message(&self, id: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id = $1";
        db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(id).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Forgets all messages about calls that have ended, whosever they were.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_messages_of_ended(&self) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.id = inbox.call_id AND c.status > 1)";
        db::on_writer!(&self.db, pool => sqlx::query(SQL).execute(pool).await.map(drop))?;
        Ok(())
    }
}
