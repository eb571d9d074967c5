//! The path of a call, in order: look up → parse → coerce and validate → record → run → convert → check the result →
//! settle. Every accepted call reaches exactly one end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::access::Access;
use crate::dispatch::Slots;
use crate::domain::{Clock, Completion, IdGenerator, Session, Tenant, ToolOutput};
use crate::executor::report::Report;
use crate::hooks::Hooks;
use crate::registry::Registry;
use crate::store::{Journal, Store, StoreError, Stores};

mod admission;
pub mod argument_stream;
mod call;
mod call_order;
mod context;
mod control;
mod control_message;
mod detach;
mod holding;
mod in_flight;
mod inbox;
pub mod live;
mod memory_budget;
pub mod pauses;
mod rates;
mod recovery;
mod schedule;
mod sessions;
mod settings;
mod submission;
mod submit;
#[cfg(test)]
mod tests;

pub use admission::AdmissionControl;
pub use argument_stream::{ArgumentStream, ArgumentStreamError, CompleteArguments};
pub use call::accept::AcceptError;
pub use call::arguments::try_arguments;
pub use call::recorder::{PendingCall, RecordError};
pub use call_order::CallOrder;
pub use control::ControlOutcome;
pub use in_flight::{InFlightCalls, WaitOutcome};
pub use memory_budget::{Footprint, MemoryBudget, NoRoom, Unread};
pub use pauses::PauseRule;
pub use rates::Rates;
pub use recovery::Lease;
pub use settings::{Load, Settings};
pub use submission::{KeyedError, Mode, Submission, SubmitError, Wait};
pub use submit::Keyed;

use call::Steps;
use call::cached::Results;
use call::interrupt::Shutdown;
use control::Reach;
use inbox::Inbox;
use live::LiveCalls;
use pauses::Pauses;
use recovery::Recovery;
use sessions::{SessionCalls, Sessions};

/// Memory that a call is counted with beside its request, in KiB.
const KIB_PER_CALL: usize = 16;
/// Memory for the bodies of requests that make no calls, as results and definitions, in KiB. Calls that wait for what such a
/// request brings cannot take it.
const OTHERS_KIB: usize = 32 * 1024;

/// Runs calls. One per node.
#[derive(Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    journal: Journal,
    clock: Clock,
    ids: IdGenerator,
    settings: Settings,
    stores: Stores,
    room: MemoryBudget,
    others: MemoryBudget,
    /// Places for calls that nobody waits for.
    queue: Arc<Semaphore>,
    slots: Slots,
    pauses: Pauses,
    live: LiveCalls,
    inbox: Inbox,
    results: Results,
    /// The calls of sessions.
    sessions: SessionCalls,
    tasks: TaskTracker,
    shutdown: Shutdown,
}

impl Engine {
    /// An engine that is ready.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        journal: Journal,
        stores: Stores,
        clock: Clock,
        ids: IdGenerator,
        settings: Settings,
    ) -> Self {
        let live = LiveCalls::default();
        Self {
            registry,
            journal,
            room: MemoryBudget::new(settings.room_kib),
            others: MemoryBudget::new(OTHERS_KIB),
            queue: Arc::new(Semaphore::new(settings.max_queued)),
            slots: Slots::new(settings.max_running),
            pauses: Pauses::new(settings.pause, clock.clone()),
            inbox: Inbox::new(stores.clone(), settings.node.clone(), live.clone()),
            live,
            stores,
            results: Results::new(settings.results_bytes, clock.clone()),
            sessions: SessionCalls::default(),
            tasks: TaskTracker::new(),
            shutdown: Shutdown::default(),
            clock,
            ids,
            settings,
        }
    }

    /// This node's name.
    #[must_use]
    pub fn node(&self) -> &Arc<str> {
        &self.settings.node
    }

    /// Who is asked around calls.
    #[must_use]
    pub fn hooks(&self) -> &Arc<Hooks> {
        &self.settings.hooks
    }

    /// Which tools rest.
    #[must_use]
    pub fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Ids for as many calls, so that they can be watched before they are submitted.
    #[must_use]
    pub fn ids(&self, calls: usize) -> Vec<Uuid> {
        (0..calls).map(|_| self.ids.next()).collect()
    }

    /// Where the arguments of a tenant's call of this node come piece by piece; `None` once it has ended, or if they do not.
    #[must_use]
    pub fn draft(&self, tenant: &Tenant, id: Uuid) -> Option<ArgumentStream> {
        self.live.of(tenant, id)?.draft
    }

    /// An id for anything else that wants one, as a request.
    #[must_use]
    pub fn new_id(&self) -> Uuid {
        self.ids.next()
    }

    /// Submits calls whose session is joined already, and which can be planned at once. They run whether or not their caller
    /// waits. `ids` are from [`Engine::ids`], one for each call; `request` is what the request takes, or its size.
    ///
    /// # Errors
    /// Returns [`SubmitError::Overloaded`] or [`SubmitError::ShuttingDown`]. Then no call was accepted.
    pub fn submit_now(
        self: &Arc<Self>,
        access: &Access,
        submission: impl Into<Box<Submission>>,
        ids: &[Uuid],
        request: impl Into<Footprint>,
    ) -> Result<InFlightCalls, SubmitError> {
        submit::plan(self, access, submission.into(), ids, request.into())
    }

    /// Submits calls: joins their session, and checks large arguments on a thread of their own.
    ///
    /// # Errors
    /// Returns a [`SubmitError`]. Then no call was accepted.
    pub async fn submit(
        self: &Arc<Self>,
        access: &Access,
        submission: impl Into<Box<Submission>>,
        ids: Vec<Uuid>,
        request: impl Into<Footprint>,
    ) -> Result<InFlightCalls, SubmitError> {
        let (submission, request): (Box<Submission>, Footprint) = (submission.into(), request.into());
        if submit::is_immediate(&submission, &request) {
            return submit::plan(self, access, submission, &ids, request);
        }
        // Boxed: few requests come this way, and a future is as large as the largest of its parts.
        Box::pin(submit::submit(self, access, submission, ids, request)).await
    }

    /// Submits calls of which some have idempotency keys: calls that exist are found, the others are accepted.
    ///
    /// # Errors
    /// Returns a [`KeyedError`]. Then no call was accepted.
    pub async fn submit_keyed(
        self: &Arc<Self>,
        access: &Access,
        submission: &Submission,
        ids: &[Uuid],
        request: Footprint,
    ) -> Result<Keyed, KeyedError> {
        submit::submit_keyed(self, access, submission, ids, request).await
    }

    /// Reads the session of a submission, or creates it, for calls that follow one by one.
    ///
    /// # Errors
    /// Returns [`SubmitError::Store`] or [`SubmitError::Overloaded`].
    pub async fn join_session(&self, access: &Access, submission: &mut Submission) -> Result<(), SubmitError> {
        submit::join_session(self, access, submission).await
    }

    /// Whether it takes calls at this moment, whatever they are. Whoever can ask so does before anybody reads them: a refusal
    /// that costs as much as a call would be of no help.
    #[must_use]
    pub fn takes_calls(&self) -> bool {
        self.settings.rush.admits(self.journal.awaited())
    }

    /// Memory for requests that make calls.
    #[must_use]
    pub fn room(&self) -> &MemoryBudget {
        &self.room
    }

    /// Memory for requests that make none.
    #[must_use]
    pub fn room_of_others(&self) -> &MemoryBudget {
        &self.others
    }

    /// The steps of calls after their acceptance.
    fn steps(&self) -> Steps<'_> {
        Steps::from(self)
    }

    /// The tools.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// How busy it is.
    #[must_use]
    pub fn load(&self) -> Load {
        let Settings { room_kib, max_queued, .. } = self.settings;
        Load {
            room_kib: self.room.taken_kib(),
            most_room_kib: room_kib,
            backlog: self.journal.awaited(),
            queued: max_queued.saturating_sub(self.queue.available_permits()),
            most_queued: max_queued,
            waiting: self.slots.waiting(),
        }
    }

    fn reach(&self) -> Reach<'_> {
        let Self { registry, stores, ids, live, inbox, settings, .. } = self;
        Reach { registry, stores, ids, node: &settings.node, live, inbox }
    }

    fn sessions(&self) -> Sessions<'_> {
        let Self { sessions: calls, registry, stores, clock, .. } = self;
        Sessions { calls, reach: self.reach(), registry, stores, clock }
    }

    /// Returns the tenant of a call; `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn owner_of(&self, id: Uuid) -> Result<Option<Tenant>, StoreError> {
        self.reach().owner_of(id).await
    }

    /// Cancels a tenant's call. A call that has ended stays as it is.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn cancel(&self, tenant: &Tenant, id: Uuid) -> Result<ControlOutcome, StoreError> {
        self.reach().cancel(tenant, id).await
    }

    /// Reports on a call for its tool, which has shown that it may. `value` is what `report` was read from.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn report(&self, id: Uuid, report: Report, value: Value) -> Result<ControlOutcome, StoreError> {
        self.reach().report(id, report, value).await
    }

    /// Posts the result of a call whose work is done outside, for a client that has shown that it may. The first one wins.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn post_result(&self, id: Uuid, answer: ToolOutput) -> Result<ControlOutcome, StoreError> {
        self.reach().post_result(id, answer).await
    }

    /// Returns `true` if a call can be reported on with its token only.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn has_token(&self, id: Uuid) -> Result<bool, StoreError> {
        self.reach().has_token(id).await
    }

    /// Returns the names of the tools whose calls end with a session: its own, those of its tasks, and the call of its parent
    /// that waits for it.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tools_that_end_with(&self, store: &Store, session: &Session) -> Result<BTreeSet<String>, StoreError> {
        self.sessions().tools_that_end_with(store, session).await
    }

    /// Returns the name of the tool whose call waits for the end of a session, if one does.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn tool_that_awaits(&self, store: &Store, session: &Session) -> Result<Option<String>, StoreError> {
        self.sessions().tool_that_awaits(store, session).await
    }

    /// Ends a session and those of its tasks, and cancels their calls on every node. A completed session stays completed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn abort_session(&self, store: &Store, session: &Session) -> Result<(), StoreError> {
        self.sessions().abort(store, session).await
    }

    /// Aborts a session and deletes it. Returns `false` if it did not exist any more.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn delete_session(&self, store: &Store, session: &Session) -> Result<bool, StoreError> {
        self.sessions().delete(store, session).await
    }

    /// Completes a session, and gives its completion to the call of its parent that waits for it. Returns `false` if another
    /// completion came first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn complete_session(
        &self,
        store: &Store,
        session: &Session,
        completion: Completion,
    ) -> Result<bool, StoreError> {
        self.sessions().complete(store, session, completion).await
    }

    /// Deletes sessions that were not used for `idle`, until `stop` fires.
    pub async fn keep_sessions(self: Arc<Self>, idle: Duration, stop: CancellationToken) {
        self.sessions().keep(idle, stop).await;
    }

    /// Records the first heartbeat of this node, before it takes any call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sign_on(self: &Arc<Self>, lease: Lease) -> Result<(), StoreError> {
        Recovery { engine: self, lease }.register().await
    }

    /// Records heartbeats of this node and adopts the calls of lost nodes, until `stop` fires.
    pub async fn live_on(self: Arc<Self>, lease: Lease, stop: CancellationToken) {
        Recovery { engine: &self, lease }.run_heartbeat(stop).await;
    }

    /// Whether it takes no more calls.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shutdown.drain.is_cancelled()
    }

    /// Takes no more calls, lets running ones end until `deadline`, then settles the rest as `SHUTTING_DOWN`. A database
    /// that is away then is waited for no longer than callers would.
    pub async fn drain(&self, deadline: Duration) {
        self.shutdown.drain.cancel();
        self.tasks.close();
        if self.shutdown.stop.is_cancelled() {
            // They were waited for already.
            return;
        }
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_ok() {
            return;
        }
        self.shutdown.stop.cancel();
        if tokio::time::timeout(self.settings.store_patience, self.tasks.wait()).await.is_err() {
            tracing::error!(calls = self.tasks.len(), "the database is away; the ends of these calls are not recorded");
        }
    }
}
