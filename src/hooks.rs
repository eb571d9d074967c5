//! Hooks around calls: who is asked before a run, after it, and before its end is stored.
//!
//! A hook is a webhook, a type of the library's user ([`RustHook`]), or one that the service brings along. Those of the
//! database are the same on all nodes; those of the settings and of the program come before them in the order of
//! registration. While there is none, a call pays for one look at a number.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::domain::{Clock, HookDefinition, HookEvent, Ids, Time};
use crate::executor::HttpClient;
use crate::executor::token::SigningKey;
use crate::store::hooks::StoredHook;
use crate::store::{Store, StoreError};

mod after;
mod answer;
mod ask;
mod call;
mod counts;
mod hook;
mod redact;
mod rewrite;
mod rust;
mod truncate;

pub use answer::{Before, Rewrite};
pub use call::HookCall;
pub use counts::{Counts, HookOutcome};
pub use hook::{Hook, HookSource, HookView};
pub use rewrite::withhold;
pub use rust::{AfterToolCall, BeforeToolCall, HookError, RustHook, ToolResultPersist};

/// Most hooks that are registered over HTTP.
pub const MOST_HOOKS: usize = 256;

/// All hooks of a node, and the way to ask them.
#[derive(Debug)]
pub struct Hooks {
    client: HttpClient,
    key: SigningKey,
    clock: Clock,
    ids: Ids,
    /// Of the program and of the settings.
    fixed: Vec<Arc<Hook>>,
    /// All of them, in the order in which they are asked.
    shown: ArcSwap<Vec<Arc<Hook>>>,
    /// A bit for each event that somebody wants to be asked at.
    wanted: AtomicU8,
    /// The stored hooks' version that is shown.
    version: Mutex<i64>,
    counts: Counts,
    desk: after::Desk,
}

impl Hooks {
    /// Hooks of the program and of the settings; the stored ones come with [`Hooks::reload`].
    ///
    /// # Errors
    /// The place of a declared hook that is refused, and why.
    pub fn new(
        client: HttpClient,
        key: SigningKey,
        clock: Clock,
        ids: Ids,
        own: Vec<RustHook>,
        declared: &[HookDefinition],
    ) -> Result<Self, (usize, Vec<(String, String)>)> {
        let mut fixed = Vec::with_capacity(own.len() + declared.len());
        let now = clock.now();
        for (place, hook) in own.into_iter().enumerate() {
            let id = format!("rust-{}", place + 1).into();
            fixed.push(Arc::new(hook.register(id, now).map_err(|faults| (place, faults))?));
        }
        for (place, definition) in declared.iter().enumerate() {
            let id = format!("config-{}", place + 1).into();
            let hook = Hook::declared(id, definition.clone(), HookSource::Config, now);
            fixed.push(Arc::new(hook.map_err(|faults| (place, faults))?));
        }
        let hooks = Self {
            client,
            key,
            clock,
            ids,
            fixed,
            shown: ArcSwap::default(),
            wanted: AtomicU8::new(0),
            version: Mutex::new(-1),
            counts: Counts::default(),
            desk: after::Desk::default(),
        };
        hooks.show(Vec::new());
        Ok(hooks)
    }

    /// Whether anybody wants to be asked at this event, about whatever call.
    #[must_use]
    pub fn has(&self, event: HookEvent) -> bool {
        self.wanted.load(Ordering::Relaxed) & bit(event) != 0
    }

    /// The hooks that are asked at this event about a call of this tool, in their order.
    #[must_use]
    pub fn matching(&self, event: HookEvent, tool: &str, groups: &[String]) -> Vec<Arc<Hook>> {
        let shown = self.shown.load();
        shown.iter().filter(|hook| hook.event() == event && hook.matches(tool, groups)).cloned().collect()
    }

    /// All hooks, in the order in which they are asked.
    #[must_use]
    pub fn all(&self) -> Arc<Vec<Arc<Hook>>> {
        self.shown.load_full()
    }

    /// The hook of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Hook>> {
        self.shown.load().iter().find(|hook| hook.id() == id).cloned()
    }

    /// How often hooks were asked, and what became of it.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The version of the stored hooks that is shown.
    #[must_use]
    pub fn version(&self) -> i64 {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the stored hooks and shows them. One that cannot be used any more is left out and told in the log.
    ///
    /// # Errors
    /// If the database fails; then nothing changes.
    pub async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let (stored, version) = store.hooks().await?;
        let compiled = stored.into_iter().filter_map(|stored| {
            let id = stored.id;
            let hook = compile(stored);
            hook.map_err(|reason| tracing::error!(%id, reason, "a registered hook is left out")).ok()
        });
        let compiled = compiled.map(Arc::new).collect();
        let mut shown = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        // An older version than the one shown changes nothing.
        if version >= *shown {
            *shown = version;
            self.show(compiled);
        }
        Ok(())
    }

    fn show(&self, stored: Vec<Arc<Hook>>) {
        let mut all: Vec<Arc<Hook>> = self.fixed.iter().cloned().chain(stored).collect();
        // Stable: those of one priority stay in the order of their registration.
        all.sort_by_key(|hook| std::cmp::Reverse(hook.definition().priority));
        let wanted = all.iter().fold(0, |wanted, hook| wanted | bit(hook.event()));
        self.shown.store(Arc::new(all));
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

fn bit(event: HookEvent) -> u8 {
    1 << event as u8
}

fn compile(stored: StoredHook) -> Result<Hook, String> {
    let mut definition: HookDefinition = serde_json::from_str(&stored.definition).map_err(|error| error.to_string())?;
    definition.secret = stored.secret.map(crate::domain::hook::HookSecret);
    Hook::declared(stored.id.to_string().into(), definition, HookSource::Api, stored.created_at)
        .map_err(|faults| faults.into_iter().map(|(pointer, fault)| format!("{pointer}: {fault}")).collect())
}

#[cfg(test)]
mod tests;
