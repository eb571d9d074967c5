//! Claims of workers that wait at this node, and the calls of this node that wait for one of them.
//!
//! A queue that was found empty is not read again before a signal says that it has a call, so idle workers cost the database
//! nothing.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use toolpost_core::domain::{AllowList, Call, Tenant};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::signals::{Hint, QueueKey};
use toolpost_store::store::workers::{Claim, SeenWorker};

/// Maximum number of calls that one commit gives to workers.
pub(crate) const MAX_CLAIMED: usize = 256;

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
pub(crate) type Answer = Result<Vec<ClaimedCall>, ClaimError>;

/// A claim that waits.
#[derive(Debug)]
pub(crate) struct WaitingClaim {
    id: u64,
    pub worker: Arc<str>,
    pub max: usize,
    until: Instant,
    pub answer: oneshot::Sender<Answer>,
}

/// The claims that are served together: those of one queue and one allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub tenant: Tenant,
    pub queue: Arc<str>,
    globs: Vec<String>,
}

/// A call that waits a moment for the next claim of an active worker.
#[derive(Debug)]
struct WaitingCall {
    /// The best call first: the highest priority, then the oldest.
    order: (Reverse<i32>, Uuid),
    slot: oneshot::Sender<ClaimSlot>,
}

#[derive(Debug)]
struct Waiting {
    allowed: Option<Arc<AllowList>>,
    claims: VecDeque<WaitingClaim>,
    calls: Vec<WaitingCall>,
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
    /// Claims whose workers are gone.
    undelivered: Vec<Claim>,
}

impl State {
    /// Gives waiting claims to the calls of a queue that wait for one. The caller sends the slots once the lock is released.
    fn match_calls(&mut self, claims: &Arc<Claims>, group: &Group) -> Vec<(WaitingCall, ClaimSlot)> {
        let is_draining = self.is_draining;
        let Some(waiting) = self.groups.get_mut(group) else { return Vec::new() };
        waiting.calls.retain(|call| !call.slot.is_closed());
        // Stored calls come first.
        if is_draining || waiting.may_have_calls || waiting.calls.is_empty() || waiting.claims.is_empty() {
            return Vec::new();
        }
        let mut calls = std::mem::take(&mut waiting.calls);
        calls.sort_by_key(|call| Reverse(call.order));
        let mut matched = Vec::new();
        while let Some(claim) = waiting.claims.pop_front() {
            let share = calls.len().div_ceil(waiting.claims.len() + 1).min(claim.max);
            let answer = ClaimAnswer::new(claims, group, claim);
            let best = calls.split_off(calls.len() - share).into_iter().rev();
            matched.extend(best.map(|call| (call, ClaimSlot(answer.clone()))));
            if calls.is_empty() {
                break;
            }
        }
        waiting.calls = calls;
        matched
    }
}

/// The waiting claims of this node.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    state: Mutex<State>,
    wake: Notify,
    has_undelivered: Notify,
}

/// A slot for one call in the answer to a waiting claim. A claim without a filled slot waits on.
#[derive(Debug)]
pub(crate) struct ClaimSlot(Arc<ClaimAnswer>);

/// The answer to a claim, sent once all its slots are filled or dropped.
#[derive(Debug)]
struct ClaimAnswer {
    claims: Arc<Claims>,
    group: Group,
    worker: Arc<str>,
    content: Mutex<(Option<WaitingClaim>, Vec<ClaimedCall>)>,
}

impl ClaimSlot {
    /// Returns the worker that gets the call.
    pub fn worker(&self) -> &Arc<str> {
        &self.0.worker
    }

    /// Fills the slot. The claim is stored.
    pub fn fill(self, call: ClaimedCall) {
        self.0.content.lock().unwrap_or_else(PoisonError::into_inner).1.push(call);
    }
}

impl ClaimAnswer {
    fn new(claims: &Arc<Claims>, group: &Group, claim: WaitingClaim) -> Arc<Self> {
        let (claims, group, worker) = (claims.clone(), group.clone(), claim.worker.clone());
        Arc::new(Self { claims, group, worker, content: Mutex::new((Some(claim), Vec::new())) })
    }
}

impl Drop for ClaimAnswer {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (Some(claim), calls) = std::mem::take(content) else { return };
        if calls.is_empty() {
            let batch = Batch { group: self.group.clone(), allowed: None, claims: vec![claim] };
            return self.claims.put_back(batch, false);
        }
        fault::pass(Point::AfterClaim);
        self.claims.mark_used(&self.group);
        self.claims.answer(claim, calls);
    }
}

/// The distribution of calls among waiting claims: for each call, the claim that gets it, and its worker.
pub(crate) struct Shares {
    pub owners: Vec<usize>,
    pub workers: Vec<Arc<str>>,
}

impl Shares {
    /// Distributes at most `max` calls evenly.
    pub fn new(claims: &[WaitingClaim], max: usize) -> Self {
        let (mut owners, mut workers) = (Vec::new(), Vec::new());
        for round in 0.. {
            let before = owners.len();
            for (index, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.max > round) {
                if owners.len() < max {
                    owners.push(index);
                    workers.push(claim.worker.clone());
                }
            }
            if owners.len() == before {
                break;
            }
        }
        Self { owners, workers }
    }
}

/// Claims that are served together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub group: Group,
    pub allowed: Option<Arc<AllowList>>,
    pub claims: Vec<WaitingClaim>,
}

impl Waiting {
    fn new(allowed: Option<Arc<AllowList>>, may_have_calls: bool) -> Self {
        Self { allowed, claims: VecDeque::new(), calls: Vec::new(), may_have_calls, used_at: Instant::now() }
    }
}

/// Sends slots to calls. A call that has left drops its slot.
fn send(matched: Vec<(WaitingCall, ClaimSlot)>) {
    matched.into_iter().for_each(|(call, slot)| drop(call.slot.send(slot)));
}

impl Claims {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for calls, at most for the time of the request, or until `drain` fires.
    ///
    /// # Errors
    /// Returns a [`ClaimError`] if the database fails.
    pub async fn claim(
        self: &Arc<Self>,
        (tenant, allowed): Scope,
        request: ClaimRequest,
        drain: &CancellationToken,
    ) -> Answer {
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

    fn enter(self: &Arc<Self>, group: &Group, allowed: Option<Arc<AllowList>>, claim: WaitingClaim) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        let waiting = state.groups.entry(group.clone()).or_insert_with(|| Waiting::new(allowed, true));
        waiting.claims.push_back(WaitingClaim { id, ..claim });
        waiting.used_at = Instant::now();
        if waiting.may_have_calls {
            self.wake.notify_one();
        }
        let matched = state.match_calls(self, group);
        drop(state);
        send(matched);
        id
    }

    /// Records that a worker of these claims was seen.
    fn mark_used(&self, group: &Group) {
        if let Some(waiting) = self.state().groups.get_mut(group) {
            waiting.used_at = Instant::now();
        }
    }

    /// Returns a slot for a call of this node in the answer to a claim that waits for any call of the queue. Waits a moment if the
    /// next claim is likely to come soon. Returns `None` if the call is to be offered: no worker waits, or stored calls of the queue
    /// come first, as far as this node knows.
    pub async fn reserve(
        self: &Arc<Self>,
        (tenant, queue): &QueueKey,
        order: (Reverse<i32>, Uuid),
    ) -> Option<ClaimSlot> {
        let group = Group { tenant: tenant.clone(), queue: queue.clone(), globs: Vec::new() };
        let (slot, mut reserved) = oneshot::channel();
        {
            let mut state = self.state();
            let is_draining = state.is_draining;
            let waiting = state.groups.get_mut(&group)?;
            waiting.claims.retain(|claim| !claim.answer.is_closed());
            if waiting.may_have_calls || waiting.allowed.is_some() || is_draining {
                return None;
            }
            if let Some(claim) = waiting.claims.pop_front() {
                return Some(ClaimSlot(ClaimAnswer::new(self, &group, claim)));
            }
            if waiting.used_at.elapsed() >= SOON {
                return None;
            }
            waiting.calls.push(WaitingCall { order, slot });
        }
        match tokio::time::timeout(SOON, &mut reserved).await {
            Ok(slot) => slot.ok(),
            Err(_) => {
                reserved.close();
                reserved.try_recv().ok()
            }
        }
    }

    /// Removes a claim whose time is over. Returns `false` if its answer follows: it is being served, or its queue was not
    /// read for it yet.
    fn leave(&self, group: &Group, id: u64, is_forced: bool) -> bool {
        let mut state = self.state();
        state.is_draining |= is_forced;
        let Some(waiting) = state.groups.get_mut(group) else { return false };
        let Some(index) = waiting.claims.iter().position(|claim| claim.id == id) else { return false };
        if waiting.may_have_calls && !is_forced {
            return false;
        }
        waiting.claims.remove(index).is_some()
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
    pub(crate) fn take(&self) -> Vec<Batch> {
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

    /// Answers a claim with its calls. If its worker is gone, the calls are to be taken back. Returns `true` if the worker has them.
    pub fn answer(&self, waiting: WaitingClaim, calls: Vec<ClaimedCall>) -> bool {
        let WaitingClaim { answer, worker, .. } = waiting;
        let Err(refused) = answer.send(Ok(calls)) else { return true };
        let claim_of = |ClaimedCall { call, attempt, lease_ms, .. }| Claim {
            call: call.id,
            attempt,
            lease_ms,
            worker: worker.clone(),
            is_own: false,
        };
        self.state().undelivered.extend(refused.into_iter().flatten().map(claim_of));
        self.has_undelivered.notify_one();
        false
    }

    /// Waits until a worker was gone when it was answered, and returns the claims of its calls.
    pub async fn undelivered(&self) -> Vec<Claim> {
        loop {
            let claims = std::mem::take(&mut self.state().undelivered);
            if !claims.is_empty() {
                return claims;
            }
            self.has_undelivered.notified().await;
        }
    }

    /// Returns claims that got no call. Claims whose time is over are answered, and all claims during a drain.
    pub(crate) fn put_back(self: &Arc<Self>, batch: Batch, may_have_calls: bool) {
        let Batch { group, allowed, claims } = batch;
        let mut state = self.state();
        // A claim that has left meanwhile waits for this answer only, so both look at the time under the lock.
        let now = Instant::now();
        let is_over = |claim: &WaitingClaim| claim.until <= now || state.is_draining;
        let (over, left): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_over);
        over.into_iter().for_each(|claim| drop(claim.answer.send(Ok(Vec::new()))));
        let waiting = state.groups.entry(group.clone()).or_insert_with(|| Waiting::new(allowed, false));
        left.into_iter().rev().for_each(|claim| waiting.claims.push_front(claim));
        waiting.used_at = now;
        waiting.may_have_calls |= may_have_calls;
        if waiting.may_have_calls {
            self.wake.notify_one();
        }
        let matched = state.match_calls(self, &group);
        drop(state);
        send(matched);
    }

    /// Returns the workers that wait.
    pub(crate) fn waiting(&self) -> Vec<SeenWorker> {
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
