//! API keys as this node knows them: looked up once, and forgotten as soon as any key changes anywhere.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::credentials::Credentials;
use super::limits::{AllLimits, Defaults, Limits};
use super::{AuthError, Credential, key_format};
use crate::access::Access;
use crate::domain::{AllowList, Caller, Clock, Time};
use crate::registry::Registry;
use crate::store::keys::StoredKey;
use crate::store::{StoreError, Stores};

/// Keys that are known at most; beyond that all are looked up again.
const MOST: usize = 10_000;
/// How long what is known counts if it could not be looked whether it still holds.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// How often the use of a key is noted.
const NOTED_EVERY_US: i64 = 60_000_000;

/// A key that is known.
#[derive(Debug)]
pub struct CachedKey {
    hash: [u8; 32],
    expires_at: Option<Time>,
    noted_at: AtomicI64,
    /// What it may see.
    pub access: Access,
    /// How much it may ask.
    pub limits: Arc<Limits>,
    /// The key itself, until it ends.
    pub credential: Arc<Credential>,
}

/// What was found out since the keys changed last.
#[derive(Debug)]
struct KeyCache {
    version: i64,
    /// When it was seen that they have not changed since.
    looked_at: Instant,
    known: HashMap<Uuid, Arc<CachedKey>>,
    by_prefix: HashMap<String, Vec<Uuid>>,
    /// Beginnings that no key has.
    unknown: HashSet<String>,
}

/// All keys.
#[derive(Debug)]
pub struct Keys {
    stores: Stores,
    clock: Clock,
    limits: AllLimits,
    credentials: Arc<Credentials>,
    are_there: AtomicBool,
    memory: Mutex<KeyCache>,
    used: Mutex<HashMap<Uuid, Time>>,
}

const NO_SUCH_KEY: AuthError = AuthError::Invalid("there is no such API key, or it was revoked");

impl Keys {
    /// Nothing is known yet.
    #[must_use]
    pub(super) fn new(stores: Stores, clock: Clock, defaults: Defaults, credentials: Arc<Credentials>) -> Self {
        let memory = KeyCache {
            version: -1,
            looked_at: Instant::now(),
            known: HashMap::new(),
            by_prefix: HashMap::new(),
            unknown: HashSet::new(),
        };
        Self {
            stores,
            clock,
            limits: AllLimits::new(defaults),
            credentials,
            are_there: AtomicBool::new(false),
            memory: Mutex::new(memory),
            used: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, KeyCache> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was ever a key: then one has to be shown, also if all are revoked.
    #[must_use]
    pub fn any_exist(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    /// Looks whether keys have changed; if so, nothing is known of them any more.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let looked_at = Instant::now();
        let version = self.stores.keys_version().await?;
        let is_new = version != self.memory().version;
        if is_new && !self.any_exist() && self.stores.has_keys().await? {
            self.are_there.store(true, Ordering::Relaxed);
        }
        let mut memory = self.memory();
        if memory.version != version {
            memory.version = version;
            memory.known.clear();
            memory.by_prefix.clear();
            memory.unknown.clear();
        }
        memory.looked_at = memory.looked_at.max(looked_at);
        drop(memory);
        self.limits.forget_idle();
        Ok(())
    }

    /// Ends the keys in use that were revoked.
    ///
    /// # Errors
    /// If the database fails; then they are looked up again the next time.
    pub async fn end_revoked(&self) -> Result<(), StoreError> {
        let version = self.memory().version;
        let unchecked = self.credentials.unchecked(version);
        if !unchecked.is_empty() {
            let valid = self.stores.keys_not_revoked(&unchecked).await?;
            self.credentials.end_revoked(version, &unchecked, &valid);
        }
        Ok(())
    }

    /// The key that this text is.
    ///
    /// # Errors
    /// If it is none that counts now.
    pub async fn find(&self, text: &str, registry: &Registry) -> Result<Arc<CachedKey>, AuthError> {
        let Some(prefix) = key_format::prefix_of(text) else { return Err(NO_SUCH_KEY) };
        let hash = key_format::hash(text);
        self.look_if_due().await?;
        let known = match self.cached(prefix, &hash) {
            Some(known) => known.ok_or(NO_SUCH_KEY)?,
            None => self.read(prefix, &hash, registry).await?.ok_or(NO_SUCH_KEY)?,
        };
        self.used(known)
    }

    /// Returns the key with this id, for a ticket that was asked for with it.
    ///
    /// # Errors
    /// Returns why it does not count now.
    pub async fn find_id(&self, id: Uuid, registry: &Registry) -> Result<Arc<CachedKey>, AuthError> {
        self.look_if_due().await?;
        let (known, version) = {
            let memory = self.memory();
            (memory.known.get(&id).cloned(), memory.version)
        };
        let known = match known {
            Some(known) => known,
            None => {
                let key = self.stores.key(id).await?.filter(|key| key.revoked_at.is_none());
                Arc::new(self.known(key.ok_or(NO_SUCH_KEY)?, version, registry).await?)
            }
        };
        self.used(known)
    }

    async fn look_if_due(&self) -> Result<(), StoreError> {
        // No lock is held while the database is asked.
        let is_due = self.memory().looked_at.elapsed() > GOOD_FOR;
        if is_due { self.refresh().await } else { Ok(()) }
    }

    fn used(&self, known: Arc<CachedKey>) -> Result<Arc<CachedKey>, AuthError> {
        let now = self.clock.now();
        if known.expires_at.is_some_and(|end| end <= now) {
            return Err(AuthError::Invalid("the API key has expired"));
        }
        self.note(&known, now);
        Ok(known)
    }

    /// What is known: a key, that there is none, or nothing.
    fn cached(&self, prefix: &str, hash: &[u8; 32]) -> Option<Option<Arc<CachedKey>>> {
        let memory = self.memory();
        if memory.unknown.contains(prefix) {
            return Some(None);
        }
        let ids = memory.by_prefix.get(prefix)?;
        let mut alike = ids.iter().filter_map(|id| memory.known.get(id));
        Some(alike.find(|known| key_format::is_same(&known.hash, hash)).cloned())
    }

    async fn read(
        &self,
        prefix: &str,
        hash: &[u8; 32],
        registry: &Registry,
    ) -> Result<Option<Arc<CachedKey>>, AuthError> {
        let version = self.memory().version;
        let mut found = Vec::new();
        for key in self.stores.keys_that_begin(prefix).await? {
            if key.revoked_at.is_none() {
                found.push((key.id, Arc::new(self.known(key, version, registry).await?)));
            }
        }
        let wanted = found.iter().map(|(_, known)| known).find(|known| key_format::is_same(&known.hash, hash)).cloned();
        let mut memory = self.memory();
        // What was read before a change is not kept behind it.
        if memory.version == version {
            if memory.known.len() >= MOST {
                memory.known.clear();
                memory.by_prefix.clear();
            }
            if memory.unknown.len() >= MOST {
                memory.unknown.clear();
            }
            if found.is_empty() {
                memory.unknown.insert(prefix.to_owned());
            } else {
                memory.by_prefix.insert(prefix.to_owned(), found.iter().map(|(id, _)| *id).collect());
                memory.known.extend(found);
            }
        }
        Ok(wanted)
    }

    async fn known(&self, key: StoredKey, version: i64, registry: &Registry) -> Result<CachedKey, AuthError> {
        let corrupt = |_| StoreError::Corrupt(format!("the tools of key {}", key.id));
        let tools = AllowList::of(key.tools.clone()).map_err(corrupt)?.map(Arc::new);
        let caller = Caller { tenant: key.tenant.clone(), scopes: key.scopes, tools, key: Some(key.id) };
        Ok(CachedKey {
            hash: key.hash,
            expires_at: key.expires_at,
            noted_at: AtomicI64::new(key.last_used_at.map_or(0, |at| at.0)),
            access: Access::open(caller, &self.stores, registry).await?,
            limits: self.limits.of(&key),
            credential: self.credentials.of_key(key.id, key.expires_at, version),
        })
    }

    fn note(&self, known: &CachedKey, now: Time) {
        let noted = known.noted_at.load(Ordering::Relaxed);
        let Some(id) = known.access.caller().key.filter(|_| now.0 - noted >= NOTED_EVERY_US) else { return };
        known.noted_at.store(now.0, Ordering::Relaxed);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MOST {
            used.insert(id, now);
        }
    }

    /// Writes down which keys were used.
    ///
    /// # Errors
    /// If the database fails; it is only a note.
    pub async fn note_use(&self) -> Result<(), StoreError> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return Ok(());
        }
        self.stores.note_key_use(&used.into_iter().collect::<Vec<_>>()).await
    }
}
