//! Hooks around calls: before a tool runs, before its outcome is stored, and after the call has ended.
//!
//! A hook is a webhook, a Rust type of the library's user ([`RustHook`]), or a built-in hook. Hooks stored in the
//! database are the same on all nodes; at equal priority, hooks of the program and of the settings run before them.
//! While no hooks exist, a call pays only for one atomic load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;

use toolpost_core::domain::{Clock, HookDefinition, HookEvent, IdGenerator, Tenant};
use toolpost_store::store::hooks::StoredHook;
use toolpost_store::store::{StoreError, Stores};
use toolpost_tool::executor::HttpClient;
use toolpost_tool::executor::signing_key::SigningKey;

mod call;
mod counts;
mod hook;
mod invoke;
mod notify;
mod redact;
mod response;
mod rust;
mod truncate;

pub use call::HookCall;
pub use counts::{Counts, HookOutcome};
pub use hook::{Hook, HookError, HookSource};
pub use redact::Options as RedactOptions;
pub use response::{BeforeDecision, Rewrite, withhold};
pub use rust::{AfterToolCall, BeforeToolCall, RustHook, ToolResultPersist};
pub use truncate::Truncate as TruncateOptions;

/// Hooks in the order in which they run.
type OrderedHooks = Arc<Vec<Arc<Hook>>>;

/// The hooks of all tenants.
#[derive(Debug, Default)]
struct HookTable {
    /// Hooks of the program and of the settings, which apply to all tenants.
    fixed: OrderedHooks,
    /// The fixed hooks and the tenant's own, for each tenant that has any.
    of: HashMap<Tenant, OrderedHooks>,
}

impl HookTable {
    fn hooks_of(&self, tenant: &Tenant) -> &OrderedHooks {
        self.of.get(tenant).unwrap_or(&self.fixed)
    }
}

/// All hooks of a node.
#[derive(Debug)]
pub struct Hooks {
    client: HttpClient,
    key: SigningKey,
    clock: Clock,
    ids: IdGenerator,
    /// Hooks of the program and of the settings.
    fixed: Vec<Arc<Hook>>,
    /// The current table, swapped atomically.
    table: ArcSwap<HookTable>,
    /// A bit for each event that has a hook.
    events: AtomicU8,
    /// The version of the stored hooks in the current table.
    version: Mutex<i64>,
    counts: Counts,
    /// The memory of waiting notifications, in KiB.
    notification_memory: Arc<Semaphore>,
    /// The number of notifications that may run.
    notification_slots: Semaphore,
}

impl Hooks {
    /// Creates the hooks of the program and of the settings. [`Hooks::reload`] adds the stored ones.
    ///
    /// # Errors
    /// Returns the index of an invalid hook, with JSON pointers and reasons.
    pub fn new(
        client: HttpClient,
        key: SigningKey,
        clock: Clock,
        ids: IdGenerator,
        own: Vec<RustHook>,
        declared: &[HookDefinition],
    ) -> Result<Self, (usize, Vec<(String, String)>)> {
        let now = clock.now();
        let own = own.into_iter().enumerate().map(|(index, hook)| {
            let id = format!("rust-{}", index + 1);
            (index, hook.register(id, now))
        });
        let declared = declared.iter().enumerate().map(|(index, definition)| {
            let id = format!("config-{}", index + 1);
            (index, Hook::declared(id, definition.clone(), HookSource::Config, now))
        });
        let fixed = own.chain(declared).map(|(index, hook)| hook.map(Arc::new).map_err(|faults| (index, faults)));
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let hooks = Self {
            client,
            key,
            clock,
            ids,
            fixed,
            table: ArcSwap::default(),
            events: AtomicU8::new(0),
            version: Mutex::new(-1),
            counts: Counts::default(),
            notification_memory: Arc::new(Semaphore::new(notify::MAX_WAITING_KIB as usize)),
            notification_slots: Semaphore::new(notify::MAX_RUNNING),
        };
        hooks.publish(HashMap::new());
        Ok(hooks)
    }

    /// Returns `true` if any hook of any tenant is registered for the event.
    #[must_use]
    pub fn has(&self, event: HookEvent) -> bool {
        self.events.load(Ordering::Relaxed) & bit(event) != 0
    }

    /// Returns the hooks to run at an event of a tenant's call, in order.
    #[must_use]
    pub fn matching(&self, event: HookEvent, tenant: &Tenant, tool: &str, groups: &[String]) -> Vec<Arc<Hook>> {
        let table = self.table.load();
        table
            .hooks_of(tenant)
            .iter()
            .filter(|hook| hook.event() == event && hook.matches(tool, groups))
            .cloned()
            .collect()
    }

    /// Returns the hooks that a tenant can see, in order. Hooks of the program and of the settings apply to all
    /// tenants, but only the operator can see them.
    #[must_use]
    pub fn all(&self, tenant: &Tenant) -> Vec<Arc<Hook>> {
        let table = self.table.load();
        let is_theirs = |hook: &&Arc<Hook>| tenant.is_default() || hook.source == HookSource::Api;
        table.hooks_of(tenant).iter().filter(is_theirs).cloned().collect()
    }

    /// Returns the hook with this id, if the tenant can see it.
    #[must_use]
    pub fn get(&self, tenant: &Tenant, id: &str) -> Option<Arc<Hook>> {
        self.all(tenant).into_iter().find(|hook| hook.id == id)
    }

    /// Returns the counters of all hooks.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the version of the stored hooks in use.
    #[must_use]
    pub fn version(&self) -> i64 {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the stored hooks and replaces the current ones. A hook that is no longer valid is skipped and logged.
    ///
    /// # Errors
    /// Returns a `StoreError` if the database fails. Nothing changes then.
    pub async fn reload(&self, stores: &Stores) -> Result<(), StoreError> {
        let (stored, version) = stores.hooks().await?;
        let before = self.table.load_full();
        let mut compiled: HashMap<Tenant, Vec<Arc<Hook>>> = HashMap::new();
        for (tenant, stored) in stored {
            let id = stored.id.to_string();
            // Hooks are immutable, so a known one is reused and keeps its counters.
            let known = before.of.get(&tenant).and_then(|own| own.iter().find(|hook| hook.id == id).cloned());
            match known.map_or_else(|| compile(stored).map(Arc::new), Ok) {
                Ok(hook) => compiled.entry(tenant).or_default().push(hook),
                Err(reason) => tracing::error!(id, reason, "invalid registered hook; it is skipped"),
            }
        }
        let mut current = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // A concurrent reload may have installed a newer version.
        if version >= *current {
            *current = version;
            self.publish(compiled);
        }
        Ok(())
    }

    fn publish(&self, stored: HashMap<Tenant, Vec<Arc<Hook>>>) {
        let in_order = |own: Vec<Arc<Hook>>| {
            let mut all: Vec<Arc<Hook>> = self.fixed.iter().cloned().chain(own).collect();
            // A stable sort keeps the order of registration within a priority.
            all.sort_by_key(|hook| std::cmp::Reverse(hook.definition.priority));
            Arc::new(all)
        };
        let of: HashMap<Tenant, OrderedHooks> =
            stored.into_iter().map(|(tenant, own)| (tenant, in_order(own))).collect();
        let table = HookTable { fixed: in_order(Vec::new()), of };
        let all = table.of.values().chain([&table.fixed]).flat_map(|all| all.iter());
        let events = all.fold(0, |events, hook| events | bit(hook.event()));
        self.table.store(Arc::new(table));
        self.events.store(events, Ordering::Relaxed);
    }
}

fn bit(event: HookEvent) -> u8 {
    1 << event as u8
}

fn compile(stored: StoredHook) -> Result<Hook, String> {
    let mut definition: HookDefinition = serde_json::from_str(&stored.definition).map_err(|error| error.to_string())?;
    definition.secret = stored.secret.map(toolpost_core::domain::secret::SecretString);
    Hook::declared(stored.id.to_string(), definition, HookSource::Api, stored.created_at)
        .map_err(|faults| faults.into_iter().map(|(pointer, fault)| format!("{pointer}: {fault}")).collect())
}

#[cfg(test)]
mod tests;
