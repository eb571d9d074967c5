//! Claims that wait for calls. A queue that was found empty is not read again before a signal says that it has a call, so
//! idle workers cost the database nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use toolpost_core::domain::{AllowList, Call, Tenant};
use toolpost_store::store::signals::{Hint, QueueKey};
use toolpost_store::store::workers::SeenWorker;

/// The tenant of a worker, and the tools whose calls it may get.
type Scope = (Tenant, Option<Arc<AllowList>>);

/// How long it is remembered that a queue without waiting workers is empty.
const REMEMBER: Duration = Duration::from_secs(60);
/// Time within which a worker that has just got calls usually claims the next ones.
const SOON: Duration = Duration::from_millis(5);
/// Time after the end of its wait for which a claim waits for a commit that serves it.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// A claim as it is requested.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The queue.
    pub queue: Arc<str>,
    /// The worker.
    pub worker: Arc<str>,
    /// Maximum number of calls.
    pub max: usize,
    /// Maximum time that the claim waits for a call.
    pub wait: Duration,
}

/// A call that a worker gets.
#[derive(Debug)]
pub struct ClaimedCall {
    /// The call.
    pub call: Arc<Call>,
    /// The number of the attempt.
    pub attempt: u32,
    /// How long the worker has the call without a heartbeat, in milliseconds.
    pub lease_ms: u64,
    /// The arguments including presets.
    pub arguments: Arc<Value>,
}

/// An error returned when the database did not serve a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue cannot be read")]
pub struct ClaimError;

/// The answer to a claim.
pub(super) type Answer = Result<Vec<ClaimedCall>, ClaimError>;

/// A claim that waits.
#[derive(Debug)]
pub(super) struct WaitingClaim {
    id: u64,
    pub worker: Arc<str>,
    pub max: usize,
    until: Instant,
    pub answer: oneshot::Sender<Answer>,
}

#[cfg(test)]
impl WaitingClaim {
    /// Creates a claim whose answer is dropped.
    pub fn of(worker: &str, max: usize) -> Self {
        Self { id: 0, worker: worker.into(), max, until: Instant::now(), answer: oneshot::channel().0 }
    }
}

/// The claims that are served together: those of one queue and one allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub tenant: Tenant,
    pub queue: Arc<str>,
    globs: Vec<String>,
}

#[derive(Debug)]
struct Waiting {
    allowed: Option<Arc<AllowList>>,
    claims: VecDeque<WaitingClaim>,
    /// Whether the queue may have calls.
    may_have_calls: bool,
    used_at: Instant,
}

#[derive(Debug, Default)]
struct State {
    groups: HashMap<Group, Waiting>,
    next_id: u64,
    /// Whether claims no longer wait.
    is_draining: bool,
}

/// The waiting claims of this node.
#[derive(Debug, Default)]
pub(super) struct Claims {
    state: Mutex<State>,
    wake: Notify,
    arrived: Notify,
}

/// Claims that are served together.
#[derive(Debug)]
pub(super) struct Batch {
    pub group: Group,
    pub allowed: Option<Arc<AllowList>>,
    pub claims: Vec<WaitingClaim>,
}

impl Claims {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for calls, at most for the time of the request, or until `drain` fires.
    ///
    /// # Errors
    /// Returns a [`ClaimError`] if the database fails.
    pub async fn claim(&self, (tenant, allowed): Scope, request: ClaimRequest, drain: &CancellationToken) -> Answer {
        let ClaimRequest { queue, worker, max, wait } = request;
        let globs = allowed.as_ref().map(|allowed| allowed.globs().to_vec()).unwrap_or_default();
        let group = Group { tenant, queue, globs };
        let until = Instant::now() + wait;
        let (answer, mut answered) = oneshot::channel();
        let id = self.enter(&group, allowed, WaitingClaim { id: 0, worker, max, until, answer });
        tokio::select! {
            biased;
            answered = &mut answered => return answered.unwrap_or(Err(ClaimError)),
            () = drain.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
        }
        match self.leave(&group, id, drain.is_cancelled()) {
            true => Ok(Vec::new()),
            // It is being served. The answer may be empty. A later one is refused, and its calls are given to others.
            false => {
                tokio::time::timeout(SERVED_WITHIN, answered).await.ok().and_then(Result::ok).unwrap_or(Err(ClaimError))
            }
        }
    }

    fn enter(&self, group: &Group, allowed: Option<Arc<AllowList>>, claim: WaitingClaim) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        let new = || Waiting { allowed, claims: VecDeque::new(), may_have_calls: true, used_at: Instant::now() };
        let waiting = state.groups.entry(group.clone()).or_insert_with(new);
        waiting.claims.push_back(WaitingClaim { id, ..claim });
        waiting.used_at = Instant::now();
        if waiting.may_have_calls {
            self.wake.notify_one();
        }
        self.arrived.notify_waiters();
        id
    }

    /// Removes a claim whose time is over. Returns `false` if its answer follows: it is being served, or its queue was not
    /// read for it yet.
    fn leave(&self, group: &Group, id: u64, is_forced: bool) -> bool {
        let mut state = self.state();
        state.is_draining |= is_forced;
        let Some(waiting) = state.groups.get_mut(group) else { return false };
        let Some(place) = waiting.claims.iter().position(|claim| claim.id == id) else { return false };
        if waiting.may_have_calls && !is_forced {
            return false;
        }
        waiting.claims.remove(place).is_some()
    }

    /// Records that a queue may have calls.
    pub fn note_work(&self, hint: &Hint<QueueKey>) {
        let mut state = self.state();
        for (group, waiting) in &mut state.groups {
            let is_meant = match hint {
                Hint::Any => true,
                Hint::Of((tenant, queue)) => group.tenant == *tenant && group.queue == *queue,
            };
            waiting.may_have_calls |= is_meant;
        }
        self.wake.notify_one();
    }

    /// Waits until a claim may be served.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Takes the claims that may be served. Forgets groups that are no longer used.
    pub(super) fn take(&self) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut state = self.state();
        state.groups.retain(|_, waiting| !waiting.claims.is_empty() || waiting.used_at.elapsed() < REMEMBER);
        for (group, waiting) in &mut state.groups {
            waiting.claims.retain(|claim| !claim.answer.is_closed());
            if waiting.may_have_calls && !waiting.claims.is_empty() {
                waiting.may_have_calls = false;
                let claims = waiting.claims.drain(..).collect();
                batches.push(Batch { group: group.clone(), allowed: waiting.allowed.clone(), claims });
            }
        }
        batches
    }

    /// Takes the claims of workers that wait for any call of a queue, if no other call of the queue waits for a worker, as far
    /// as this node knows.
    pub fn take_idle(&self, tenant: &Tenant, queue: &Arc<str>) -> Option<Batch> {
        let group = Group { tenant: tenant.clone(), queue: queue.clone(), globs: Vec::new() };
        let mut state = self.state();
        let is_draining = state.is_draining;
        let waiting = state.groups.get_mut(&group)?;
        waiting.claims.retain(|claim| !claim.answer.is_closed());
        if waiting.may_have_calls || waiting.claims.is_empty() || waiting.allowed.is_some() || is_draining {
            return None;
        }
        Some(Batch { group, allowed: None, claims: waiting.claims.drain(..).collect() })
    }

    /// Waits a moment while every one of these queues is likely to get a claim soon, but none has one.
    pub async fn await_claims(&self, queues: impl Fn() -> Vec<QueueKey>) {
        let until = Instant::now() + SOON;
        loop {
            let arrived = self.arrived.notified();
            let queues = queues();
            let is_likely = !queues.is_empty() && queues.into_iter().all(|queue| self.gets_claim_soon(queue));
            if !is_likely || tokio::time::timeout_at(until, arrived).await.is_err() {
                return;
            }
        }
    }

    fn gets_claim_soon(&self, (tenant, queue): QueueKey) -> bool {
        let state = self.state();
        let waiting = state.groups.get(&Group { tenant, queue, globs: Vec::new() });
        waiting.is_some_and(|waiting| waiting.claims.is_empty() && waiting.used_at.elapsed() < SOON)
            && !state.is_draining
    }

    /// Returns claims that got no call. Claims whose time is over are answered, and all claims during a drain.
    pub(super) fn put_back(&self, batch: Batch, may_have_calls: bool) {
        let Batch { group, allowed, claims } = batch;
        let mut state = self.state();
        // A claim that has left meanwhile waits for this answer only, so both look at the time under the lock.
        let now = Instant::now();
        let is_over = |claim: &WaitingClaim| claim.until <= now || state.is_draining;
        let (over, left): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_over);
        over.into_iter().for_each(|claim| drop(claim.answer.send(Ok(Vec::new()))));
        let new = || Waiting { allowed, claims: VecDeque::new(), may_have_calls: false, used_at: now };
        let waiting = state.groups.entry(group).or_insert_with(new);
        left.into_iter().rev().for_each(|claim| waiting.claims.push_front(claim));
        waiting.used_at = now;
        waiting.may_have_calls |= may_have_calls;
        if waiting.may_have_calls {
            self.wake.notify_one();
        }
    }

    /// Returns the workers that wait.
    pub(super) fn waiting(&self) -> Vec<SeenWorker> {
        let state = self.state();
        let of = |(group, waiting): (&Group, &Waiting)| {
            let seen = |claim: &WaitingClaim| SeenWorker {
                tenant: group.tenant.clone(),
                queue: group.queue.clone(),
                worker: claim.worker.clone(),
                sdk: None,
            };
            waiting.claims.iter().map(seen).collect::<Vec<_>>()
        };
        state.groups.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests;
