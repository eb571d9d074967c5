//! What is to be told to a running call: the node that has the call looks here. A message that is here is durable. It stays
//! until its call has ended, or has recorded it, whichever node has the call by then.

use sqlx::QueryBuilder;
use uuid::Uuid;

use super::{StoreError, Stores, db};

/// Messages that are read at a time; each may be as large as a request.
const PAGE: i64 = 16;
/// Calls that are cancelled in one statement.
const CANCELS: usize = 256;
/// Reports of one call that may wait here.
const REPORTS: i64 = 256;

/// The kind of a cancel.
pub const CANCEL: &str = "cancel";
/// The kind of a report.
pub const PROGRESS: &str = "progress";
/// The kind of a result, and of the failure that a call ended with before there was one: it has one of them only.
pub const RESULT: &str = "result";

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

/// A message as it is stored, with its id.
type Row = (Uuid, Uuid, String, String);

impl Stores {
    /// Leaves a message for the node that has the call. Returns whether it was taken: not once the call has ended, of several
    /// results and cancels only the first, and only so many reports.
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

    /// Leaves the same cancel for each of these calls that has not ended and has none; each call comes with an id for its
    /// message.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn leave_cancels(&self, calls: &[(Uuid, Uuid)], body: &str) -> Result<(), StoreError> {
        for calls in calls.chunks(CANCELS) {
            db::on_writer!(&self.db, pool => cancels(calls, body).build().execute(pool).await.map(drop))?;
        }
        Ok(())
    }

    /// Says that a call of this node ends without a posted result, as long as it has none: from now on it takes none. The
    /// body of the one that came before, if one did. A call that another node has taken over is left alone.
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

    /// The body of the result that was posted for a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn posted_result(&self, call: Uuid) -> Result<Option<String>, StoreError> {
        const SQL: &str = "SELECT body FROM inbox WHERE call_id = $1 AND kind = 'result'";
        let row: Option<(String,)> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(call).fetch_optional(pool).await)?;
        Ok(row.map(|(body,)| body))
    }

    /// Whether there is any message at all: mostly there is none.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_messages(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM inbox LIMIT 1) AS any_message";
        let (count,): (i64,) = db::on_reader!(&self.db, pool => sqlx::query_as(SQL).fetch_one(pool).await)?;
        Ok(count > 0)
    }

    /// Messages about this node's calls that have not ended, oldest first, behind `after`. They stay until they are
    /// forgotten.
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

    /// The same for one call.
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

    /// Forgets a message that has been heard.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_message(&self, id: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id = $1";
        db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(id).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Forgets all messages about calls that have ended, whosever they were.
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
