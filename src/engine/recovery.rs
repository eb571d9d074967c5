//! This node among others: it says that it lives, and sees to the calls that a lost one has left behind. Queued calls run;
//! a running one is run again only if its tool may be, and else its outcome is unknown. Nothing stays `DOING`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::call::recorder::Recorder;
use super::call::state::{Disposition, Planned, StartMode};
use super::sessions::SessionKey;
use super::submission::Mode;
use super::{Engine, schedule};
use crate::access::Access;
use crate::domain::call::StatusUpdate;
use crate::domain::{Call, Caller, Failure, Phase, Scopes, Session, Status};
use crate::store::StoreError;
use crate::store::nodes::Beaten;

/// How often messages of other nodes are looked for.
const LOOK_FOR_MESSAGES: Duration = Duration::from_millis(500);
/// How often keys are forgotten whose time is over.
const FORGET_KEYS: Duration = Duration::from_secs(600);

/// Calls that are read at once.
const FORGOTTEN: usize = 256;

/// How a node holds its calls.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// How often it says that it lives.
    pub heartbeat: Duration,
    /// A node that has not said so for this long is lost.
    pub lease: Duration,
    /// Whether it sees to the calls of lost nodes; a command line does not.
    pub adopts_calls: bool,
    /// Whether no other server can be alive on this database, as on SQLite.
    pub is_alone: bool,
}

/// After a heartbeat that failed, the next one comes this soon: other nodes wait for it.
const BEAT_AGAIN: Duration = Duration::from_millis(500);

/// Whether this node may judge the leases of others. They are judged by the clock of the database alone. While this node
/// was frozen, or the database was away, the others may have been cut off as well: then they have the time of a lease to
/// come back.
#[derive(Debug, Default)]
struct Doubt(Option<Instant>);

impl Doubt {
    fn arises(&mut self, lease: Duration) {
        self.0 = Instant::now().checked_add(lease);
    }

    /// The nodes that are lost. The row of this node, `own`, is that of its last heartbeat.
    fn lost(&mut self, nodes: Vec<Beaten>, own: &str, lease: Duration) -> Vec<Beaten> {
        let has_lasted = nodes.iter().any(|node| node.node == own && !node.is_over);
        if !has_lasted {
            self.arises(lease);
        }
        if self.0.is_some_and(|until| Instant::now() < until) {
            return Vec::new();
        }
        self.0 = None;
        nodes.into_iter().filter(|node| node.is_over && node.node != own).collect()
    }
}

/// Keeps this node among others, and takes over the calls of lost ones.
#[derive(Debug)]
pub(super) struct Recovery<'a> {
    pub engine: &'a Arc<Engine>,
    pub lease: Lease,
}

impl Recovery<'_> {
    /// Says for the first time that this node lives, before it takes any call.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn register(&self) -> Result<(), StoreError> {
        self.engine.stores.beat(&self.engine.settings.node, self.lease.lease).await?;
        if self.lease.is_alone && self.lease.adopts_calls {
            self.engine.stores.strike_off_servers(&self.engine.settings.node).await?;
        }
        Ok(())
    }

    /// Says that this node lives, and sees to the calls of those that do not, until `stop` fires.
    pub async fn run_heartbeat(&self, stop: CancellationToken) {
        let (mut doubt, mut is_unsure) = (Doubt::default(), false);
        let mut forgotten = Instant::now();
        let mut beat = tokio::time::interval(self.lease.heartbeat);
        let mut look = tokio::time::interval(LOOK_FOR_MESSAGES);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                () = stop.cancelled() => return,
                _ = beat.tick() => self.beat_and_adopt(&mut doubt, &mut is_unsure).await,
                _ = look.tick() => self.engine.inbox.process_inbox().await,
            };
            if let Err(error) = done {
                // While this node was cut off, others may have been so, too.
                doubt.arises(self.lease.lease);
                beat.reset_after(self.lease.heartbeat.min(BEAT_AGAIN));
                // What was adopted without an answer is this node's, and nobody goes on with it.
                is_unsure = true;
                tracing::debug!(%error, "the heartbeat failed");
            }
            if forgotten.elapsed() > FORGET_KEYS {
                forgotten = Instant::now();
                // What could not be forgotten now is forgotten later.
                let _ = self.engine.stores.forget_keys(self.engine.clock.now()).await;
                let _ = self.engine.stores.delete_ended_tickets(self.engine.clock.now()).await;
            }
        }
    }

    async fn beat_and_adopt(&self, doubt: &mut Doubt, is_unsure: &mut bool) -> Result<(), StoreError> {
        // Before its own next heartbeat: this node's row says whether its lease has lasted.
        let nodes = self.engine.stores.nodes(self.lease.lease).await;
        self.engine.stores.beat(&self.engine.settings.node, self.lease.lease).await?;
        let nodes = nodes?;
        // Without its row it was struck off, and others may have taken its calls over.
        *is_unsure |= !nodes.iter().any(|node| *node.node == *self.engine.settings.node);
        if !self.lease.adopts_calls || self.engine.shutdown.drain.is_cancelled() {
            return Ok(());
        }
        for Beaten { node, beat, .. } in doubt.lost(nodes, &self.engine.settings.node, self.lease.lease) {
            tracing::warn!(node, "a node is lost; its calls are seen to");
            self.engine.stores.expire_node(&node, beat).await?;
        }
        if *is_unsure {
            *is_unsure = false;
            self.leave_adopted().await?;
            let resumed = self.resume(self.forgotten().await?).await;
            resumed?;
        }
        let mut left = Vec::new();
        loop {
            // What there is no place for now waits on disk for the next heartbeat.
            let places = self.engine.queue.available_permits().saturating_sub(left.len());
            let calls = match places {
                0 => Ok(Vec::new()),
                places => self.engine.stores.adopt(&self.engine.settings.node, places).await,
            };
            // Those that came before a failure are seen to all the same.
            let is_last = calls.as_ref().map_or(true, Vec::is_empty);
            let done = calls.map(|calls| left.extend(calls));
            if is_last {
                if !left.is_empty() {
                    tracing::info!(calls = left.len(), "calls that were left behind are seen to");
                }
                let resumed = self.resume(left).await;
                return done.and(resumed);
            }
            // A long recovery is no silence.
            self.engine
                .stores
                .beat(&self.engine.settings.node, self.lease.lease)
                .await
                .unwrap_or_else(|error| tracing::debug!(%error, "no heartbeat"));
        }
    }

    /// Leaves the runs of calls that other nodes have taken over: to each of them something is reported, and the fence that
    /// refuses to record it ends the run.
    async fn leave_adopted(&self) -> Result<(), StoreError> {
        for page in self.engine.live.ids().chunks(FORGOTTEN) {
            for id in self.engine.stores.not_of(&self.engine.settings.node, page).await? {
                if let Some(handle) = self.engine.live.get(id) {
                    let phase = Some(Phase::Running);
                    handle.emitter.status(StatusUpdate { phase, ..StatusUpdate::default() });
                }
            }
        }
        Ok(())
    }

    /// Calls of this node that nothing here goes on with. Each live call can be reached before it is on disk.
    async fn forgotten(&self) -> Result<Vec<Call>, StoreError> {
        let mut ids = self.engine.stores.under_way(&self.engine.settings.node).await?;
        ids.retain(|id| self.engine.live.get(*id).is_none());
        let mut calls = Vec::with_capacity(ids.len());
        for page in ids.chunks(FORGOTTEN) {
            calls.extend(self.engine.stores.calls_of_any_tenant(page).await?);
        }
        // One that has ended meanwhile needs nobody.
        calls.retain(|call| !call.status.is_terminal());
        Ok(calls)
    }

    /// Goes on with calls that were left behind. Those of one batch keep their order.
    ///
    /// # Errors
    /// If the tools of a tenant cannot be read: its calls are gone on with later.
    async fn resume(&self, calls: Vec<Call>) -> Result<(), StoreError> {
        if calls.is_empty() {
            return Ok(());
        }
        let sessions = self.sessions_of(&calls).await;
        let (mut jobs, mut done) = (Vec::with_capacity(calls.len()), Ok(()));
        for call in calls {
            match self.access_of(&call).await {
                Ok(access) => jobs.push(self.resumed(access, call, &sessions)),
                Err(error) => done = Err(error),
            }
        }
        jobs.iter_mut().for_each(|job| job.ongoing.register(&self.engine.live));
        // What was said to them comes before they run; what cannot be heard now is heard later.
        if let Err(error) = self.engine.inbox.process_inbox().await {
            tracing::debug!(%error, "messages cannot be read");
        }
        let mut batches: BTreeMap<Uuid, Vec<Planned>> = BTreeMap::new();
        for mut job in jobs {
            // Calls that run again wait for a place like any other, and hold back new ones meanwhile.
            if let Ok(place) = self.engine.queue.clone().try_acquire_owned() {
                job.ongoing.permits.push(Arc::new(place));
            }
            match job.ongoing.call.batch_id {
                // Work that is done outside goes on whatever its neighbours do.
                Some(batch)
                    if !matches!(job.ongoing.begin, StartMode::AwaitResult | StartMode::Lost)
                        && !job.is_concurrency_safe() =>
                {
                    batches.entry(batch).or_default().push(job);
                }
                _ => {
                    if job.ongoing.begin != StartMode::Lost {
                        self.take_place(&mut job);
                    }
                    let engine = self.engine.clone();
                    self.engine.tasks.spawn(async move { engine.steps().run(job).await });
                }
            }
        }
        for mut jobs in batches.into_values() {
            jobs.sort_by_key(|job| job.ongoing.call.index);
            // The others have no place before their turn: they would hold back whom they wait for.
            jobs.first_mut().into_iter().for_each(|job| self.take_place(job));
            self.engine.tasks.spawn(schedule::run_all(self.engine.clone(), jobs, Mode::Serial));
        }
        done
    }

    /// For whom a call was asked. What else its caller may do is known no more, and does not matter.
    async fn access_of(&self, call: &Call) -> Result<Access, StoreError> {
        let caller =
            Caller { tenant: call.tenant.clone(), scopes: Scopes::default(), tools: call.allowed.clone(), key: None };
        Access::open(caller, &self.engine.stores, &self.engine.registry).await
    }

    /// They come in the order in which they are to run.
    fn take_place(&self, job: &mut Planned) {
        if let Disposition::Run(entry) = &job.next {
            job.place = self.engine.steps().admit.queue(&job.ongoing, entry);
        }
    }

    /// The sessions of these calls. One that cannot be read now is as one that was forgotten.
    async fn sessions_of(&self, calls: &[Call]) -> HashMap<SessionKey, Arc<Session>> {
        let mut sessions = HashMap::new();
        for place in calls.iter().filter_map(place_of) {
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
        let entry = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
        let (next, begin) = match (call.status, entry) {
            (Status::Wait, _) if call.phase == Phase::Arguments => {
                (Disposition::Reject(Failure::broken_off(&call.name, "the service stopped").into()), StartMode::Start)
            }
            (Status::Wait, None) => {
                (Disposition::Reject(snapshot.not_found(&call.name, None).into()), StartMode::Start)
            }
            (Status::Wait, Some(_)) if call.effective_arguments.is_none() => {
                let failure = Failure::execution(&call.name, "the service stopped before the call was run");
                (Disposition::Reject(failure.into()), StartMode::Start)
            }
            (Status::Wait, Some(entry)) => (Disposition::Run(entry.clone()), StartMode::Start),
            (_, Some(entry)) if call.phase == Phase::External => {
                (Disposition::Run(entry.clone()), StartMode::AwaitResult)
            }
            (_, Some(entry)) if call.phase == Phase::Retrying => (Disposition::Run(entry.clone()), StartMode::Rerun),
            // It may have been handed out before its phase was on disk. Nothing of it is done here.
            (_, Some(entry)) if entry.definition.is_external() => {
                (Disposition::Run(entry.clone()), StartMode::AwaitResult)
            }
            (_, Some(entry)) if entry.may_repeat() => (Disposition::Run(entry.clone()), StartMode::Rerun),
            (_, Some(entry)) if entry.definition.has_token() => (Disposition::Run(entry.clone()), StartMode::Lost),
            _ => (Disposition::Reject(Failure::outcome_unknown(&call.name).into()), StartMode::Start),
        };
        let recorder = Recorder::resumed(
            self.engine.journal.clone(),
            self.engine.stores.clone(),
            self.engine.settings.store_patience,
            &call,
        );
        let mut job = Planned::new(access.clone(), call, next, recorder);
        job.ongoing.conversation = place_of(&job.ongoing.call).and_then(|place| sessions.get(&place)).cloned();
        job.ongoing.session_guard = place_of(&job.ongoing.call).filter(|_| job.is_to_run()).map(|session| {
            let (tool, cancel) = (job.ongoing.call.name.clone(), job.ongoing.handle.cancel.clone());
            self.engine.sessions.enter(session, job.ongoing.call.id, tool, cancel)
        });
        (job.ongoing.begin, job.ongoing.is_queued, job.ongoing.is_accepted_first) = (begin, true, true);
        if begin != StartMode::Start && job.ongoing.handle.may_be_outside {
            // It was handed out in an earlier life: its result may come before it has its turn in this one.
            job.ongoing.handle.outside.open();
        }
        job
    }
}

/// The session of a call, if it is in one.
fn place_of(call: &Call) -> Option<SessionKey> {
    Some((call.tenant.clone(), call.session.clone()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(12);

    /// This node, `own`, and another one: whether their leases are over.
    fn nodes(own: bool, other: bool) -> Vec<Beaten> {
        let node = |(name, is_over): (&str, bool)| Beaten { node: name.to_owned(), beat: 1, is_over };
        [("own", own), ("other", other)].map(node).to_vec()
    }

    fn lost(doubt: &mut Doubt, nodes: Vec<Beaten>) -> Vec<String> {
        doubt.lost(nodes, "own", LEASE).into_iter().map(|node| node.node).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_look_finds_a_node_whose_lease_is_over() {
        assert_eq!(lost(&mut Doubt::default(), nodes(false, true)), ["other"]);
        assert!(lost(&mut Doubt::default(), nodes(false, false)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_own_silence_a_node_gives_others_the_time_of_a_lease() {
        let mut doubt = Doubt::default();
        assert!(lost(&mut doubt, nodes(true, true)).is_empty(), "it was frozen");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(lost(&mut doubt, nodes(false, true)).is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lost(&mut doubt, nodes(false, true)), ["other"]);
        assert!(lost(&mut doubt, nodes(false, true)[1..].to_vec()).is_empty(), "it was struck off itself");
        tokio::time::advance(LEASE).await;
        doubt.arises(LEASE);
        assert!(lost(&mut doubt, nodes(false, true)).is_empty(), "it was cut off");
    }
}
