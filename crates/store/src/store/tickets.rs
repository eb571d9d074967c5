//! Tickets for event streams, and sessions of the console: their hashes, paths and expiry.

use uuid::Uuid;

use super::keys::BUMP;
use super::{StoreError, Stores};
use toolpost_core::domain::{Tenant, Time};

/// Maximum number of tickets of one tenant.
pub const MAX_TICKETS: i64 = 100_000;

/// A stored ticket. Only the hash of the ticket itself is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTicket {
    /// SHA-256 of the ticket.
    pub hash: [u8; 32],
    /// The tenant whose events the ticket grants access to.
    pub tenant: Tenant,
    /// The path of the event stream; `console` for a session of the console.
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

impl Stores {
    /// Adds a ticket. Returns `false` if its tenant has the maximum number of tickets.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_ticket(&self, ticket: &StoredTicket) -> Result<bool, StoreError> {
        const COUNT: &str = "SELECT COUNT(*) FROM event_tickets WHERE tenant = $1";
        const SQL: &str = "INSERT INTO event_tickets (hash, tenant, path, key_id, token, used_at, expires_at) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let StoredTicket { hash, tenant, path, key, token, used_at, expires_at } = ticket;
        let (count,): (i64,) = self.db.read(COUNT).bind(tenant).one().await?;
        if count >= MAX_TICKETS {
            return Ok(false);
        }
        let insert = self.db.write(SQL).bind(&hash[..]).bind(tenant).bind(path).bind(key).bind(token);
        insert.bind(used_at).bind(expires_at).execute().await?;
        Ok(true)
    }

    /// Returns the ticket with this hash, unless it has expired.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn ticket(&self, hash: &[u8; 32], now: Time) -> Result<Option<StoredTicket>, StoreError> {
        const SQL: &str = "SELECT tenant, path, key_id, token, used_at, expires_at FROM event_tickets \
            WHERE hash = $1 AND expires_at > $2";
        let row = self.db.read(SQL).bind(&hash[..]).bind(now).optional().await?;
        let ticket = |(tenant, path, key, token, used_at, expires_at)| StoredTicket {
            hash: *hash,
            tenant,
            path,
            key,
            token,
            used_at,
            expires_at,
        };
        Ok(row.map(ticket))
    }

    /// Records the first use of an unexpired ticket and sets its expiry to `until`. Later uses change nothing.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn use_ticket(&self, hash: &[u8; 32], now: Time, until: Time) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE event_tickets SET used_at = $2, expires_at = $3 \
            WHERE hash = $1 AND used_at IS NULL AND expires_at > $2";
        self.db.write(SQL).bind(&hash[..]).bind(now).bind(until).execute().await.map(drop)
    }

    /// Deletes a session of the console. If it exists, the version of the keys changes, so that other nodes look for ended
    /// sessions; anybody may send the value of an unknown one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn end_session(&self, hash: &[u8; 32]) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM event_tickets WHERE hash = $1";
        let deleted = self.db.transaction(async |transaction| {
            let deleted = transaction.query(SQL).bind(&hash[..]).execute().await?;
            if deleted > 0 {
                transaction.query(BUMP).execute().await?;
            }
            Ok(Some(deleted))
        });
        if deleted.await?.is_some_and(|deleted| deleted > 0) {
            self.signals.notify_keys();
        }
        Ok(())
    }

    /// Deletes expired tickets in small portions.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_ended_tickets(&self, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM event_tickets WHERE hash IN \
            (SELECT hash FROM event_tickets WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        self.delete_in_portions(SQL, now).await
    }
}
