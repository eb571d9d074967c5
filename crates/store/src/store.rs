//! Persistence of calls, events, sessions, tools, keys and statistics in SQLite or Postgres. All SQL of the service is
//! here.

use std::sync::Arc;

use toolpost_core::domain::tenant::TenantLimits;
use toolpost_core::domain::{Tenant, Time};

pub mod approvals;
pub mod at_work;
pub mod budgets;
pub mod callbacks;
pub mod calls;
mod codec;
pub mod db;
mod error;
pub mod events;
pub mod export;
pub mod groups;
pub mod history;
pub mod hooks;
pub mod idempotency;
pub mod inbox;
pub mod inspect;
pub mod journal;
pub mod keys;
pub mod lock;
pub mod mcp_sessions;
mod migrate;
pub mod nodes;
pub mod notices;
pub mod partitions;
pub mod pauses;
pub mod policies;
pub mod presets;
mod query;
mod quota;
pub mod retention;
mod server;
pub mod sessions;
pub mod settings;
pub mod shards;
pub mod signals;
pub mod stats;
pub mod tenants;
pub mod tickets;
pub mod timeout;
pub mod tools;
pub mod transactions;
pub mod upstreams;
pub mod workers;

pub use db::Db;
pub use error::StoreError;
pub use journal::Journal;

use query::Query;
use quota::Quotas;
use signals::Signals;

/// A handle to the database of all tenants. Data of one tenant is accessible only through its [`Store`]. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct Stores(Arc<Inner>);

/// The shared state of all handles. Behind an `Arc`, because each call clones its handle.
#[derive(Debug)]
pub struct Inner {
    db: Db,
    /// Whether the database is a Citus cluster.
    is_distributed: bool,
    signals: Signals,
    /// The quotas of each tenant.
    quotas: Arc<Quotas>,
}

/// A handle to the data of one tenant: its queries, and the writes that do not go through the journal. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    stores: Stores,
    tenant: Tenant,
}

impl std::ops::Deref for Store {
    type Target = Stores;

    fn deref(&self) -> &Stores {
        &self.stores
    }
}

impl Store {
    /// Opens a database and returns the store of the default tenant; see [`Stores::open`].
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, the database is unreachable or a migration fails.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Stores::open(url).await?.for_tenant(&Tenant::default()))
    }

    /// Returns the tenant whose rows this store reads and writes.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Creates a query with the tenant as its first parameter.
    fn read(&self, sql: &'static str) -> Query<'_> {
        self.db.read(sql).bind(&self.tenant)
    }

    /// Creates a change with the tenant as its first parameter.
    fn write(&self, sql: &'static str) -> Query<'_> {
        self.db.write(sql).bind(&self.tenant)
    }

    /// Returns the handle that is not restricted to a tenant.
    #[must_use]
    pub fn stores(&self) -> &Stores {
        &self.stores
    }
}

impl std::ops::Deref for Stores {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Stores {
    /// Opens the database and applies pending migrations. A missing SQLite file is created.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, the database is unreachable or a migration fails.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let db = Db::open(url).await?;
        let ((), is_distributed) = tokio::try_join!(migrate::run(&db), db.is_distributed())?;
        Ok(Self(Arc::new(Inner { signals: Signals::new(&db), db, is_distributed, quotas: Arc::default() })))
    }

    /// Returns the same database with these quotas for each tenant.
    #[must_use]
    pub fn bounded(self, limits: TenantLimits) -> Self {
        let Inner { db, is_distributed, signals, .. } = &*self.0;
        let (db, is_distributed, signals) = (db.clone(), *is_distributed, signals.clone());
        Self(Arc::new(Inner { db, is_distributed, signals, quotas: Arc::new(Quotas::new(limits)) }))
    }

    /// Returns the store of one tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> Store {
        Store { stores: self.clone(), tenant: tenant.clone() }
    }

    /// Returns the database, for the journal.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the signals between the nodes that share the database.
    #[must_use]
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    /// Returns an error if the query fails.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.read("SELECT 1").execute().await.map(drop)
    }

    /// Repeats a deletion of rows that expire until `now` ($1), at most so many at a time ($2), so that the journal does
    /// not have to wait.
    async fn delete_in_portions(&self, sql: &'static str, now: Time) -> Result<(), StoreError> {
        const PORTION: u32 = 500;
        while self.db.write(sql).bind(now).bind(i64::from(PORTION)).execute().await? >= u64::from(PORTION) {}
        Ok(())
    }

    /// Sends the pending signals and closes all connections; SQLite checkpoints its write-ahead log. Connections to an unresponsive server are left
    /// open.
    pub async fn close(&self) {
        self.signals.close(&self.db).await;
        let closed = timeout::within(async {
            self.db.close().await;
            Ok::<_, StoreError>(())
        });
        if closed.await.is_err() {
            tracing::warn!("the database is unavailable; its connections are left open");
        }
    }
}
