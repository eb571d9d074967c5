//! Upstream MCP servers registered over HTTP, and pinned definitions. Their changes count in the version of the tools.

use super::tools::{Statement, WriteOutcome, change, change_all};
use super::{Store, StoreError, db};
use crate::domain::Time;
use crate::domain::preset::Sealed;

/// A stored server.
#[derive(Clone, PartialEq)]
pub struct StoredUpstream {
    /// The name of the server.
    pub name: String,
    /// The definition as JSON, without secrets.
    pub definition: String,
    /// The encrypted address and headers.
    pub sealed: Sealed,
    /// The time of registration.
    pub created_at: Time,
}

impl std::fmt::Debug for StoredUpstream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoredUpstream").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The pinned definition of an upstream tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPin {
    /// The name of the server.
    pub upstream: String,
    /// The name of the tool on the server.
    pub tool: String,
    /// The hash of the definition.
    pub hash: String,
}

/// Whether a pin replaces an existing pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinMode {
    /// Keeps an existing pin: this is the first definition that the server offered.
    First,
    /// Replaces an existing pin: the operator accepted the definition.
    Accepted,
}

type Row = (String, String, String, Vec<u8>, i64);

impl Store {
    /// Returns all registered servers, all pins, and their version.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn upstreams(&self) -> Result<(Vec<StoredUpstream>, Vec<StoredPin>, i64), StoreError> {
        const SQL: &str =
            "SELECT name, definition, key_id, sealed, created_at FROM upstreams WHERE tenant = $1 ORDER BY name";
        const PINS: &str = "SELECT upstream, tool, hash FROM upstream_pins WHERE tenant = $1 ORDER BY upstream, tool";
        // The version is read first: if a server changes in between, it is read again instead of missed.
        let version = self.tools_version().await?;
        let rows: Vec<Row> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_all(pool).await)?;
        let pins: Vec<(String, String, String)> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(PINS).bind(self.tenant.as_str().to_owned()).fetch_all(pool).await)?;
        let servers = rows.into_iter().map(|(name, definition, key_id, bytes, created)| StoredUpstream {
            name,
            definition,
            sealed: Sealed { key_id, bytes },
            created_at: Time(created),
        });
        let pins = pins.into_iter().map(|(upstream, tool, hash)| StoredPin { upstream, tool, hash });
        Ok((servers.collect(), pins.collect(), version))
    }

    /// Adds a server. Returns `false` if a server with this name exists.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_upstream(&self, upstream: &StoredUpstream) -> Result<bool, StoreError> {
        const SQL: &str = "INSERT INTO upstreams (tenant, name, definition, key_id, sealed, created_at) \
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, name) DO NOTHING";
        db::on_writer!(&self.db, pool => {
            let query = sqlx::query(SQL)
                .bind(self.tenant.as_str().to_owned())
                .bind(upstream.name.clone())
                .bind(upstream.definition.clone())
                .bind(upstream.sealed.key_id.clone())
                .bind(upstream.sealed.bytes.clone())
                .bind(upstream.created_at.0);
            change(pool, &self.tenant, query).await
        })
    }

    /// Deletes a server and its pins. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_upstream(&self, name: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM upstreams WHERE tenant = $1 AND name = $2";
        const PINS: &str = "DELETE FROM upstream_pins WHERE tenant = $1 AND upstream = $2";
        db::on_writer!(&self.db, pool => {
            let of = |sql| sqlx::query(sql).bind(self.tenant.as_str().to_owned()).bind(name.to_owned());
            let statements = vec![Statement::Required(of(SQL)), Statement::Optional(of(PINS))];
            change_all(pool, &self.tenant, statements).await.map(|changed| changed == WriteOutcome::Yes)
        })
    }

    /// Pins definitions of one server's tools in one transaction.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn pin(
        &self,
        upstream: &str,
        pins: &[(String, String)],
        pinning: PinMode,
        now: Time,
    ) -> Result<(), StoreError> {
        const FIRST: &str = "INSERT INTO upstream_pins (tenant, upstream, tool, hash, updated_at) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, upstream, tool) DO NOTHING";
        const ACCEPTED: &str = "INSERT INTO upstream_pins (tenant, upstream, tool, hash, updated_at) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, upstream, tool) DO UPDATE SET \
            hash = excluded.hash, updated_at = excluded.updated_at";
        let sql = if pinning == PinMode::First { FIRST } else { ACCEPTED };
        db::on_writer!(&self.db, pool => {
            let statements = pins.iter().map(|(tool, hash)| {
                sqlx::query(sql)
                    .bind(self.tenant.as_str().to_owned())
                    .bind(upstream.to_owned())
                    .bind(tool.clone())
                    .bind(hash.clone())
                    .bind(now.0)
            });
            change_all(pool, &self.tenant, statements.map(Statement::Optional).collect()).await.map(drop)
        })
    }
}
