//! Tickets for event streams: their hashes, paths and expiry.

use uuid::Uuid;

use super::{StoreError, Stores, db};
use crate::domain::{Tenant, Time};

/// Maximum number of tickets of one tenant.
pub const MOST_TICKETS: i64 = 100_000;
/// Maximum number of tickets that one statement deletes.
const MAX_DELETED: i64 = 500;

/// A stored ticket. Only the hash of the ticket itself is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTicket {
    /// SHA-256 of the ticket.
    pub hash: [u8; 32],
    /// The tenant whose events the ticket grants access to.
    pub tenant: Tenant,
    /// The path of the event stream.
    pub path: String,
    /// The API key that requested the ticket, if any.
    pub key: Option<Uuid>,
    /// The issuer's token that requested the ticket, as JSON, if any.
    pub token: Option<String>,
    /// The time of the first use.
    pub used_at: Option<Time>,
    /// The time of expiry.
    pub expires_at: Time,
}

type TicketRow = (String, String, Option<Uuid>, Option<String>, Option<i64>, i64);

impl Stores {
    /// Adds a ticket. Returns `false` if its tenant has the maximum number of tickets.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_ticket(&self, ticket: &StoredTicket) -> Result<bool, StoreError> {
        const COUNT: &str = "SELECT COUNT(*) FROM event_tickets WHERE tenant = $1";
        const SQL: &str = "INSERT INTO event_tickets (hash, tenant, path, key_id, token, expires_at) \
            VALUES ($1, $2, $3, $4, $5, $6)";
        let tenant = ticket.tenant.as_str().to_owned();
        let (count,): (i64,) = db::on_reader!(&self.db, pool =>
            sqlx::query_as(COUNT).bind(tenant.clone()).fetch_one(pool).await)?;
        if count >= MOST_TICKETS {
            return Ok(false);
        }
        db::on_writer!(&self.db, pool => sqlx::query(SQL)
            .bind(ticket.hash.to_vec()).bind(tenant).bind(ticket.path.clone())
            .bind(ticket.key).bind(ticket.token.clone()).bind(ticket.expires_at.0)
            .execute(pool).await.map(drop))?;
        Ok(true)
    }

    /// Returns the ticket with this hash, unless it has expired.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn ticket(&self, hash: &[u8; 32], now: Time) -> Result<Option<StoredTicket>, StoreError> {
        const SQL: &str = "SELECT tenant, path, key_id, token, used_at, expires_at FROM event_tickets \
            WHERE hash = $1 AND expires_at > $2";
        let row: Option<TicketRow> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(hash.to_vec()).bind(now.0).fetch_optional(pool).await)?;
        Ok(row.map(|(tenant, path, key, token, used_at, expires_at)| StoredTicket {
            hash: *hash,
            tenant: Tenant::stored(&tenant),
            path,
            key,
            token,
            used_at: used_at.map(Time),
            expires_at: Time(expires_at),
        }))
    }

    /// Records the first use of an unexpired ticket and sets its expiry to `until`. Later uses change nothing.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn use_ticket(&self, hash: &[u8; 32], now: Time, until: Time) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE event_tickets SET used_at = $2, expires_at = $3 \
            WHERE hash = $1 AND used_at IS NULL AND expires_at > $2";
        db::on_writer!(&self.db, pool =>
            sqlx::query(SQL).bind(hash.to_vec()).bind(now.0).bind(until.0).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Deletes expired tickets in small portions.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_ended_tickets(&self, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM event_tickets WHERE hash IN \
            (SELECT hash FROM event_tickets WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        loop {
            let deleted = db::on_writer!(&self.db, pool =>
                sqlx::query(SQL).bind(now.0).bind(MAX_DELETED).execute(pool).await?.rows_affected());
            if deleted < MAX_DELETED.unsigned_abs() {
                return Ok(());
            }
        }
    }
}
