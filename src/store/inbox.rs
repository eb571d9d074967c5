//! Messages to unfinished calls. The node that owns a call reads them here. A stored message is durable: it stays until
//! the call has ended or recorded it, even if another node takes the call over.

use sqlx::QueryBuilder;
use uuid::Uuid;

use super::{StoreError, Stores, db};

/// Maximum number of messages read at a time. Each may be as large as a request.
const PAGE: i64 = 16;
/// Maximum number of calls cancelled in one statement.
const CANCELS: usize = 256;
/// Maximum number of waiting reports of one call.
const REPORTS: i64 = 256;

/// The kind of a cancellation.
pub const CANCEL: &str = "cancel";
/// The kind of a progress report.
pub const PROGRESS: &str = "progress";
/// The kind of a posted result, or of the failure with which a call ended before a result was posted. A call has at
/// most one such message.
pub const RESULT: &str = "result";

/// A message to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The recipient.
    pub call: Uuid,
    /// The kind: [`CANCEL`], [`PROGRESS`] or [`RESULT`].
    pub kind: String,
    /// The content, as JSON.
    pub body: String,
}

/// A message as it is stored, with its id.
type Row = (Uuid, Uuid, String, String);

impl Stores {
    /// Stores a message for the node that owns the call. Returns `false` if the message is rejected: the call has
    /// ended, already has a result or cancellation of this kind, or has too many waiting reports.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn leave_message(&self, id: Uuid, message: &Message) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO inbox (id, call_id, kind, body) SELECT $1, c.id, $3, $4 FROM tool_calls AS c \
            WHERE c.id = $2 AND c.status + 0 < 2 AND (SELECT COUNT(*) FROM inbox AS i \
            WHERE i.call_id = $2 AND i.kind = $3) < $5 ON CONFLICT DO NOTHING";
        let Message { call, kind, body } = message;
        let most = if kind == PROGRESS { REPORTS } else { 1 };
        let rows = db::on_writer!(&self.db, pool => sqlx::query(SQL)
            .bind(id).bind(*call).bind(kind.clone()).bind(body.clone()).bind(most)
            .execute(pool).await?.rows_affected());
        Ok(rows > 0)
    }

    /// Stores a cancellation for each of these calls that has not ended and has none. Each call comes with the id of
    /// its message.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn leave_cancels(&self, calls: &[(Uuid, Uuid)], body: &str) -> Result<(), StoreError> {
        for calls in calls.chunks(CANCELS) {
            db::on_writer!(&self.db, pool => cancels(calls, body).build().execute(pool).await.map(drop))?;
        }
        Ok(())
    }

    /// Records that a call of this node ends without a posted result, so that later results are rejected. Returns the
    /// body of the result that was posted before, if any. A call that another node has taken over is left unchanged.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn refuse_results(&self, id: Uuid, end: &Message, node: &str) -> Result<Option<String>, StoreError> {
        const SQL: &str = "INSERT INTO inbox (id, call_id, kind, body) SELECT $1, $2, $3, $4 WHERE NOT EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.id = $2 AND (c.node <> $5 OR c.status + 0 > 1)) ON CONFLICT DO NOTHING";
        let Message { call, kind, body } = end;
        let rows = db::on_writer!(&self.db, pool => sqlx::query(SQL)
            .bind(id).bind(*call).bind(kind.clone()).bind(body.clone()).bind(node.to_owned())
            .execute(pool).await?.rows_affected());
        if rows > 0 { Ok(None) } else { self.posted_result(*call).await }
    }

    /// Returns the body of the result that was posted for a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn posted_result(&self, call: Uuid) -> Result<Option<String>, StoreError> {
        const SQL: &str = "SELECT body FROM inbox WHERE call_id = $1 AND kind = 'result'";
        let row: Option<(String,)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(call).fetch_optional(pool).await)?;
        Ok(row.map(|(body,)| body))
    }

    /// Returns `true` if any message is stored. Usually none is.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_messages(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM inbox LIMIT 1) AS any_message";
        let (count,): (i64,) = db::on_reader!(&self.db, pool => sqlx::query_as(SQL).fetch_one(pool).await)?;
        Ok(count > 0)
    }

    /// Returns messages to unfinished calls of this node after message `after`, oldest first. They stay stored until
    /// they are deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn messages(&self, node: &str, after: Uuid) -> Result<Vec<(Uuid, Message)>, StoreError> {
        const SQL: &str = "SELECT id, call_id, kind, body FROM inbox WHERE id > $1 AND EXISTS (SELECT 1 FROM tool_calls \
            AS c WHERE c.id = inbox.call_id AND c.node = $2 AND c.status < 2) ORDER BY id LIMIT $3";
        let rows: Vec<Row> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(after).bind(node.to_owned()).bind(PAGE).fetch_all(pool).await)?;
        Ok(rows.into_iter().map(message).collect())
    }

    /// Returns messages to one unfinished call of this node after message `after`, oldest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn messages_of(&self, node: &str, call: Uuid, after: Uuid) -> Result<Vec<(Uuid, Message)>, StoreError> {
        const SQL: &str = "SELECT id, call_id, kind, body FROM inbox WHERE call_id = $1 AND id > $2 AND EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.id = $1 AND c.node = $3 AND c.status + 0 < 2) ORDER BY id LIMIT $4";
        let rows: Vec<Row> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(call).bind(after).bind(node.to_owned()).bind(PAGE).fetch_all(pool).await)?;
        Ok(rows.into_iter().map(message).collect())
    }

    /// Deletes a message that was processed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_message(&self, id: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id = $1";
        db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(id).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Deletes all messages to ended calls of any node.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_messages_of_ended(&self) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.id = inbox.call_id AND c.status > 1)";
        db::on_writer!(&self.db, pool => sqlx::query(SQL).execute(pool).await.map(drop))?;
        Ok(())
    }
}

fn message((id, call, kind, body): Row) -> (Uuid, Message) {
    (id, Message { call, kind, body })
}

fn cancels<D: sqlx::Database>(calls: &[(Uuid, Uuid)], body: &str) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("WITH m (id, call_id) AS (");
    query.push_values(calls, |mut row, (id, call)| {
        row.push_bind(*id).push_bind(*call);
    });
    query.push(") INSERT INTO inbox (id, call_id, kind, body) SELECT m.id, m.call_id, ");
    query.push_bind(CANCEL.to_owned()).push(", ").push_bind(body.to_owned());
    query.push(" FROM m JOIN tool_calls AS c ON c.id = m.call_id WHERE c.status + 0 < 2 AND NOT EXISTS ");
    query.push("(SELECT 1 FROM inbox AS i WHERE i.call_id = m.call_id AND i.kind = 'cancel') ON CONFLICT DO NOTHING");
    query
}
