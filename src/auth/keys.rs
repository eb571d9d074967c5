//! The cache of API keys on this node, which is invalidated when any key changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::credentials::Credentials;
use super::limits::{LimitTable, Limits};
use super::{AuthError, Credential, key_format};
use crate::access::Access;
use crate::domain::{AllowList, Caller, Clock, Identity, Time};
use crate::registry::Registry;
use crate::store::keys::StoredKey;
use crate::store::{StoreError, Stores};

/// Maximum number of cached prefixes. Beyond it, unknown prefixes are removed, and then all.
const MAX_CACHED: usize = 10_000;
/// How long the cache stays valid if its version cannot be checked.
const LIFETIME: Duration = Duration::from_secs(4);
/// Minimum interval between two records of the use of a key, in microseconds.
const USE_INTERVAL_US: i64 = 60_000_000;

/// A cached key.
#[derive(Debug)]
pub struct CachedKey {
    hash: [u8; 32],
    recorded_at: AtomicI64,
    access: Access,
    limits: Arc<Limits>,
    /// Ends when the key is revoked or expires.
    credential: Arc<Credential>,
}

impl CachedKey {
    /// Returns the permissions, the limits and the credential of the key.
    pub(super) fn caller(&self) -> (Access, Arc<Limits>, Arc<Credential>) {
        (self.access.clone(), self.limits.clone(), self.credential.clone())
    }
}

/// The keys that were read at one version of all keys.
#[derive(Debug)]
struct KeyCache {
    version: i64,
    /// The time at which the version was last confirmed.
    checked_at: Instant,
    /// The keys by their stored prefixes; the list of a prefix that no key has is empty.
    by_prefix: HashMap<String, Vec<Arc<CachedKey>>>,
}

/// The API keys of all tenants.
#[derive(Debug)]
pub struct Keys {
    stores: Stores,
    clock: Clock,
    limits: Arc<LimitTable>,
    credentials: Arc<Credentials>,
    exist: AtomicBool,
    cache: Mutex<KeyCache>,
    used: Mutex<HashMap<Uuid, Time>>,
}

const UNKNOWN_KEY: AuthError = AuthError::Invalid("unknown or revoked API key");

impl Keys {
    /// Creates an empty cache.
    #[must_use]
    pub(super) fn new(stores: Stores, clock: Clock, limits: Arc<LimitTable>, credentials: Arc<Credentials>) -> Self {
        let cache = KeyCache { version: -1, checked_at: Instant::now(), by_prefix: HashMap::new() };
        Self {
            stores,
            clock,
            limits,
            credentials,
            exist: AtomicBool::new(false),
            cache: Mutex::new(cache),
            used: Mutex::default(),
        }
    }

    fn cache(&self) -> MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a key was ever created. Authentication is then required, even if all keys are revoked.
    #[must_use]
    pub fn any_exist(&self) -> bool {
        self.exist.load(Ordering::Relaxed)
    }

    /// Checks the version of all keys, and clears the cache if it has changed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let checked_at = Instant::now();
        let version = self.stores.keys_version().await?;
        let is_new = version != self.cache().version;
        if is_new && !self.any_exist() && self.stores.has_keys().await? {
            self.exist.store(true, Ordering::Relaxed);
        }
        let mut cache = self.cache();
        if cache.version != version {
            cache.version = version;
            cache.by_prefix.clear();
        }
        cache.checked_at = cache.checked_at.max(checked_at);
        Ok(())
    }

    /// Returns the version of all keys that was last read.
    pub fn version(&self) -> i64 {
        self.cache().version
    }

    /// Ends revoked keys that are in use.
    ///
    /// # Errors
    /// Returns an error if the database fails; the next call checks the keys again.
    pub async fn end_revoked(&self) -> Result<(), StoreError> {
        let version = self.cache().version;
        let unchecked = self.credentials.unchecked(version);
        if !unchecked.is_empty() {
            let valid = self.stores.keys_not_revoked(&unchecked).await?;
            self.credentials.end_revoked(version, &unchecked, &valid);
        }
        Ok(())
    }

    /// Looks up a key by its text.
    ///
    /// # Errors
    /// Returns an error if the key is unknown, revoked or expired, or the database fails.
    pub async fn find(&self, text: &str, registry: &Registry) -> Result<Arc<CachedKey>, AuthError> {
        let prefix = key_format::prefix_of(text).ok_or(UNKNOWN_KEY)?;
        let hash = key_format::hash(text);
        let matching = |keys: &[Arc<CachedKey>]| keys.iter().find(|key| key_format::is_same(&key.hash, &hash)).cloned();
        self.refresh_if_due().await?;
        let cached = self.cache().by_prefix.get(prefix).map(|keys| matching(keys));
        let known = match cached {
            Some(known) => known,
            None => matching(&self.read(prefix, registry).await?),
        };
        self.used(known.ok_or(UNKNOWN_KEY)?)
    }

    /// Returns `true` if the key was read before, at the last known version of all keys.
    pub fn is_cached(&self, text: &str) -> bool {
        let Some(prefix) = key_format::prefix_of(text) else { return false };
        let hash = key_format::hash(text);
        let cache = self.cache();
        cache.by_prefix.get(prefix).is_some_and(|keys| keys.iter().any(|key| key_format::is_same(&key.hash, &hash)))
    }

    /// Looks up the key with this id, which requested a ticket.
    ///
    /// # Errors
    /// Returns an error if the key is unknown, revoked or expired, or the database fails.
    pub async fn find_id(&self, id: Uuid, registry: &Registry) -> Result<Arc<CachedKey>, AuthError> {
        self.refresh_if_due().await?;
        let version = self.cache().version;
        let key = self.stores.key(id).await?.filter(|key| key.revoked_at.is_none());
        self.used(Arc::new(self.known(key.ok_or(UNKNOWN_KEY)?, version, registry).await?))
    }

    async fn refresh_if_due(&self) -> Result<(), StoreError> {
        // The lock is not held during the query.
        let is_due = self.cache().checked_at.elapsed() > LIFETIME;
        if is_due { self.refresh().await } else { Ok(()) }
    }

    fn used(&self, known: Arc<CachedKey>) -> Result<Arc<CachedKey>, AuthError> {
        let now = self.clock.now();
        if known.credential.has_expired(now) {
            return Err(AuthError::Invalid("the API key has expired"));
        }
        self.record_use(&known, now);
        Ok(known)
    }

    /// Reads the keys with a prefix from the database.
    async fn read(&self, prefix: &str, registry: &Registry) -> Result<Vec<Arc<CachedKey>>, AuthError> {
        let version = self.cache().version;
        let mut found = Vec::new();
        for key in self.stores.keys_that_begin(prefix).await? {
            if key.revoked_at.is_none() {
                found.push(Arc::new(self.known(key, version, registry).await?));
            }
        }
        let mut cache = self.cache();
        // Keys that were read before a change must not be cached after it.
        if cache.version == version {
            if cache.by_prefix.len() >= MAX_CACHED {
                cache.by_prefix.retain(|_, keys| !keys.is_empty());
            }
            if cache.by_prefix.len() >= MAX_CACHED {
                cache.by_prefix.clear();
            }
            cache.by_prefix.insert(prefix.to_owned(), found.clone());
        }
        drop(cache);
        Ok(found)
    }

    async fn known(&self, key: StoredKey, version: i64, registry: &Registry) -> Result<CachedKey, AuthError> {
        let corrupt = |_| StoreError::Corrupt(format!("the tools of key {}", key.id));
        let tools = AllowList::of(key.tools.clone()).map_err(corrupt)?.map(Arc::new);
        let corrupt = |_| StoreError::Corrupt(format!("the queues of key {}", key.id));
        let queues = AllowList::of(key.queues.clone()).map_err(corrupt)?.map(Arc::new);
        let identity = Identity { subject: key.id.to_string().into(), key: Some(key.id), scopes: key.scopes };
        let (key_id, identity) = (Some(key.id), Some(Arc::new(identity)));
        let caller = Caller { tenant: key.tenant.clone(), scopes: key.scopes, tools, queues, key: key_id, identity };
        Ok(CachedKey {
            hash: key.hash,
            recorded_at: AtomicI64::new(key.last_used_at.map_or(0, |at| at.0)),
            access: Access::open(caller, &self.stores, registry).await?,
            limits: self.limits.of_key(&key),
            credential: self.credentials.of_key(key.id, key.expires_at, version),
        })
    }

    fn record_use(&self, known: &CachedKey, now: Time) {
        let recorded = known.recorded_at.load(Ordering::Relaxed);
        let Some(id) = known.access.caller().key.filter(|_| now.0 - recorded >= USE_INTERVAL_US) else { return };
        known.recorded_at.store(now.0, Ordering::Relaxed);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MAX_CACHED {
            used.insert(id, now);
        }
    }

    /// Records which keys were used.
    ///
    /// # Errors
    /// Returns an error if the database fails. The records are then lost, which is acceptable.
    pub async fn note_use(&self) -> Result<(), StoreError> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return Ok(());
        }
        self.stores.note_key_use(&used.into_iter().collect::<Vec<_>>()).await
    }
}
