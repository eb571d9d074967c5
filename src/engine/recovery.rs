//! Heartbeats of this node, and adoption of the calls of lost nodes.
//!
//! Queued calls run. A running call is repeated if its tool allows this; otherwise its outcome is unknown. No call
//! stays `DOING`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::call::Steps;
use super::call::recorder::Recorder;
use super::call::state::{Planned, StartMode};
use super::sessions::SessionKey;
use super::submission::Mode;
use super::{Engine, schedule};
use crate::access::Access;
use crate::domain::{Call, Caller, Failure, Phase, Scopes, Session, Status, Time};
use crate::registry::Entry;
use crate::store::StoreError;
use crate::store::nodes::Beaten;

mod grace;

use grace::GracePeriod;

/// Interval between two deletions of expired idempotency keys, tickets and pauses.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

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

/// Maximum wait after a failed heartbeat: other nodes depend on it.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The facts that a heartbeat leaves for the next one.
#[derive(Debug, Default)]
struct Knowledge {
    grace: GracePeriod,
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
    /// Records the first heartbeat of this node, before it accepts any call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn register(&self) -> Result<(), StoreError> {
        self.beat().await?;
        if self.lease.is_alone && self.lease.adopts_calls {
            self.engine.stores.strike_off_servers(self.engine.node()).await?;
        }
        Ok(())
    }

    /// Records a heartbeat. Returns `true` if this node is new, or was declared lost.
    async fn beat(&self) -> Result<bool, StoreError> {
        let began = Instant::now();
        let had_no_row = self.engine.stores.beat(self.engine.node(), self.lease.lease).await?;
        self.engine.budgets().renew(began, self.lease.lease).await?;
        Ok(had_no_row)
    }

    /// Records heartbeats and adopts the calls of lost nodes, until `stop` fires.
    pub async fn run_heartbeat(&self, stop: CancellationToken) {
        let mut known = Knowledge { may_have_ended_offers: true, ..Knowledge::default() };
        let mut last_cleanup = Instant::now();
        let mut beat = tokio::time::interval(self.lease.heartbeat);
        let mut inbox = tokio::time::interval(self.lease.poll);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        inbox.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                () = stop.cancelled() => return,
                _ = beat.tick() => self.beat_and_adopt(&mut known).await,
                _ = inbox.tick() => self.process_messages().await,
            };
            if let Err(error) = done {
                // Other nodes may have been cut off, too.
                known.grace.restart(self.lease.lease);
                beat.reset_after(self.lease.heartbeat.min(RETRY_INTERVAL));
                // The failed step may have adopted calls that this node does not know of.
                known.has_unknown_calls = true;
                tracing::debug!(%error, "the heartbeat failed");
            }
            if last_cleanup.elapsed() > CLEANUP_INTERVAL {
                last_cleanup = Instant::now();
                // A failed deletion is repeated after the next interval.
                let now = self.engine.clock.now();
                let _ = self.engine.stores.forget_keys(now).await;
                let _ = self.engine.stores.delete_ended_tickets(now).await;
                let _ = self.engine.stores.delete_ended_pauses(now).await;
                let old = Time(now.0.saturating_sub(i64::try_from(CLEANUP_INTERVAL.as_micros()).unwrap_or(i64::MAX)));
                let _ = self.engine.stores.forget_old_chunks(old).await;
                let _ = self.engine.stores.forget_notices_of_lost_nodes().await;
                let _ = self.engine.stores.delete_idle_mcp_sessions(now).await;
                let _ = self.engine.budgets().clean_up().await;
                let _ = self.engine.stores.delete_ended_offers().await;
            }
        }
    }

    /// Processes what other nodes have stored for this one.
    async fn process_messages(&self) -> Result<(), StoreError> {
        self.engine.inbox.process_inbox().await?;
        self.engine.notices.process(|notice| self.engine.sessions.apply(notice)).await
    }

    async fn beat_and_adopt(&self, known: &mut Knowledge) -> Result<(), StoreError> {
        let (stores, own) = (&self.engine.stores, self.engine.node());
        // Read before the own heartbeat, because this node's row shows whether its lease has lasted.
        let nodes = stores.nodes(self.lease.lease).await;
        // Without its row, this node was declared lost, and other nodes may have adopted its calls. Only the heartbeat itself
        // can tell: the row may be deleted at any time before it.
        known.has_unknown_calls |= self.beat().await?;
        let nodes = nodes?;
        self.engine.chunks.note_peers(nodes.iter().any(|node| *node.node != **own));
        if !self.lease.adopts_calls || self.engine.is_draining() {
            return Ok(());
        }
        for Beaten { node, beat, .. } in known.grace.lost(nodes, own, self.lease.lease) {
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
        let mut left = Vec::new();
        let done = loop {
            // Calls beyond the free permits stay orphaned until a later heartbeat.
            let places = self.engine.queue.available_permits().saturating_sub(left.len());
            if places == 0 {
                break Ok(());
            }
            let (calls, adopted) = stores.adopt(own, places).await;
            let is_last = calls.is_empty() || adopted.is_err();
            left.extend(calls);
            if is_last {
                break adopted;
            }
            // A long recovery must not cost this node its lease.
            match self.beat().await {
                Ok(was_lost) => known.has_unknown_calls |= was_lost,
                Err(error) => {
                    known.has_unknown_calls = true;
                    tracing::debug!(%error, "no heartbeat");
                }
            }
        };
        if !left.is_empty() {
            tracing::info!(calls = left.len(), "adopting orphaned calls");
        }
        // Calls adopted before a failure are resumed anyway.
        let resumed = self.resume(left).await;
        if known.may_have_ended_offers {
            stores.delete_ended_offers().await?;
            known.may_have_ended_offers = false;
        }
        done.and(resumed)
    }

    /// Ends the runs of calls that other nodes have adopted. Returns `true` if there are any.
    async fn stop_adopted(&self) -> Result<bool, StoreError> {
        let ids: Vec<Uuid> = self.engine.live.calls().keys().copied().collect();
        let mut has_any = false;
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
        let sessions = self.sessions_of(&calls).await;
        let (mut jobs, mut done) = (Vec::with_capacity(calls.len()), Ok(()));
        for call in calls {
            match access_of(self.engine, &call).await {
                Ok(access) => jobs.push(self.resumed(access, call, &sessions)),
                Err(error) => done = Err(error),
            }
        }
        jobs.iter_mut().for_each(|job| job.ongoing.register(&self.engine.live));
        // Deliver stored messages before the calls run. Failed deliveries are retried later.
        if let Err(error) = self.engine.inbox.process_inbox().await {
            tracing::debug!(%error, "cannot read messages");
        }
        let mut batches: BTreeMap<Uuid, Vec<Planned>> = BTreeMap::new();
        for mut job in jobs {
            // Resumed calls count as detached calls, and so hold back new ones.
            if let Ok(place) = self.engine.queue.clone().try_acquire_owned() {
                job.ongoing.permits.push(Arc::new(place));
            }
            // External work continues independently of the other calls of the batch.
            let is_outside = matches!(job.ongoing.begin, StartMode::AwaitResult | StartMode::Lost);
            match job.ongoing.call.batch_id {
                Some(batch) if !is_outside && !job.is_concurrency_safe() => {
                    batches.entry(batch).or_default().push(job);
                }
                _ => {
                    if job.ongoing.begin != StartMode::Lost {
                        self.enqueue(&mut job);
                    }
                    schedule::spawn(self.engine, job);
                }
            }
        }
        for mut jobs in batches.into_values() {
            jobs.sort_by_key(|job| job.ongoing.call.index);
            // Only the first call is queued: a later one would block the calls that it waits for.
            jobs.first_mut().into_iter().for_each(|job| self.enqueue(job));
            self.engine.tasks.spawn(schedule::run_all(self.engine.clone(), jobs, Mode::Serial));
        }
        done
    }

    /// Enters a call in the queue. Must be called in the order in which the calls run.
    fn enqueue(&self, job: &mut Planned) {
        if let Ok(entry) = &job.next {
            job.place = Steps::new(self.engine).admit.queue(&job.ongoing, entry);
        }
    }

    /// Reads the sessions of calls. A session that cannot be read is treated like a deleted one.
    async fn sessions_of(&self, calls: &[Call]) -> HashMap<SessionKey, Arc<Session>> {
        let mut sessions = HashMap::new();
        for place in calls.iter().filter_map(session_key) {
            if !sessions.contains_key(&place)
                && let Ok(Some(session)) = self.engine.stores.of(&place.0).session(&place.1).await
            {
                sessions.insert(place, Arc::new(session));
            }
        }
        sessions
    }

    fn resumed(&self, access: Access, mut call: Call, sessions: &HashMap<SessionKey, Arc<Session>>) -> Planned {
        call.resume(self.engine.clock.moment());
        let snapshot = access.snapshot();
        let tool = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
        let entry = tool.map(|tool| tool.entry()).transpose();
        let run = |entry: &Arc<Entry>, begin| (entry.clone(), begin);
        let entry = match &entry {
            Ok(entry) => entry.as_ref(),
            // Its registration was valid, so the definition was damaged since.
            Err(_) => None,
        };
        let start = match (call.status, entry) {
            (Status::Wait, _) if call.phase == Phase::Arguments => {
                Err(Failure::broken_off(&call.name, "the service stopped"))
            }
            (Status::Wait, None) => Err(snapshot.not_found(&call.name, None)),
            (Status::Wait, Some(_)) if call.effective_arguments.is_none() => {
                Err(Failure::execution(&call.name, "the service stopped before the call was run"))
            }
            (Status::Wait, Some(entry)) => Ok(run(entry, StartMode::Start)),
            (_, Some(entry)) if entry.definition.worker().is_some() => Ok(run(entry, StartMode::AwaitResult)),
            (_, Some(entry)) if call.phase == Phase::External => Ok(run(entry, StartMode::AwaitResult)),
            (_, Some(entry)) if call.phase == Phase::Retrying => Ok(run(entry, StartMode::Rerun)),
            // The call may have been handed out before its phase was committed. No work of it runs here.
            (_, Some(entry)) if entry.definition.is_external() => Ok(run(entry, StartMode::AwaitResult)),
            (_, Some(entry)) if entry.may_repeat() => Ok(run(entry, StartMode::Rerun)),
            (_, Some(entry)) if entry.definition.has_token() => Ok(run(entry, StartMode::Lost)),
            _ => Err(Failure::outcome_unknown(&call.name)),
        };
        let (next, begin) = match start {
            Ok((entry, begin)) => (Ok(entry), begin),
            Err(failure) => (Err(failure.into()), StartMode::Start),
        };
        let Engine { journal, stores, settings, .. } = &**self.engine;
        let recorder = Recorder::resumed(journal.clone(), stores.clone(), settings.store_patience, &call);
        let mut job = Planned::new(access.clone(), call, next, recorder);
        job.ongoing.conversation = session_key(&job.ongoing.call).and_then(|place| sessions.get(&place)).cloned();
        job.enter_session(&self.engine.sessions);
        (job.ongoing.begin, job.ongoing.is_queued, job.ongoing.is_accepted_first) = (begin, true, true);
        job.ongoing.is_resumed = true;
        if begin != StartMode::Start && job.ongoing.handle.may_be_outside {
            // The call was handed out before the restart, so its result may arrive before its turn.
            job.ongoing.handle.outside.open();
        }
        job
    }
}

/// Opens the tenant of a call for its original caller. If this node does not know the tool of the call, another one may have
/// registered it a moment ago, and the tools are read again.
pub(super) async fn access_of(engine: &Engine, call: &Call) -> Result<Access, StoreError> {
    let identity = call.caller.clone();
    let caller = Caller {
        tenant: call.tenant.clone(),
        scopes: identity.as_ref().map_or(Scopes::default(), |identity| identity.scopes),
        tools: call.allowed.clone(),
        queues: None,
        key: identity.as_ref().and_then(|identity| identity.key),
        identity,
    };
    let access = Access::open(caller, &engine.stores, &engine.registry).await?;
    let is_known = access.snapshot().get(&call.name).is_some() || access.snapshot().system(&call.name).is_some();
    if !is_known && engine.registry.version_of(access.tenant()) != Some(access.store().tools_version().await?) {
        engine.registry.reload(access.store()).await?;
    }
    Ok(access)
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
    fn nodes(own: bool, other: bool) -> Vec<Beaten> {
        let node = |(name, is_over): (&str, bool)| Beaten { node: name.to_owned(), beat: 1, is_over };
        [("own", own), ("other", other)].map(node).to_vec()
    }

    fn lost(grace: &mut GracePeriod, nodes: Vec<Beaten>) -> Vec<String> {
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
