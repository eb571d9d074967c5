//! Idempotency keys and the calls that claimed them. The journal claims keys together with their calls.

use uuid::Uuid;

use super::{Db, Store, StoreError, Stores, codec, db};
use crate::domain::{IdempotencyKey, KeyClaim, Tenant, Time};

/// Retention of a key in milliseconds: 24 hours (docs/reference/contract.md, section 3).
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Maximum number of keys that one statement deletes.
const MAX_DELETED: i64 = 500;

/// Returns the current claim of the key, if any.
pub(super) async fn stored(
    db: &Db,
    tenant: &Tenant,
    key: &[u8; 32],
    now: Time,
) -> Result<Option<KeyClaim>, StoreError> {
    const SQL: &str = "SELECT fingerprint, batch_id, calls FROM idempotency_keys \
        WHERE tenant = $1 AND key = $2 AND expires_at > $3";
    let row: Option<(Vec<u8>, Option<Uuid>, Vec<u8>)> = db::on_reader!(db, pool =>
        sqlx::query_as(SQL)
            .bind(tenant.as_str().to_owned()).bind(key.to_vec()).bind(now.0)
            .fetch_optional(pool).await)?;
    let Some((fingerprint, batch_id, calls)) = row else { return Ok(None) };
    let fingerprint =
        fingerprint.try_into().map_err(|_| StoreError::Corrupt("the fingerprint of an idempotency key".to_owned()))?;
    Ok(Some(KeyClaim { once: IdempotencyKey { key: *key, fingerprint }, batch_id, calls: codec::split_ids(&calls) }))
}

impl Store {
    /// Returns the current claim of this key, if any.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn claim(&self, key: &[u8; 32], now: Time) -> Result<Option<KeyClaim>, StoreError> {
        stored(&self.db, &self.tenant, key, now).await
    }
}

impl Stores {
    /// Deletes expired keys in small portions, so that the journal does not have to wait.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn forget_keys(&self, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM idempotency_keys WHERE (tenant, key) IN \
            (SELECT tenant, key FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        loop {
            let forgotten = db::on_writer!(&self.db, pool =>
                sqlx::query(SQL).bind(now.0).bind(MAX_DELETED).execute(pool).await?.rows_affected());
            if forgotten < MAX_DELETED.unsigned_abs() {
                return Ok(());
            }
        }
    }
}
