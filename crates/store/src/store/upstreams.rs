//! Upstream MCP servers registered over HTTP, and pinned definitions. Their changes count in the version of the tools.

use std::collections::BTreeMap;

use super::{Store, StoreError};
use toolpost_core::domain::Time;
use toolpost_core::domain::preset::SealedValue;

/// Maximum number of rows that one statement writes.
const PAGE: usize = 256;

/// A stored server.
#[derive(Clone, PartialEq)]
pub struct StoredUpstream {
    /// The name of the server.
    pub name: String,
    /// The definition as JSON, without secrets.
    pub definition: String,
    /// The encrypted address and headers.
    pub sealed: SealedValue,
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
        let servers = self.read(SQL).all().await?.into_iter().map(|(name, definition, key_id, bytes, created_at)| {
            StoredUpstream { name, definition, sealed: SealedValue { key_id, bytes }, created_at }
        });
        let pins = self.read(PINS).all().await?;
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
        let StoredUpstream { name, definition, sealed, created_at } = upstream;
        self.change_tools(async |transaction| {
            let query = transaction.query(SQL).bind(&self.tenant).bind(name).bind(definition);
            Ok(query.bind(&sealed.key_id).bind(&sealed.bytes).bind(created_at).execute().await? > 0)
        })
        .await
    }

    /// Deletes a server and its pins. Returns `false` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_upstream(&self, name: &str) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM upstreams WHERE tenant = $1 AND name = $2";
        const PINS: &str = "DELETE FROM upstream_pins WHERE tenant = $1 AND upstream = $2";
        self.change_tools(async |transaction| {
            if transaction.query(SQL).bind(&self.tenant).bind(name).execute().await? == 0 {
                return Ok(false);
            }
            transaction.query(PINS).bind(&self.tenant).bind(name).execute().await?;
            Ok(true)
        })
        .await
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
        const INSERT: &str = "INSERT INTO upstream_pins (tenant, upstream, tool, hash, updated_at) VALUES ";
        const FIRST: &str = " ON CONFLICT (tenant, upstream, tool) DO NOTHING";
        const ACCEPTED: &str = " ON CONFLICT (tenant, upstream, tool) DO UPDATE SET \
            hash = excluded.hash, updated_at = excluded.updated_at";
        let on_conflict = if pinning == PinMode::First { FIRST } else { ACCEPTED };
        // One statement must not update a row twice.
        let pins: Vec<_> =
            pins.iter().map(|(tool, hash)| (tool, hash)).collect::<BTreeMap<_, _>>().into_iter().collect();
        let pinned = self.change_tools(async |transaction| {
            for page in pins.chunks(PAGE) {
                let mut query = transaction.query(INSERT);
                for (index, (tool, hash)) in page.iter().enumerate() {
                    query = query.push(if index == 0 { "(" } else { ", (" }).push_bind(&self.tenant).push(", ");
                    query = query.push_bind(upstream).push(", ").push_bind(*tool).push(", ").push_bind(*hash);
                    query = query.push(", ").push_bind(now).push(")");
                }
                query.push(on_conflict).uncached().execute().await?;
            }
            Ok(true)
        });
        pinned.await.map(drop)
    }
}
