//! Messages to unfinished calls. The node that owns a call reads them here. A stored message is durable: it stays until
//! the call has ended or recorded it, even if another node takes the call over.
//!
//! A chunk of streamed arguments is a message with an answer, which replaces the message. The sender deletes both.

use uuid::Uuid;

use super::{StoreError, Stores, codec};
use toolpost_core::domain::Time;

/// Maximum number of messages read at a time. Each may be as large as a request.
const PAGE: i64 = 16;
/// Maximum number of calls cancelled in one statement.
const CANCELS: usize = 256;
/// Maximum number of waiting reports of one call.
const REPORTS: i64 = 256;
/// Maximum number of unanswered chunks of one call.
const CHUNKS: i64 = 64;

/// The kind of a cancellation.
pub const CANCEL: &str = "cancel";
/// The kind of a progress report.
pub const PROGRESS: &str = "progress";
/// The kind of a posted result, or of the failure with which a call ended before a result was posted. A call has at
/// most one such message.
pub const RESULT: &str = "result";
/// The kind of a note that the approval of a call has changed.
pub const DECISION: &str = "decision";
/// The kind of a chunk of streamed arguments. Its answer replaces it, with the kind `answer`.
pub const CHUNK: &str = "chunk";

/// A message to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The recipient.
    pub call: Uuid,
    /// The kind: [`CANCEL`], [`PROGRESS`], [`RESULT`], [`DECISION`] or [`CHUNK`].
    pub kind: String,
    /// The content, as JSON.
    pub body: String,
}

impl Stores {
    /// Stores a message for the node that owns the call. Returns `false` if the message is rejected: the call has
    /// ended, already has a result or cancellation of this kind, or has too many waiting reports or chunks.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn leave_message(&self, id: Uuid, message: &Message) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO inbox (shard, id, call_id, kind, body) SELECT c.shard, $3, c.id, $4, $5 \
            FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND c.status + 0 < 2 AND (SELECT COUNT(*) \
            FROM inbox AS i WHERE i.shard = $1 AND i.call_id = $2 AND i.kind = $4) < $6 \
            ON CONFLICT DO NOTHING RETURNING id";
        let Message { call, kind, body } = message;
        let max = match kind.as_str() {
            PROGRESS => REPORTS,
            CHUNK => CHUNKS,
            _ => 1,
        };
        let insert = self.db.write(SQL).bind_call(*call).bind(id).bind(kind).bind(body).bind(max);
        // Counts the returned rows: Citus reports a wrong number of inserted ones.
        Ok(insert.optional::<(Uuid,)>().await?.is_some())
    }

    /// Stores a cancellation for each of these calls that has not ended and has none. Each call comes with the id of
    /// its message.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn leave_cancels(&self, calls: &[(Uuid, Uuid)], body: &str) -> Result<(), StoreError> {
        for calls in calls.chunks(CANCELS) {
            let mut query = self.db.write("WITH m (shard, id, call_id) AS (VALUES ");
            for (index, (id, call)) in calls.iter().enumerate() {
                query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(codec::shard_of_call(*call));
                query = query.push(", ").push_bind(id).push(", ").push_bind(call).push(")");
            }
            query = query.push(") INSERT INTO inbox (shard, id, call_id, kind, body) SELECT c.shard, m.id, c.id, ");
            let query = query.push_bind(CANCEL).push(", ").push_bind(body).push(
                " FROM m JOIN tool_calls AS c ON c.shard = m.shard AND c.id = m.call_id WHERE c.status + 0 < 2 \
                 AND NOT EXISTS (SELECT 1 FROM inbox AS i WHERE i.shard = c.shard AND i.call_id = c.id \
                 AND i.kind = 'cancel') ON CONFLICT DO NOTHING",
            );
            query.execute().await?;
        }
        Ok(())
    }

    /// Records that a call of this node ends without a posted result, so that later results are rejected. Returns the
    /// body of the result that was posted before, if any. A call that another node has taken over is left unchanged.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn refuse_results(&self, id: Uuid, end: &Message, node: &str) -> Result<Option<String>, StoreError> {
        const SQL: &str = "INSERT INTO inbox (shard, id, call_id, kind, body) SELECT $1, $3, $2, $4, $5 WHERE NOT EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 AND c.id = $2 AND (c.node <> $6 OR c.status + 0 > 1)) \
            ON CONFLICT DO NOTHING RETURNING id";
        let Message { call, kind, body } = end;
        let insert = self.db.write(SQL).bind_call(*call).bind(id).bind(kind).bind(body).bind(node);
        if insert.optional::<(Uuid,)>().await?.is_some() { Ok(None) } else { self.posted_result(*call).await }
    }

    /// Returns the body of the result that was posted for a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn posted_result(&self, call: Uuid) -> Result<Option<String>, StoreError> {
        const SQL: &str = "SELECT body FROM inbox WHERE shard = $1 AND call_id = $2 AND kind = 'result'";
        Ok(self.db.read(SQL).bind_call(call).optional().await?.map(|(body,)| body))
    }

    /// Returns `true` if any message is stored. Usually none is.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_messages(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM inbox LIMIT 1) AS any_message";
        let (count,): (i64,) = self.db.read(SQL).one().await?;
        Ok(count > 0)
    }

    /// Returns messages to unfinished calls of this node after message `after`, oldest first, without chunks. They stay
    /// stored until they are deleted.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn messages(&self, node: &str, after: Uuid) -> Result<Vec<(Uuid, Message)>, StoreError> {
        const SQL: &str = "SELECT id, call_id, kind, body FROM inbox WHERE id > $1 AND kind NOT IN ('chunk', 'answer') \
            AND EXISTS (SELECT 1 FROM tool_calls AS c WHERE c.shard = inbox.shard AND c.id = inbox.call_id \
            AND c.node = $2 AND c.status < 2) \
            ORDER BY id LIMIT $3";
        let rows = self.db.read(SQL).bind(after).bind(node).bind(PAGE).all().await?;
        Ok(rows.into_iter().map(message).collect())
    }

    /// Returns messages to one unfinished call of this node after message `after`, oldest first, without chunks.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn messages_of(&self, node: &str, call: Uuid, after: Uuid) -> Result<Vec<(Uuid, Message)>, StoreError> {
        const SQL: &str = "SELECT id, call_id, kind, body FROM inbox WHERE shard = $1 AND call_id = $2 AND id > $3 \
            AND kind NOT IN ('chunk', 'answer') AND EXISTS (SELECT 1 FROM tool_calls AS c WHERE c.shard = $1 \
            AND c.id = $2 AND c.node = $4 AND c.status + 0 < 2) ORDER BY id LIMIT $5";
        let rows = self.db.read(SQL).bind_call(call).bind(after).bind(node).bind(PAGE).all().await?;
        Ok(rows.into_iter().map(message).collect())
    }

    /// Deletes a message that was processed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_message(&self, id: Uuid) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id = $1";
        self.db.write(SQL).bind(id).execute().await.map(drop)
    }

    /// Deletes all messages to ended calls of any node, except chunks, whose senders wait for an answer.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_messages_of_ended(&self) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE kind NOT IN ('chunk', 'answer') AND EXISTS \
            (SELECT 1 FROM tool_calls AS c WHERE c.shard = inbox.shard AND c.id = inbox.call_id AND c.status > 1)";
        self.db.write(SQL).execute().await.map(drop)
    }

    /// Returns unanswered chunks of calls of this node after message `after`, oldest first. The flag says whether the
    /// call has ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn chunks(&self, node: &str, after: Uuid) -> Result<Vec<(Uuid, Message, bool)>, StoreError> {
        const SQL: &str = "SELECT i.id, i.call_id, i.kind, i.body, c.status > 1 FROM inbox AS i \
            JOIN tool_calls AS c ON c.shard = i.shard AND c.id = i.call_id \
            WHERE i.id > $1 AND i.kind = 'chunk' AND c.node = $2 ORDER BY i.id LIMIT $3";
        let rows: Vec<(Uuid, Uuid, String, String, bool)> =
            self.db.read(SQL).bind(after).bind(node).bind(PAGE).all().await?;
        let chunk = |(id, call, kind, body, has_ended)| (id, Message { call, kind, body }, has_ended);
        Ok(rows.into_iter().map(chunk).collect())
    }

    /// Replaces a chunk with its answer. Does nothing if the sender has withdrawn the chunk.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_chunk(&self, id: Uuid, answer: &str) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE inbox SET kind = 'answer', body = $2 WHERE id = $1 AND kind = 'chunk'";
        self.db.write(SQL).bind(id).bind(answer).execute().await.map(drop)
    }

    /// Returns the answer to a chunk, if it is stored, and whether the call has ended. A call that no longer exists
    /// counts as ended.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_to(&self, id: Uuid, call: Uuid) -> Result<(Option<String>, bool), StoreError> {
        const SQL: &str = "SELECT (SELECT body FROM inbox WHERE id = $3 AND kind = 'answer'), \
            NOT EXISTS (SELECT 1 FROM tool_calls WHERE shard = $1 AND id = $2 AND status + 0 < 2)";
        self.db.read(SQL).bind_call(call).bind(id).one().await
    }

    /// Withdraws a chunk. Returns `false` if it was answered in the meantime.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn withdraw_chunk(&self, id: Uuid) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE id = $1 AND kind = 'chunk'";
        Ok(self.db.write(SQL).bind(id).execute().await? > 0)
    }

    /// Deletes chunks and answers older than `before`: their senders are gone.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_old_chunks(&self, before: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM inbox WHERE kind IN ('chunk', 'answer') AND id < $1";
        // An id of version 7 begins with its time in milliseconds.
        let first = Uuid::from_u128(u128::from(before.0.unsigned_abs() / 1000) << 80);
        self.db.write(SQL).bind(first).execute().await.map(drop)
    }
}

fn message((id, call, kind, body): (Uuid, Uuid, String, String)) -> (Uuid, Message) {
    (id, Message { call, kind, body })
}
