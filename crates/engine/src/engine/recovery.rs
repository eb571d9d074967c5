//! Heartbeats of this node, and adoption of the calls of lost nodes.
//!
//! Queued calls run. A running call is repeated if its tool allows this; otherwise its outcome is unknown. No call
//! stays `DOING`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::at_work::MAX_LOSSES;
use super::call::Steps;
use super::call::log::CallLog;
use super::call::run::{CallRun, NewRun, Origin};
use super::call::state::{Next, Planned};
use super::live::CallSignals;
use super::sessions::SessionKey;
use super::tool_lookups::access_of;
use super::{Engine, schedule};
use crate::access::Access;
use crate::dispatch::Mode;
use crate::registry::Entry;
use toolpost_core::domain::{Call, Failure, Naming, Phase, Session, Status, Tenant};
use toolpost_store::store::StoreError;
use toolpost_store::store::nodes::NodeState;
use toolpost_store::store::workers::{OfferState, StoredOffer};
use toolpost_telemetry::Context;
use toolpost_tool::executor::emitter;

mod grace;
mod loops;

#[cfg(test)]
use grace::GracePeriod;
use loops::Findings;

/// Number of calls read at a time.
const PAGE: usize = 256;

/// The rules by which a node owns its calls.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// The interval between two heartbeats.
    pub heartbeat: Duration,
    /// The time without a heartbeat after which a node is lost.
    pub lease: Duration,
    /// The interval between two checks for messages of other nodes whose signal was lost.
    pub poll: Duration,
    /// `true` if the node adopts the calls of lost nodes. Command-line runs do not.
    pub adopts_calls: bool,
    /// `true` if no other server can run on this database, as on SQLite.
    pub is_alone: bool,
}

/// The facts that one round of the adoption leaves for the next.
#[derive(Debug, Default)]
struct Knowledge {
    /// Whether this node may own calls that do not run here.
    has_unknown_calls: bool,
    /// Whether a lost node may have left offers of calls that have ended.
    may_have_ended_offers: bool,
}

/// Runs the heartbeat of this node and adopts the calls of lost nodes.
pub(super) struct Recovery<'a> {
    pub engine: &'a Arc<Engine>,
    pub lease: Lease,
}

impl Recovery<'_> {
    /// Records the first heartbeat of this node. Returns `true`, because the node is new.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    async fn register(&self) -> Result<bool, StoreError> {
        self.beat().await?;
        if self.lease.is_alone && self.lease.adopts_calls {
            self.engine.stores.strike_off_servers(self.engine.node()).await?;
        }
        self.engine.signed_on.store(true, Ordering::Relaxed);
        Ok(true)
    }

    /// Records a heartbeat. Returns `true` if this node is new, or was declared lost.
    async fn beat(&self) -> Result<bool, StoreError> {
        let began = Instant::now();
        let had_no_row = self.engine.stores.beat(self.engine.node(), self.lease.lease).await?;
        self.engine.budgets().renew(began, self.lease.lease).await?;
        Ok(had_no_row)
    }

    /// Records heartbeats, adopts the calls of lost nodes, processes messages and cleans up, until `stop` fires. None of these
    /// waits for another: a long adoption must not cost this node its lease.
    pub async fn run_heartbeat(&self, is_registered: bool, stop: CancellationToken) {
        let findings = watch::Sender::new(Findings::default());
        let all = async {
            tokio::join!(
                self.beat_on(&findings, is_registered),
                self.adopt_on(&findings),
                self.read_messages_on(),
                self.clean_up_on()
            )
        };
        let _ = stop.run_until_cancelled(all).await;
    }

    /// Processes what other nodes have stored for this one.
    async fn process_messages(&self) -> Result<(), StoreError> {
        self.engine.inbox.process_inbox().await?;
        self.engine.notices.process(|notice| self.engine.sessions.apply(notice)).await
    }

    async fn adopt_lost(&self, lost: Vec<NodeState>, known: &mut Knowledge) -> Result<(), StoreError> {
        let stores = &self.engine.stores;
        // Without its own row, this node would adopt its own calls.
        if !self.lease.adopts_calls || self.engine.is_draining() || !self.engine.is_signed_on() {
            return Ok(());
        }
        for NodeState { node, beat, .. } in lost {
            tracing::warn!(node, "node lost; adopting its calls");
            known.may_have_ended_offers = true;
            stores.expire_node(&node, beat).await?;
        }
        if std::mem::take(&mut known.has_unknown_calls) {
            if self.stop_adopted().await? {
                // This node must not adopt them again before their runs have ended: two runs of one call would write as this
                // node.
                known.has_unknown_calls = true;
                return Ok(());
            }
            self.resume(self.orphaned().await?).await?;
        }
        let done = self.adopt_orphaned(known).await;
        if known.may_have_ended_offers {
            stores.delete_ended_offers().await?;
            known.may_have_ended_offers = false;
        }
        done
    }

    /// Adopts orphaned calls and resumes them, page by page: calls begin to run while others are still to be adopted.
    async fn adopt_orphaned(&self, known: &mut Knowledge) -> Result<(), StoreError> {
        // The calls of a batch run in their order, so all of them must be known first.
        let (mut in_batches, mut number) = (Vec::new(), 0);
        let mut resumed = Ok(());
        let adopted = loop {
            // Calls beyond the free permits stay orphaned until a later heartbeat.
            let places = self.engine.queue.available_permits().saturating_sub(in_batches.len());
            if places == 0 {
                break Ok(());
            }
            let (calls, adopted) = self.engine.stores.adopt(self.engine.node(), places).await;
            let is_last = calls.is_empty() || adopted.is_err();
            number += calls.len();
            // A call that comes back from a node that had adopted it may still run here. It is resumed after this run has ended:
            // two runs of one call would write as this node.
            let (running, calls): (Vec<_>, Vec<_>) =
                calls.into_iter().partition(|call| self.engine.live.leave_to_adopter(call.id));
            known.has_unknown_calls |= !running.is_empty();
            let (of_batch, single): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.batch_id.is_some());
            in_batches.extend(of_batch);
            // Calls adopted before a failure are resumed anyway.
            resumed = resumed.and(self.resume(single).await);
            if is_last {
                break adopted;
            }
        };
        if number > 0 {
            tracing::info!(calls = number, "adopting orphaned calls");
        }
        let in_order = self.resume(in_batches).await;
        adopted.and(resumed).and(in_order)
    }

    /// Ends the runs of calls that other nodes have adopted. Returns `true` if there are any, or if earlier ones have not ended.
    async fn stop_adopted(&self) -> Result<bool, StoreError> {
        let (ids, mut has_any): (Vec<Uuid>, bool) = {
            let calls = self.engine.live.calls();
            (calls.keys().copied().collect(), calls.values().any(|signals| signals.is_taken_over()))
        };
        for page in ids.chunks(PAGE) {
            for id in self.engine.stores.not_of(self.engine.node(), page).await? {
                has_any |= self.engine.live.leave_to_adopter(id);
            }
        }
        Ok(has_any)
    }

    /// Returns the calls of this node that do not run here. Each running call is reachable before it is committed, so
    /// it is excluded.
    async fn orphaned(&self) -> Result<Vec<Call>, StoreError> {
        let mut ids = self.engine.stores.under_way(self.engine.node()).await?;
        ids.retain(|id| self.engine.live.get(*id).is_none());
        let mut calls = Vec::with_capacity(ids.len());
        for page in ids.chunks(PAGE) {
            calls.extend(self.engine.stores.calls_of_any_tenant(page).await?);
        }
        // Calls may have ended in the meantime.
        calls.retain(|call| !call.status.is_terminal());
        Ok(calls)
    }

    /// Resumes orphaned calls. The calls of a batch keep their order.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the tools of a tenant cannot be read. Its calls are resumed later.
    async fn resume(&self, calls: Vec<Call>) -> Result<(), StoreError> {
        if calls.is_empty() {
            return Ok(());
        }
        let sessions = self.sessions_of(&calls).await?;
        let (losses, offers) = (self.losses_of(&calls).await?, self.offers_of(&calls).await?);
        let (mut resumed, mut done) = (Vec::with_capacity(calls.len()), Ok(()));
        for call in calls {
            match access_of(self.engine, &call).await {
                Ok(access) => {
                    let losses = losses.get(&call.id).copied().unwrap_or(0);
                    let offer = offers.get(&call.id).copied();
                    resumed.push(self.resumed(access, call, &sessions, (losses, offer)));
                }
                Err(error) => done = Err(error),
            }
        }
        resumed.iter_mut().for_each(|planned| planned.run.register());
        // Deliver stored messages before the calls run. Failed deliveries are retried later.
        if let Err(error) = self.engine.inbox.process_inbox().await {
            tracing::debug!(%error, "cannot read messages");
        }
        let mut batches: BTreeMap<Uuid, Vec<Planned>> = BTreeMap::new();
        for mut planned in resumed {
            // Resumed calls count as detached calls, and so hold back new ones.
            if let Ok(permit) = self.engine.queue.clone().try_acquire_owned() {
                planned.run.keep_permit(Arc::new(permit));
            }
            // External work continues independently of the other calls of the batch.
            match planned.run.call().batch_id {
                Some(batch) if !planned.next.is_outside() && !planned.is_concurrency_safe() => {
                    batches.entry(batch).or_default().push(planned);
                }
                _ => {
                    if !matches!(planned.next, Next::Lost(_)) {
                        self.enqueue(&mut planned);
                    }
                    schedule::spawn(self.engine, planned);
                }
            }
        }
        for mut batch in batches.into_values() {
            batch.sort_by_key(|planned| planned.run.call().index);
            // Only the first call is queued: a later one would block the calls that it waits for.
            batch.first_mut().into_iter().for_each(|planned| self.enqueue(planned));
            self.engine.tasks.spawn(schedule::run_all(self.engine.clone(), batch, Mode::Serial));
        }
        done
    }

    /// Enters a call in the queue. Must be called in the order in which the calls run.
    fn enqueue(&self, planned: &mut Planned) {
        if let Some(entry) = planned.next.entry() {
            planned.queued = Steps::new(self.engine).admit.queue(&planned.run, entry);
        }
    }

    /// Reads the sessions of calls, in pages. A deleted session is missing in the result.
    async fn sessions_of(&self, calls: &[Call]) -> Result<HashMap<SessionKey, Arc<Session>>, StoreError> {
        let mut of_tenants: BTreeMap<&Tenant, BTreeSet<&str>> = BTreeMap::new();
        for call in calls {
            if let Some(session) = &call.session {
                of_tenants.entry(&call.tenant).or_default().insert(session);
            }
        }
        let mut sessions = HashMap::new();
        for (tenant, ids) in of_tenants {
            let ids: Vec<&str> = ids.into_iter().collect();
            let store = self.engine.stores.for_tenant(tenant);
            for page in ids.chunks(PAGE) {
                for session in store.sessions_named(page).await? {
                    sessions.insert((tenant.clone(), session.id.clone()), Arc::new(session));
                }
            }
        }
        Ok(sessions)
    }

    /// Reads how many nodes were lost while they worked on these calls.
    async fn losses_of(&self, calls: &[Call]) -> Result<HashMap<Uuid, i16>, StoreError> {
        let ids: Vec<Uuid> = calls.iter().map(|call| call.id).collect();
        let mut losses = HashMap::new();
        for page in ids.chunks(PAGE) {
            losses.extend(self.engine.stores.notes_of_work(page).await?);
        }
        Ok(losses)
    }

    /// Makes this node the owner of the offers of calls, and reads them.
    async fn offers_of(&self, calls: &[Call]) -> Result<HashMap<Uuid, StoredOffer>, StoreError> {
        // A call that waits offers itself.
        let ids: Vec<Uuid> = calls.iter().filter(|call| call.status == Status::Doing).map(|call| call.id).collect();
        let mut offers = HashMap::new();
        for page in ids.chunks(PAGE) {
            offers.extend(self.engine.stores.take_over_offers(page, self.engine.node()).await?);
        }
        Ok(offers)
    }

    fn resumed(
        &self,
        access: Access,
        mut call: Call,
        sessions: &HashMap<SessionKey, Arc<Session>>,
        (losses, offer): (i16, Option<StoredOffer>),
    ) -> Planned {
        call.resume(self.engine.clock.moment());
        let snapshot = access.snapshot();
        let tool = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
        let entry = tool.map(|tool| tool.entry()).transpose();
        let entry = match &entry {
            Ok(entry) => entry.as_ref(),
            // Its registration was valid, so the definition was damaged since.
            Err(_) => None,
        };
        let next = match entry_point(&call, entry, offer) {
            Some(Next::Prepare(_) | Next::Repeat(_)) if losses >= MAX_LOSSES => Next::End(poison(&call).into(), None),
            Some(next) => next,
            None => Next::End(snapshot.not_found(&call.name, None).into(), None),
        };
        let (emitter, reports) = emitter::channel();
        let signals = CallSignals::new(call.tenant.clone(), next.entry().map(|entry| &**entry), emitter, None);
        let is_handed_out = matches!(next, Next::Repeat(_) | Next::Continue(..) | Next::Lost(_));
        if is_handed_out && signals.accepts_posted_result {
            // The call was handed out before the restart, so its result may arrive before its turn.
            signals.posted.open();
        }
        let conversation = session_key(&call).and_then(|key| sessions.get(&key)).cloned();
        let (naming, traceparent, context) = (Naming::default(), None, Context::current());
        let origin = Origin { access: access.clone(), naming, conversation, traceparent, context };
        let log = CallLog::resumed(self.engine.log_parts(), &call);
        let (signals, live) = (Arc::new(signals), self.engine.live.clone());
        let new = NewRun { origin, call, log, signals, reports, live };
        let mut planned = Planned::new(CallRun::resumed(new, losses), next);
        planned.enter_session(&self.engine.sessions);
        planned
    }
}

/// Returns how a stored call continues, or `None` if nothing of it has run and its tool is missing.
fn entry_point(call: &Call, entry: Option<&Arc<Entry>>, offer: Option<StoredOffer>) -> Option<Next> {
    let end = |failure: Failure| Some(Next::End(failure.into(), None));
    if call.status == Status::Wait {
        if call.phase == Phase::Arguments {
            return end(Failure::broken_off(&call.name, "the service stopped"));
        }
        return match entry? {
            _ if call.effective_arguments.is_none() => {
                end(Failure::execution(&call.name, "the service stopped before the call was run"))
            }
            entry => Some(Next::Prepare(entry.clone())),
        };
    }
    let Some(entry) = entry.cloned() else { return end(Failure::outcome_unknown(&call.name)) };
    let is_for_worker = entry.definition.worker().is_some();
    match call.phase {
        _ if is_for_worker => Some(entry_point_at_worker(call, entry, offer)),
        Phase::External => Some(Next::Continue(entry, None)),
        Phase::Retrying => Some(Next::Repeat(entry)),
        // The call may have been handed out before its phase was committed. No work of it runs here.
        _ if entry.definition.is_external() => Some(Next::Continue(entry, None)),
        _ if entry.may_repeat() => Some(Next::Repeat(entry)),
        _ if entry.definition.has_token() => Some(Next::Lost(entry)),
        _ => end(Failure::outcome_unknown(&call.name)),
    }
}

/// Returns how a call continues that a worker had.
fn entry_point_at_worker(call: &Call, entry: Arc<Entry>, offer: Option<StoredOffer>) -> Next {
    match offer {
        // A lost node may have offered the next attempt without recording its start.
        Some(offer) if offer.attempt > call.attempts => Next::Repeat(entry),
        Some(StoredOffer { state: OfferState::Claimed { since, .. }, .. }) => {
            Next::Continue(entry, u64::try_from(since.as_millis()).ok())
        }
        // The watch of the lease decides: the attempt is answered, waits for another worker, or is lost.
        Some(_) | None => Next::Continue(entry, None),
    }
}

/// Returns the failure of a call that has cost its nodes the lease, and that no further node runs.
fn poison(call: &Call) -> Failure {
    tracing::warn!(id = %call.id, tool = &*call.name, "call given up; its nodes were lost while they worked on it");
    let message = "the call was given up, because the service was lost twice while it worked on the call. Check what the tool \
        has done, and send the call again with smaller or other arguments";
    Failure::execution(&call.name, message).with_details(serde_json::json!({ "poison": true }))
}

/// Returns the session of a call, if it has one.
fn session_key(call: &Call) -> Option<SessionKey> {
    Some((call.tenant.clone(), call.session.clone()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(12);

    /// Returns this node and another one; the arguments say whether their leases have expired.
    fn nodes(own: bool, other: bool) -> Vec<NodeState> {
        let node = |(name, is_over): (&str, bool)| NodeState { node: name.to_owned(), beat: 1, is_over };
        [("own", own), ("other", other)].map(node).to_vec()
    }

    fn lost(grace: &mut GracePeriod, nodes: Vec<NodeState>) -> Vec<String> {
        grace.lost(nodes, "own", LEASE).into_iter().map(|node| node.node).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn first_check_finds_an_expired_node() {
        assert_eq!(lost(&mut GracePeriod::default(), nodes(false, true)), ["other"]);
        assert!(lost(&mut GracePeriod::default(), nodes(false, false)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_own_silence_a_node_waits_one_lease() {
        let mut grace = GracePeriod::default();
        assert!(lost(&mut grace, nodes(true, true)).is_empty(), "it was frozen");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(lost(&mut grace, nodes(false, true)).is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lost(&mut grace, nodes(false, true)), ["other"]);
        assert!(lost(&mut grace, nodes(false, true)[1..].to_vec()).is_empty(), "it was declared lost");
        tokio::time::advance(LEASE).await;
        grace.restart(LEASE);
        assert!(lost(&mut grace, nodes(false, true)).is_empty(), "it was cut off");
    }
}
