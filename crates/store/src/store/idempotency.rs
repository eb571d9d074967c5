//! Idempotency keys and the calls that claimed them. The journal claims keys together with their calls.

use super::{Db, Store, StoreError, Stores, codec};
use toolpost_core::domain::{IdempotencyKey, KeyClaim, Tenant, Time};

/// Retention of a key in milliseconds: 24 hours (docs/reference/contract.md, section 3).
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Returns the current claim of the key, if any.
pub(super) async fn stored(
    db: &Db,
    tenant: &Tenant,
    key: &[u8; 32],
    now: Time,
) -> Result<Option<KeyClaim>, StoreError> {
    const SQL: &str = "SELECT fingerprint, batch_id, calls FROM idempotency_keys \
        WHERE tenant = $1 AND key = $2 AND expires_at > $3";
    let row = db.read(SQL).bind(tenant).bind(&key[..]).bind(now).optional::<(Vec<u8>, _, Vec<u8>)>().await?;
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
        self.delete_in_portions(SQL, now).await
    }
}
