//! Keeps the definitions that come from a URL fresh: in the background, beside all calls and lists.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fetched::{DefinitionOverlay, FetchedDefinition};
use super::remote;
use super::{Entry, Layer, Registry};
use crate::domain::tool::DefinitionError;

/// How often new URLs are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// Most URLs that are asked at once.
const AT_ONCE: usize = 8;

/// A URL that tools name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RefreshTarget {
    url: String,
    /// The shortest time of those that name it.
    ttl: Duration,
    /// How long what is there is still good.
    left: Duration,
}

type RefreshResult = (String, Result<DefinitionOverlay, String>);

/// Asks every URL again when its time is over, until `stop`. One that hangs holds up no other one.
pub async fn run(registry: Arc<Registry>, stop: CancellationToken) {
    let mut due: HashMap<String, Instant> = HashMap::new();
    let mut under_way: HashSet<String> = HashSet::new();
    let mut asked: FuturesUnordered<BoxFuture<'static, RefreshResult>> = FuturesUnordered::new();
    loop {
        let (wanted, now) = (registry.wanted(), Instant::now());
        due.retain(|url, _| wanted.iter().any(|wanted| wanted.url == *url));
        let mut next = now + LOOK;
        for RefreshTarget { url, ttl, left } in wanted {
            let at = due.entry(url.clone()).or_insert(now + left);
            // It may have been declared anew with a shorter time.
            *at = (*at).min(now + ttl);
            if *at > now || under_way.contains(&url) || asked.len() >= AT_ONCE {
                next = next.min((*at).max(now));
                continue;
            }
            *at = now + ttl;
            under_way.insert(url.clone());
            let registry = registry.clone();
            asked.push(Box::pin(async move {
                let answer = registry.fetch(&url).await;
                (url, answer)
            }));
        }
        // What is due and cannot be asked yet waits for one of those that are under way.
        let next = if next <= now { now + LOOK } else { next };
        tokio::select! {
            () = stop.cancelled() => return,
            Some((url, answer)) = asked.next() => {
                under_way.remove(&url);
                let registry = registry.clone();
                // A schema can be made to take long.
                let shown = tokio::task::spawn_blocking(move || registry.show_answer(&url, answer));
                if shown.await.is_err() {
                    tracing::error!("a definition that was fetched could not be shown");
                }
            }
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

impl Registry {
    /// The URLs that tools name.
    fn wanted(&self) -> Vec<RefreshTarget> {
        let now = self.clock.now();
        let mut wanted: Vec<RefreshTarget> = Vec::new();
        let layers = self.layers();
        for entry in layers.all().flat_map(Layer::values) {
            let Some(url) = &entry.declared.definition_url else { continue };
            let ttl = remote::ttl(&entry.declared);
            let age = entry.fetched.at.map(|at| Duration::from_millis(now.millis_since(at)));
            let left = age.map_or(Duration::ZERO, |age| ttl.saturating_sub(age));
            match wanted.iter_mut().find(|wanted| wanted.url == *url) {
                Some(same) => (same.ttl, same.left) = (same.ttl.min(ttl), same.left.min(left)),
                None => wanted.push(RefreshTarget { url: url.clone(), ttl, left }),
            }
        }
        wanted
    }

    /// Shows what a URL has answered in all tools that name it. Where it is no good, the last good one stays, flagged.
    fn show_answer(&self, url: &str, answer: Result<DefinitionOverlay, String>) {
        let answer = answer.map(Arc::new);
        let old: Vec<Arc<Entry>> = {
            let layers = self.layers();
            let all = layers.all().flat_map(Layer::values);
            all.filter(|entry| entry.declared.definition_url.as_deref() == Some(url)).cloned().collect()
        };
        let renewed: Vec<(Arc<Entry>, Arc<Entry>)> = old
            .into_iter()
            .filter_map(|entry| {
                let fresh = self.renewed(&entry, &answer)?;
                Some((entry, Arc::new(fresh)))
            })
            .collect();
        if renewed.is_empty() {
            return;
        }
        self.change(|layers| {
            let own = layers.own.values_mut().map(|own| &mut own.api);
            for layer in [&mut layers.builtin, &mut layers.file].into_iter().chain(own) {
                for (old, fresh) in &renewed {
                    // One that was replaced meanwhile stays as it was made.
                    if let Some(shown) = layer.get_mut(&*old.name).filter(|shown| Arc::ptr_eq(shown, old)) {
                        *shown = fresh.clone();
                    }
                }
            }
        });
    }

    /// The entry with this answer; `None` if it changes nothing.
    fn renewed(&self, entry: &Entry, answer: &Result<Arc<DefinitionOverlay>, String>) -> Option<Entry> {
        let now = self.clock.now();
        let (before, at) = (&entry.fetched, Some(now));
        let fetched = match answer {
            Ok(overlay) if before.error.is_none() && before.overlay.as_ref() == Some(overlay) => return None,
            Ok(overlay) => FetchedDefinition { overlay: Some(overlay.clone()), error: None, at },
            Err(message) if before.error.as_ref().is_some_and(|error| error.message == *message) => return None,
            Err(message) => {
                tracing::warn!(tool = %entry.name, error = message, "a definition could not be fetched again");
                let error = DefinitionError { message: message.clone(), at: now };
                FetchedDefinition { overlay: before.overlay.clone(), error: Some(error), at }
            }
        };
        let fresh = self.make_best(entry.declared.clone(), entry.made, fetched, Some(before)).ok()?;
        // The same unfit answer again.
        let is_same = fresh.fetched.overlay == before.overlay && fresh.fetched.error == before.error;
        (!is_same).then_some(fresh)
    }
}
