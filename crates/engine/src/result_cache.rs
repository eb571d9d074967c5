//! The cached results of this node, bounded by memory, and the running calls that others follow (docs/reference/contract.md).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use moka::ops::compute::Op;
use serde_json::{Map, Value};
use tokio::sync::watch;

mod key;

pub(crate) use key::{Key, key_of};
use toolpost_core::domain::{Clock, ContentBlock, Outcome, Time};

/// Memory of each JSON value in addition to its text, in bytes.
const PER_VALUE: usize = 32;

/// Cached results and running calls by key.
#[derive(Debug)]
pub struct Results {
    /// `None` if caching is disabled.
    kept: Option<Cache<Key, CachedResult>>,
    runs: Mutex<HashMap<Key, watch::Receiver<Option<Arc<Outcome>>>>>,
    /// The number of runs so far: the result of an older run never replaces a newer one.
    begun: AtomicU64,
    clock: Clock,
}

/// A cached outcome and its lifetime.
#[derive(Debug, Clone)]
struct CachedResult {
    outcome: Arc<Outcome>,
    begun: u64,
    ttl: Duration,
    expires_at: Time,
}

/// The result of a lookup.
pub enum CacheLookup<'a> {
    /// A cached outcome.
    Hit(Arc<Outcome>),
    /// No outcome and no equal run: the call runs, and equal calls wait for it.
    Leader(InFlightRun<'a>),
    /// An equal call runs; the channel receives its outcome.
    Follower(watch::Receiver<Option<Arc<Outcome>>>),
}

/// A run whose outcome can be cached. If it is dropped without one, each follower runs its own call.
#[derive(Debug)]
pub struct InFlightRun<'a> {
    results: &'a Results,
    key: Key,
    begun: u64,
    followers: Option<watch::Sender<Option<Arc<Outcome>>>>,
}

impl Results {
    /// Creates an empty cache of at most the given size in bytes; 0 disables it.
    pub fn new(most_bytes: u64, clock: Clock) -> Self {
        let kept = (most_bytes > 0).then(|| {
            Cache::builder()
                .max_capacity(most_bytes)
                .weigher(|_: &Key, kept: &CachedResult| u32::try_from(weight_of(&kept.outcome)).unwrap_or(u32::MAX))
                .expire_after(OwnTtl)
                .build()
        });
        Self { kept, runs: Mutex::default(), begun: AtomicU64::new(0), clock }
    }

    /// Returns `true` if caching is enabled.
    pub fn is_on(&self) -> bool {
        self.kept.is_some()
    }

    /// Looks up a key. Of concurrent lookups that find no outcome, exactly one becomes the leader.
    pub async fn lookup(&self, key: Key) -> CacheLookup<'_> {
        if let Some(outcome) = self.get(&key).await {
            return CacheLookup::Hit(outcome);
        }
        let run = {
            let mut runs = self.runs();
            if let Some(leader) = runs.get(&key) {
                return CacheLookup::Follower(leader.clone());
            }
            let (followers, leader) = watch::channel(None);
            runs.insert(key, leader);
            InFlightRun { followers: Some(followers), ..self.alone(key) }
        };
        // The previous leader may have inserted its outcome in the meantime.
        match self.get(&key).await {
            Some(outcome) => {
                run.notify_followers(&outcome);
                CacheLookup::Hit(outcome)
            }
            None => CacheLookup::Leader(run),
        }
    }

    /// Creates a run without followers.
    pub fn alone(&self, key: Key) -> InFlightRun<'_> {
        InFlightRun { results: self, key, begun: self.begun.fetch_add(1, Ordering::Relaxed), followers: None }
    }

    async fn get(&self, key: &Key) -> Option<Arc<Outcome>> {
        let kept = self.kept.as_ref()?.get(key).await?;
        (self.clock.now() < kept.expires_at).then_some(kept.outcome)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Key, watch::Receiver<Option<Arc<Outcome>>>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightRun<'_> {
    /// Caches the outcome of the run for `ttl`, and sends it to the followers.
    pub async fn insert(self, outcome: Arc<Outcome>, ttl: Duration) {
        let Some(cache) = &self.results.kept else { return };
        let expires_at =
            Time(self.results.clock.now().0.saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)));
        let kept = CachedResult { outcome: outcome.clone(), begun: self.begun, ttl, expires_at };
        // Insert before the followers are removed: a call that finds no leader then finds the outcome.
        let put = cache.entry(self.key).and_compute_with(|before| {
            let is_older = before.is_some_and(|before| before.value().begun > kept.begun);
            std::future::ready(if is_older { Op::Nop } else { Op::Put(kept) })
        });
        put.await;
        self.notify_followers(&outcome);
    }

    fn notify_followers(&self, outcome: &Arc<Outcome>) {
        if let Some(followers) = &self.followers {
            followers.send_replace(Some(outcome.clone()));
        }
    }
}

impl Drop for InFlightRun<'_> {
    fn drop(&mut self) {
        if self.followers.is_some() {
            self.results.runs().remove(&self.key);
        }
    }
}

/// Returns the approximate memory of an outcome and its cache entry, in bytes.
fn weight_of(outcome: &Outcome) -> usize {
    let blocks = outcome.content.iter().map(|block| {
        PER_VALUE
            + match block {
                ContentBlock::Text(text) => text.len(),
                ContentBlock::Image { data, mime_type } => data.len() + mime_type.len(),
                ContentBlock::Other(members) => of_members(members),
            }
    });
    let texts = outcome.output.len() + outcome.structured_text.as_ref().map_or(0, |text| text.get().len());
    let structured = outcome.structured.as_deref().map_or(0, of_value);
    8 * PER_VALUE
        + texts
        + structured
        + blocks.sum::<usize>()
        + of_members(&outcome.details)
        + of_members(&outcome.metadata)
}

/// Recursion is safe because requests and tool outputs bound the nesting depth.
fn of_value(value: &Value) -> usize {
    PER_VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of_value).sum(),
            Value::Object(members) => of_members(members),
            _ => 0,
        }
}

fn of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| PER_VALUE + name.len() + of_value(value)).sum()
}

/// The lifetime of each entry, which frees its memory. Whether an outcome may be used is decided by the engine's clock.
struct OwnTtl;

impl Expiry<Key, CachedResult> for OwnTtl {
    fn expire_after_create(&self, _: &Key, kept: &CachedResult, _: Instant) -> Option<Duration> {
        Some(kept.ttl)
    }

    fn expire_after_update(&self, _: &Key, kept: &CachedResult, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = [1; 32];
    const HOUR: Duration = Duration::from_secs(3600);

    fn results(most_bytes: u64) -> (Results, Clock) {
        let clock = Clock::manual(Time(0));
        (Results::new(most_bytes, clock.clone()), clock)
    }

    fn outcome(text: &str) -> Arc<Outcome> {
        Arc::new(Outcome::text(text))
    }

    async fn kept(results: &Results) -> Option<String> {
        results.get(&KEY).await.map(|outcome| outcome.output.clone())
    }

    #[tokio::test]
    async fn result_is_reused_until_it_expires() {
        let (results, clock) = results(1 << 20);
        results.alone(KEY).insert(outcome("a"), HOUR).await;
        clock.advance_ms(3_599_999);
        assert_eq!(kept(&results).await.as_deref(), Some("a"));
        clock.advance_ms(1);
        assert_eq!(kept(&results).await, None);
    }

    #[tokio::test]
    async fn older_run_does_not_replace_a_newer_result() {
        let (results, _) = results(1 << 20);
        let (older, newer) = (results.alone(KEY), results.alone(KEY));
        newer.insert(outcome("new"), HOUR).await;
        older.insert(outcome("old"), HOUR).await;
        assert_eq!(kept(&results).await.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn followers_get_the_result_of_the_leader_or_its_failure() {
        let (results, _) = results(1 << 20);
        let CacheLookup::Leader(run) = results.lookup(KEY).await else { panic!("expected a leader") };
        let CacheLookup::Follower(mut beside) = results.lookup(KEY).await else { panic!("one runs") };
        run.insert(outcome("a"), HOUR).await;
        assert_eq!(beside.wait_for(Option::is_some).await.unwrap().as_ref().unwrap().output, "a");
        assert!(matches!(results.lookup(KEY).await, CacheLookup::Hit(_)));

        let other = [2; 32];
        let CacheLookup::Leader(run) = results.lookup(other).await else { panic!("expected a leader") };
        let CacheLookup::Follower(mut beside) = results.lookup(other).await else { panic!("one runs") };
        drop(run);
        assert!(beside.wait_for(Option::is_some).await.is_err());
        assert!(matches!(results.lookup(other).await, CacheLookup::Leader(_)));
        assert!(results.runs().is_empty());
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let (results, _) = results(100_000);
        for n in 0..100 {
            let (key, text) = ([n; 32], "x".repeat(10_000));
            results.alone(key).insert(outcome(&text), HOUR).await;
        }
        let cache = results.kept.as_ref().unwrap();
        cache.run_pending_tasks().await;
        assert!(cache.weighted_size() <= 100_000 && cache.entry_count() > 0, "{}", cache.weighted_size());
        results.alone(KEY).insert(outcome(&"x".repeat(200_000)), HOUR).await;
        cache.run_pending_tasks().await;
        assert_eq!(
            results.get(&KEY).await.map(|outcome| outcome.output.len()).filter(|length| *length > 100_000),
            None
        );
    }

    #[test]
    fn images_and_data_are_counted_by_size() {
        let image = ContentBlock::Image { data: "A".repeat(1_000_000), mime_type: "image/png".into() };
        assert!(weight_of(&Outcome::blocks(vec![image])) > 1_000_000);
        let rows: Vec<_> = (0..1000).map(|n| serde_json::json!({"name": "x".repeat(100), "n": n})).collect();
        assert!(weight_of(&Outcome::data(Arc::new(rows.into()))) > 200_000);
        assert!(weight_of(&Outcome::text("done")) < 1000);
    }
}
