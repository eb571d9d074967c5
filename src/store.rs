//! The only floor with SQL: calls, callbacks, events, groups, sessions, stats, tools and settings in SQLite or Postgres.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::domain::Tenant;
use crate::domain::tenant::TenantLimits;

pub mod callbacks;
pub mod calls;
mod codec;
pub mod db;
pub mod events;
pub mod export;
pub mod groups;
pub mod hooks;
pub mod idempotency;
pub mod inbox;
pub mod inspect;
pub mod journal;
pub mod keys;
pub mod lock;
mod migrate;
pub mod nodes;
pub mod presets;
mod quota;
pub mod retention;
pub mod sessions;
pub mod settings;
pub mod stats;
pub mod tenants;
pub mod tickets;
pub mod timeout;
pub mod tools;
pub mod upstreams;

pub use db::{Db, StoreError};
pub use journal::Journal;

use quota::Quotas;

/// Changes of sessions that a watcher may be behind.
const SESSIONS_BEHIND: usize = 256;

/// What belongs to no tenant, and the way to each tenant's own: what belongs to somebody can be asked of their [`Store`]
/// only. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stores(Arc<Inner>);

/// One for all that hold it: it goes with every call.
#[derive(Debug)]
pub struct Inner {
    db: Db,
    /// Sessions whose state has changed here.
    sessions: broadcast::Sender<(Tenant, Arc<str>)>,
    /// How much each tenant may have.
    room: Arc<Quotas>,
}

/// Reads of what one tenant has, and the rare writes that are not the journal's. Cheap to clone.
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
    /// The default tenant's, of a database that is opened for it; see [`Stores::open`].
    ///
    /// # Errors
    /// An URL that is none, a database out of reach, or a migration that fails.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Stores::open(url).await?.of(&Tenant::default()))
    }

    /// Whose the rows are that it reads and writes.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The same database, whoever the tenant is.
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
    /// Opens the database, makes it if it is SQLite and missing, and brings it to the newest migration.
    ///
    /// # Errors
    /// An URL that is none, a database out of reach, or a migration that fails.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let db = Db::open(url).await?;
        migrate::run(&db).await?;
        Ok(Self(Arc::new(Inner { db, sessions: broadcast::Sender::new(SESSIONS_BEHIND), room: Arc::default() })))
    }

    /// The same, where each tenant may have so much.
    #[must_use]
    pub fn bounded(self, limits: TenantLimits) -> Self {
        let Inner { db, sessions, .. } = &*self.0;
        Self(Arc::new(Inner { db: db.clone(), sessions: sessions.clone(), room: Arc::new(Quotas::new(limits)) }))
    }

    /// What this tenant has.
    #[must_use]
    pub fn of(&self, tenant: &Tenant) -> Store {
        Store { stores: self.clone(), tenant: tenant.clone() }
    }

    /// The database beneath, for the journal.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        db::on_reader!(&self.db, pool => sqlx::query("SELECT 1").execute(pool).await.map(|_| ())).map_err(Into::into)
    }

    /// Closes all connections; SQLite folds its log back into the file. A server that does not answer is left alone.
    pub async fn close(&self) {
        let closed = timeout::within(async {
            self.db.close().await;
            Ok::<_, StoreError>(())
        });
        if closed.await.is_err() {
            tracing::warn!("the database is away; its connections are left as they are");
        }
    }
}
