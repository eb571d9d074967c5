//! API keys: their hashes and permissions, and a version that changes with every change of a key.

use std::collections::HashSet;

use sqlx::{Connection, FromRow, QueryBuilder, Row};
use uuid::Uuid;

use super::{StoreError, Stores, db, quota};
use crate::domain::tenant::QuotaResource;
use crate::domain::{Scopes, Tenant, Time};

/// A stored key. Only the hash and a prefix of the key itself are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The id of the key.
    pub id: Uuid,
    /// The tenant of the key.
    pub tenant: Tenant,
    /// The display name.
    pub name: String,
    /// The first characters of the key.
    pub prefix: String,
    /// SHA-256 of the complete key.
    pub hash: [u8; 32],
    /// The permissions of the key.
    pub scopes: Scopes,
    /// Globs of permitted tool names; an empty list permits all tools.
    pub tools: Vec<String>,
    /// Maximum requests per minute; `None` for the configured default.
    pub rate: Option<u32>,
    /// Maximum concurrent requests; `None` for the configured default.
    pub concurrency: Option<u32>,
    /// The time of creation.
    pub created_at: Time,
    /// The time of expiry; `None` if the key does not expire.
    pub expires_at: Option<Time>,
    /// The time of revocation; `None` if the key is not revoked.
    pub revoked_at: Option<Time>,
    /// The time of the last use, accurate to about a minute.
    pub last_used_at: Option<Time>,
}

/// Maximum number of keys looked up in one query.
const MAX_LOOKED_UP: usize = 500;

const BUMP: &str = "UPDATE keys_clock SET version = version + 1";
const COLUMNS: &str = "id, tenant, name, prefix, hash, scopes, tools, rate, concurrency, created_at, expires_at, \
    revoked_at, last_used_at";

/// The row of a key, as it is read.
struct KeyRow {
    texts: [String; 5],
    numbers: [Option<i64>; 5],
    id: Uuid,
    hash: Vec<u8>,
    created_at: i64,
}

impl<'r, R: Row> FromRow<'r, R> for KeyRow
where
    usize: sqlx::ColumnIndex<R>,
    Uuid: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    String: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Vec<u8>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let text = |place: usize| row.try_get::<String, _>(place);
        let number = |place: usize| row.try_get::<Option<i64>, _>(place);
        Ok(Self {
            texts: [text(1)?, text(2)?, text(3)?, text(5)?, text(6)?],
            numbers: [number(7)?, number(8)?, number(10)?, number(11)?, number(12)?],
            id: row.try_get(0)?,
            hash: row.try_get(4)?,
            created_at: row.try_get(9)?,
        })
    }
}

impl KeyRow {
    fn decode(self) -> Result<StoredKey, StoreError> {
        let corrupt = |what: &str| StoreError::Corrupt(format!("key {}: {what}", self.id));
        let [tenant, name, prefix, scopes, tools] = self.texts;
        let [rate, concurrency, expires_at, revoked_at, last_used_at] = self.numbers;
        let bound = |number: Option<i64>| number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(StoredKey {
            id: self.id,
            tenant: Tenant::stored(&tenant),
            name,
            prefix,
            hash: self.hash.try_into().map_err(|_| StoreError::Corrupt(format!("key {}: invalid hash", self.id)))?,
            scopes: Scopes::of_text(&scopes),
            tools: serde_json::from_str(&tools).map_err(|_| corrupt("its tools"))?,
            rate: bound(rate),
            concurrency: bound(concurrency),
            created_at: Time(self.created_at),
            expires_at: expires_at.map(Time),
            revoked_at: revoked_at.map(Time),
            last_used_at: last_used_at.map(Time),
        })
    }
}

/// Selects 1 if a key was ever created, otherwise 0.
pub(super) const ANY: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM api_keys LIMIT 1) AS any_key";

impl Stores {
    /// Returns the version of the keys, which increases with every change of a key.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_version(&self) -> Result<i64, StoreError> {
        let (version,): (i64,) = db::on_reader!(&self.db, pool =>
            sqlx::query_as("SELECT version FROM keys_clock").fetch_one(pool).await)?;
        Ok(version)
    }

    /// Returns `true` if a key was ever created, including revoked keys.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        let (count,): (i64,) = db::on_reader!(&self.db, pool => sqlx::query_as(ANY).fetch_one(pool).await)?;
        Ok(count > 0)
    }

    /// Returns the keys with this prefix, usually at most one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_that_begin(&self, prefix: &str) -> Result<Vec<StoredKey>, StoreError> {
        const SQL: &str = "SELECT id, tenant, name, prefix, hash, scopes, tools, rate, concurrency, created_at, \
            expires_at, revoked_at, last_used_at FROM api_keys WHERE prefix = $1 LIMIT 16";
        let rows: Vec<KeyRow> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(prefix.to_owned()).fetch_all(pool).await)?;
        rows.into_iter().map(KeyRow::decode).collect()
    }

    /// Returns one key, including a revoked one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn key(&self, id: Uuid) -> Result<Option<StoredKey>, StoreError> {
        const SQL: &str = "SELECT id, tenant, name, prefix, hash, scopes, tools, rate, concurrency, created_at, \
            expires_at, revoked_at, last_used_at FROM api_keys WHERE id = $1";
        let row: Option<KeyRow> =
            db::on_reader!(&self.db, pool => sqlx::query_as(SQL).bind(id).fetch_optional(pool).await)?;
        row.map(KeyRow::decode).transpose()
    }

    /// Returns the ids of these keys that exist and are not revoked.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn keys_not_revoked(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
        let mut valid = HashSet::with_capacity(ids.len());
        for ids in ids.chunks(MAX_LOOKED_UP) {
            let rows: Vec<(Uuid,)> =
                db::on_reader!(&self.db, pool => not_revoked(ids).build_query_as().fetch_all(pool).await?);
            valid.extend(rows.into_iter().map(|(id,)| id));
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
        let rows: Vec<KeyRow> =
            db::on_reader!(&self.db, pool => page(tenant, before, limit).build_query_as().fetch_all(pool).await?);
        rows.into_iter().map(KeyRow::decode).collect()
    }

    /// Adds a key.
    ///
    /// # Errors
    /// Returns [`StoreError::TooMany`] if the quota of the tenant is reached, and another [`StoreError`] if the
    /// database fails.
    pub async fn insert_key(&self, key: &StoredKey) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO api_keys (id, tenant, name, prefix, hash, scopes, tools, rate, concurrency, \
            created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let tools = serde_json::to_string(&key.tools).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let inserted = db::in_transaction!(&self.db, transaction => {
            sqlx::query(BUMP).execute(&mut *transaction).await?;
            sqlx::query(SQL)
                .bind(key.id)
                .bind(key.tenant.as_str().to_owned())
                .bind(key.name.clone())
                .bind(key.prefix.clone())
                .bind(key.hash.to_vec())
                .bind(key.scopes.to_text())
                .bind(tools)
                .bind(key.rate.map(i64::from))
                .bind(key.concurrency.map(i64::from))
                .bind(key.created_at.0)
                .bind(key.expires_at.map(|at| at.0))
                .execute(&mut *transaction)
                .await?;
            let room = sqlx::query(quota::KEYS).bind(key.tenant.as_str().to_owned()).bind(self.room.limit(QuotaResource::Key));
            let fits = room.execute(&mut *transaction).await?.rows_affected() > 0;
            fits.then_some(())
        })?;
        inserted.ok_or_else(|| self.room.too_many(QuotaResource::Key))
    }

    /// Revokes a key, restricted to a tenant if one is given. A revoked key stays unchanged. Returns `false` if the key
    /// does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn revoke_key(&self, tenant: Option<&Tenant>, id: Uuid, now: Time) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $3) \
            WHERE id = $1 AND (tenant = $2 OR $4 = 0)";
        let (owner, only) = (tenant.map_or("", Tenant::as_str).to_owned(), i32::from(tenant.is_some()));
        let rows = db::in_transaction!(&self.db, transaction => {
            sqlx::query(BUMP).execute(&mut *transaction).await?;
            let query = sqlx::query(SQL).bind(id).bind(owner).bind(now.0).bind(only);
            Some(query.execute(&mut *transaction).await?.rows_affected())
        })?;
        Ok(rows.is_some_and(|rows| rows > 0))
    }

    /// Records when keys were last used. The version of the keys does not change.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn note_key_use(&self, used: &[(Uuid, Time)]) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE api_keys SET last_used_at = $2 WHERE id = $1 \
            AND (last_used_at IS NULL OR last_used_at < $2)";
        for (id, at) in used {
            db::on_writer!(&self.db, pool => sqlx::query(SQL).bind(*id).bind(at.0).execute(pool).await.map(drop))?;
        }
        Ok(())
    }
}

fn not_revoked<D: sqlx::Database>(ids: &[Uuid]) -> QueryBuilder<D>
where
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("SELECT id FROM api_keys WHERE revoked_at IS NULL AND id IN (");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(*id);
    }
    query.push(")");
    query
}

fn page<D: sqlx::Database>(tenant: Option<&Tenant>, before: Option<Uuid>, limit: u32) -> QueryBuilder<D>
where
    String: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    i64: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
    Uuid: for<'q> sqlx::Encode<'q, D> + sqlx::Type<D>,
{
    let mut query = QueryBuilder::<D>::new("SELECT ");
    query.push(COLUMNS).push(" FROM api_keys WHERE TRUE");
    if let Some(tenant) = tenant {
        query.push(" AND tenant = ").push_bind(tenant.as_str().to_owned());
    }
    if let Some(before) = before {
        query.push(" AND id < ").push_bind(before);
    }
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
    query
}
