//! The background task that refreshes definitions with a URL.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fetched::{DefinitionOverlay, FetchedDefinition};
use super::layer::Layer;
use super::{Registry, ToolRecord};
use toolpost_core::domain::tool::DefinitionError;

/// Interval of the search for new URLs.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// The lifetime of the document at a URL.
#[derive(Debug, Clone, Copy)]
struct Lifetime {
    /// The shortest lifetime that a tool declares for it.
    ttl: Duration,
    /// The remaining lifetime of the current document.
    left: Duration,
}

type RefreshResult = (String, Result<DefinitionOverlay, String>);

/// Fetches every URL again when its lifetime ends, until `stop`. Requests run concurrently, so that a slow server
/// delays no other.
pub async fn run(registry: Arc<Registry>, stop: CancellationToken) {
    let mut due: HashMap<String, Instant> = HashMap::new();
    let mut under_way: HashSet<String> = HashSet::new();
    let mut requests: FuturesUnordered<BoxFuture<'static, RefreshResult>> = FuturesUnordered::new();
    loop {
        let (lifetimes, now) = (registry.lifetimes(), Instant::now());
        due.retain(|url, _| lifetimes.contains_key(url));
        let mut next = now + LOOK;
        for (url, Lifetime { ttl, left }) in lifetimes {
            let at = due.entry(url.clone()).or_insert(now + left);
            // The lifetime may have been shortened since.
            *at = (*at).min(now + ttl);
            if *at > now || under_way.contains(&url) || requests.len() >= AT_ONCE {
                next = next.min((*at).max(now));
                continue;
            }
            *at = now + ttl;
            under_way.insert(url.clone());
            let registry = registry.clone();
            requests.push(Box::pin(async move {
                let answer = registry.fetch(&url).await;
                (url, answer)
            }));
        }
        // A URL that is due but over the limit of concurrent requests waits for one of them.
        let next = if next <= now { now + LOOK } else { next };
        tokio::select! {
            () = stop.cancelled() => return,
            Some((url, answer)) = requests.next() => {
                under_way.remove(&url);
                let registry = registry.clone();
                // A schema can take long to check.
                let current = tokio::task::spawn_blocking(move || registry.apply_response(&url, answer));
                if current.await.is_err() {
                    tracing::error!("a fetched definition could not be published");
                }
            }
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

impl Registry {
    /// Returns the URLs that tools name, with the lifetimes of their documents.
    fn lifetimes(&self) -> BTreeMap<String, Lifetime> {
        let now = self.clock.now();
        let mut lifetimes = BTreeMap::new();
        let layers = self.layers();
        for record in layers.all().flat_map(Layer::remote) {
            let Some((url, ttl)) = record.url() else { continue };
            let age = record.fetched().at.map(|at| Duration::from_millis(now.millis_since(at)));
            let left = age.map_or(Duration::ZERO, |age| ttl.saturating_sub(age));
            let shortest = lifetimes.entry(url.to_owned()).or_insert(Lifetime { ttl, left });
            *shortest = Lifetime { ttl: shortest.ttl.min(ttl), left: shortest.left.min(left) };
        }
        lifetimes
    }

    /// Applies the response of a URL to all tools that name it. If it is invalid, the last valid document stays, with
    /// an error.
    fn apply_response(&self, url: &str, answer: Result<DefinitionOverlay, String>) {
        let answer = answer.map(Arc::new);
        let old: Vec<Arc<ToolRecord>> = {
            let layers = self.layers();
            let all = layers.all().flat_map(Layer::remote);
            all.filter(|record| record.url().is_some_and(|(own, _)| own == url)).cloned().collect()
        };
        let refreshed: Vec<(Arc<ToolRecord>, Arc<ToolRecord>)> = old
            .into_iter()
            .filter_map(|record| {
                let fresh = self.refreshed(&record, &answer)?;
                Some((record, Arc::new(fresh)))
            })
            .collect();
        if refreshed.is_empty() {
            return;
        }
        self.change(|layers, changed| {
            let own = layers.own.values_mut().map(|own| &mut own.api);
            for layer in [&mut layers.builtin, &mut layers.file].into_iter().chain(own) {
                for (old, fresh) in &refreshed {
                    // A tool that was replaced meanwhile keeps its new record.
                    if layer.get(&old.name).is_some_and(|current| Arc::ptr_eq(current, old)) {
                        layer.insert(fresh.clone());
                        changed.insert(fresh.name.clone());
                    }
                }
            }
        });
    }

    /// Returns the tool with this response; `None` if it changes nothing.
    fn refreshed(&self, tool: &ToolRecord, answer: &Result<Arc<DefinitionOverlay>, String>) -> Option<ToolRecord> {
        let now = self.clock.now();
        let (before, at) = (&tool.fetched(), Some(now));
        let fetched = match answer {
            Ok(overlay) if before.error.is_none() && before.overlay.as_ref() == Some(overlay) => return None,
            Ok(overlay) => FetchedDefinition { overlay: Some(overlay.clone()), error: None, at },
            Err(message) if before.error.as_ref().is_some_and(|error| error.message == *message) => return None,
            Err(message) => {
                tracing::warn!(tool = %tool.name, error = message, "a definition could not be fetched again");
                let error = DefinitionError { message: message.clone(), at: now };
                FetchedDefinition { overlay: before.overlay.clone(), error: Some(error), at }
            }
        };
        let declared = tool.declared().ok()?;
        let facts = self.check_best(&declared, tool.made.source, fetched, Some(before)).ok()?;
        // The response is invalid for the same reason as before.
        let is_same = facts.fetched.overlay == before.overlay && facts.fetched.error == before.error;
        if is_same {
            return None;
        }
        Some(ToolRecord::new(&self.builder, tool.text().clone(), facts, tool.made))
    }
}
