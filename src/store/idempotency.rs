//! Idempotency keys: which calls have taken one. They are taken by the journal, together with the calls.

use uuid::Uuid;

use super::{Db, Store, StoreError, Stores, codec, db};
use crate::domain::{IdempotencyKey, KeyClaim, Tenant, Time};

/// How long a key is kept, in milliseconds: 24 hours (docs/reference/contract.md, section 3).
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Most keys that one statement forgets.
const FORGOTTEN_AT_ONCE: i64 = 500;

/// The key as it is taken now, if it is.
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
    Ok(Some(KeyClaim { once: IdempotencyKey { key: *key, fingerprint }, batch_id, calls: codec::ids_of(&calls) }))
}

impl Store {
    /// Which calls have taken this key, if any have.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn claim(&self, key: &[u8; 32], now: Time) -> Result<Option<KeyClaim>, StoreError> {
        stored(&self.db, &self.tenant, key, now).await
    }
}

impl Stores {
    /// Forgets keys whose time is over, a few at a time: the journal waits for none of it.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_keys(&self, now: Time) -> Result<(), StoreError> {
        const SQL: &str = "DELETE FROM idempotency_keys WHERE (tenant, key) IN \
            (SELECT tenant, key FROM idempotency_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
        loop {
            let forgotten = db::on_writer!(&self.db, pool =>
                sqlx::query(SQL).bind(now.0).bind(FORGOTTEN_AT_ONCE).execute(pool).await?.rows_affected());
            if forgotten < FORGOTTEN_AT_ONCE.unsigned_abs() {
                return Ok(());
            }
        }
    }
}
