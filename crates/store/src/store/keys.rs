//! API keys: their hashes and permissions, and a version that changes with every change of a key.

use std::collections::HashSet;

use serde::Serialize;
use uuid::Uuid;

use super::{StoreError, Stores, quota};
use toolpost_core::domain::tenant::QuotaResource;
use toolpost_core::domain::{Scope, Scopes, Tenant, Time};

/// The key's metadata, without the secret. Only the hash and a prefix of the key itself are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ApiKey)]
pub struct StoredKey {
    /// The id of the key.
    pub id: Uuid,
    /// The name for display.
    pub name: String,
    /// The first characters of the key.
    pub prefix: String,
    /// SHA-256 of the complete key.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// The tenant of the key.
    #[schema(value_type = String)]
    pub tenant: Tenant,
    /// The scopes of the key.
    #[schema(value_type = Vec<Scope>)]
    pub scopes: Scopes,
    /// The tools that the key may use; an empty list means all tools.
    pub tools: Vec<String>,
    /// The queues whose calls the key may fetch; an empty list means all queues.
    pub queues: Vec<String>,
    /// Maximum number of requests per minute; `null` means as configured.
    pub rate: Option<u32>,
    /// Maximum number of concurrent requests; `null` means as configured.
    pub concurrency: Option<u32>,
    /// When the key was created.
    pub created_at: Time,
    /// When the key expires; `null` means never.
    pub expires_at: Option<Time>,
    /// When the key was revoked; `null` if it was not.
    pub revoked_at: Option<Time>,
    /// When the key was last used, accurate to about a minute.
    pub last_used_at: Option<Time>,
}

/// Maximum number of keys looked up in one query.
const MAX_LOOKED_UP: usize = 500;

pub(super) const BUMP: &str = "UPDATE keys_clock SET version = version + 1";
const SELECT: &str = "SELECT id, tenant, name, prefix, hash, scopes, tools, queues, rate, concurrency, created_at, \
    expires_at, revoked_at, last_used_at FROM api_keys";

/// The columns of a key, as they are read.
type Row = (
    Uuid,
    Tenant,
    String,
    String,
    Vec<u8>,
    String,
    String,
    String,
    Option<i64>,
    Option<i64>,
    Time,
    Option<Time>,
    Option<Time>,
    Option<Time>,
);

fn decode(row: Row) -> Result<StoredKey, StoreError> {
    let (
        id,
        tenant,
        name,
        prefix,
        hash,
        scopes,
        tools,
        queues,
        rate,
        concurrency,
        created_at,
        expires_at,
        revoked_at,
        used,
    ) = row;
    let corrupt = |what: &str| StoreError::Corrupt(format!("key {id}: {what}"));
    let bound = |number: Option<i64>| number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(StoredKey {
        id,
        tenant,
        name,
        prefix,
        hash: hash.try_into().map_err(|_| corrupt("invalid hash"))?,
        scopes: Scopes::of_text(&scopes),
        tools: serde_json::from_str(&tools).map_err(|_| corrupt("its tools"))?,
        queues: serde_json::from_str(&queues).map_err(|_| corrupt("its queues"))?,
        rate: bound(rate),
        concurrency: bound(concurrency),
        created_at,
        expires_at,
        revoked_at,
        last_used_at: used,
    })
}

/// Selects 1 if a key was ever created, otherwise 0.
pub(super) const ANY: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM api_keys LIMIT 1) AS any_key";

impl Stores {
    /// Returns the version of the keys, which increases with every change of a key.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_version(&self) -> Result<i64, StoreError> {
        let (version,) = self.db.read("SELECT version FROM keys_clock").one().await?;
        Ok(version)
    }

    /// Returns `true` if a key was ever created, including revoked keys.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        let (count,): (i64,) = self.db.read(ANY).one().await?;
        Ok(count > 0)
    }

    /// Returns the keys with this prefix, usually at most one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_that_begin(&self, prefix: &str) -> Result<Vec<StoredKey>, StoreError> {
        let query = self.db.read(SELECT).push(" WHERE prefix = ").push_bind(prefix).push(" LIMIT 16");
        query.all().await?.into_iter().map(decode).collect()
    }

    /// Returns one key, including a revoked one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn key(&self, id: Uuid) -> Result<Option<StoredKey>, StoreError> {
        self.db.read(SELECT).push(" WHERE id = ").push_bind(id).optional().await?.map(decode).transpose()
    }

    /// Returns the ids of these keys that exist and are not revoked.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_not_revoked(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
        let mut valid = HashSet::with_capacity(ids.len());
        for ids in ids.chunks(MAX_LOOKED_UP) {
            let query = self.db.read("SELECT id FROM api_keys WHERE revoked_at IS NULL AND id IN ").push_list(ids);
            valid.extend(query.column::<Uuid>().await?);
        }
        Ok(valid)
    }

    /// Returns a page of the keys of one tenant or of all tenants, newest first, older than `before`.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys(
        &self,
        tenant: Option<&Tenant>,
        before: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<StoredKey>, StoreError> {
        let query = self.db.read(SELECT).push(" WHERE TRUE").push_some(" AND tenant = ", tenant);
        let query = query.push_some(" AND id < ", before).push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
        query.all().await?.into_iter().map(decode).collect()
    }

    /// Adds a key.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn insert_key(&self, key: &StoredKey) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO api_keys (id, tenant, name, prefix, hash, scopes, tools, queues, rate, \
            concurrency, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let text =
            |globs: &[String]| serde_json::to_string(globs).map_err(|error| StoreError::Corrupt(error.to_string()));
        let (tools, queues) = (text(&key.tools)?, text(&key.queues)?);
        let inserted = self.db.transaction(async |transaction| {
            transaction.query(BUMP).execute().await?;
            let query = transaction.query(SQL).bind(key.id).bind(&key.tenant).bind(&key.name).bind(&key.prefix);
            let query = query.bind(&key.hash[..]).bind(key.scopes.to_text()).bind(tools).bind(queues);
            let query = query.bind(key.rate.map(i64::from)).bind(key.concurrency.map(i64::from));
            query.bind(key.created_at).bind(key.expires_at).execute().await?;
            self.quotas.check(transaction.query(quota::KEYS), &key.tenant, QuotaResource::Key).await?;
            Ok(Some(()))
        });
        inserted.await?;
        self.signals.notify_keys();
        Ok(())
    }

    /// Revokes a key, restricted to a tenant if one is given. A revoked key stays unchanged. Returns `false` if the key
    /// does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn revoke_key(&self, tenant: Option<&Tenant>, id: Uuid, now: Time) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $3) \
            WHERE id = $1 AND (tenant = $2 OR $4 = 0)";
        let (owner, only) = (tenant.map_or("", Tenant::as_str), i32::from(tenant.is_some()));
        let rows = self.db.transaction(async |transaction| {
            transaction.query(BUMP).execute().await?;
            transaction.query(SQL).bind(id).bind(owner).bind(now).bind(only).execute().await.map(Some)
        });
        let is_revoked = rows.await?.is_some_and(|rows| rows > 0);
        self.signals.notify_keys();
        Ok(is_revoked)
    }

    /// Records when keys were last used. The version of the keys does not change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn note_key_use(&self, used: &[(Uuid, Time)]) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE api_keys SET last_used_at = $2 WHERE id = $1 \
            AND (last_used_at IS NULL OR last_used_at < $2)";
        for (id, at) in used {
            self.db.write(SQL).bind(id).bind(at).execute().await?;
        }
        Ok(())
    }
}
