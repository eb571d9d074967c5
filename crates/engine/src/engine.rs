//! The engine: runs tool calls from submission to their committed end.
//!
//! [`Engine`] is a handle that passes requests on. The path of a call has six steps, which `engine/call.rs` lists: plan
//! → accept → prepare → admit → execute → settle. Every accepted call is settled exactly once.
//!
//! The other modules serve this path: `submit` and `schedule` start the calls of a request, `control` delivers
//! cancellations, reports and posted results, `recovery` resumes calls of stopped nodes, and `sessions` ends the calls
//! of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::access::Access;
use crate::arguments::stream::ArgumentStream;
use crate::budgets::Budgets;
use crate::dispatch::Slots;
use crate::hooks::Hooks;
use crate::interrupt::Shutdown;
use crate::memory::{self, Footprint, MemoryBudget};
use crate::pauses::{Pauses, SharedPauses};
use crate::policies::Policies;
use crate::registry::Registry;
use crate::result_cache::Results;
use crate::workqueue::WorkQueue;
use toolpost_core::domain::{Clock, IdGenerator, Tenant};
use toolpost_store::store::{Journal, StoreError, Stores};

mod admission;
mod approval_notices;
mod approvals;
mod argument_chunks;
mod at_work;
mod bulk_cancel;
mod call;
mod context;
mod control;
mod control_message;
mod detach;
mod follow;
mod in_flight;
mod inbox;
mod last_result;
pub mod live;
mod notices;
mod posted_results;
mod recovery;
mod schedule;
mod sessions;
mod settings;
mod submission;
mod submit;
mod tool_lookups;
mod worker_reports;
mod workers;

pub use admission::AdmissionControl;
pub use approvals::{Approvals, DecideError, DecisionRequest};
pub use argument_chunks::ChunkAnswer;
pub use bulk_cancel::CancelFilter;
pub use call::accept::AcceptError;
pub use call::log::{PendingCall, RecordError};
pub use control::{ControlOutcome, ControlPlane};
pub use in_flight::{InFlightCalls, WaitOutcome};
pub use notices::{Notice, NoticeBoard};
pub use recovery::Lease;
pub use sessions::Sessions;
pub use settings::{Load, Settings};
pub use submission::{KeyedError, Submission, SubmitError, Wait};
pub use submit::Keyed;
pub use workers::WorkerRules;

use argument_chunks::ChunkReceiver;
use call::log::LogParts;
use follow::Followed;
use inbox::Inbox;
use live::LiveCalls;
use sessions::SessionCalls;
use tool_lookups::ToolLookups;

/// The engine of one node, which runs its calls.
#[derive(Debug)]
pub struct Engine {
    registry: Arc<Registry>,
    tool_lookups: ToolLookups,
    journal: Journal,
    clock: Clock,
    ids: IdGenerator,
    settings: Settings,
    stores: Stores,
    memory: MemoryBudget,
    others: MemoryBudget,
    /// Permits of detached calls, whose caller does not wait for them.
    queue: Arc<Semaphore>,
    slots: Slots,
    pauses: Pauses,
    live: LiveCalls,
    inbox: Inbox,
    chunks: ChunkReceiver,
    results: Results,
    sessions: SessionCalls,
    workqueue: WorkQueue,
    at_work: at_work::AtWork,
    notices: NoticeBoard,
    /// Changes of the registry.
    tool_changes: watch::Receiver<u64>,
    tasks: TaskTracker,
    shutdown: Shutdown,
    /// Whether the database knows this node.
    signed_on: AtomicBool,
}

impl Engine {
    /// Creates an engine. It accepts calls immediately.
    pub fn new(
        registry: Arc<Registry>,
        journal: Journal,
        stores: Stores,
        clock: Clock,
        ids: IdGenerator,
        settings: Settings,
    ) -> Self {
        let live = LiveCalls::default();
        let notices = NoticeBoard::new(stores.clone(), ids.clone(), settings.node.clone());
        let (tool_changes, tasks) = (registry.changes(), TaskTracker::new());
        let workqueue = WorkQueue::new(stores.clone(), settings.node.clone(), tasks.clone());
        let at_work = at_work::AtWork::new(stores.clone(), settings.node.clone(), tasks.clone());
        Self {
            registry,
            journal,
            memory: MemoryBudget::new(settings.memory_kib),
            others: MemoryBudget::new(memory::OTHERS_KIB),
            queue: Arc::new(Semaphore::new(settings.max_queued)),
            slots: Slots::new(settings.max_running),
            pauses: Pauses::new(settings.pause, clock.clone()),
            tool_lookups: ToolLookups::default(),
            inbox: Inbox::new(stores.clone(), settings.node.clone(), live.clone()),
            chunks: ChunkReceiver::new(stores.clone(), settings.node.clone(), live.clone(), settings.store_timeout),
            live,
            stores,
            results: Results::new(settings.results_bytes, clock.clone()),
            sessions: SessionCalls::default(),
            workqueue,
            at_work,
            notices,
            tool_changes,
            tasks,
            shutdown: Shutdown::default(),
            signed_on: AtomicBool::new(false),
            clock,
            ids,
            settings,
        }
    }

    /// Returns the name of this node.
    pub fn node(&self) -> &Arc<str> {
        &self.settings.node
    }

    /// Returns the parts of this node that the logs of calls use.
    fn log_parts(&self) -> LogParts<'_> {
        LogParts { journal: &self.journal, stores: &self.stores, timeout: self.settings.store_timeout }
    }

    /// Returns `true` if the database knows this node, which accepts no calls before.
    pub fn is_signed_on(&self) -> bool {
        self.signed_on.load(Ordering::Relaxed)
    }

    /// Returns the hooks around calls.
    pub fn hooks(&self) -> &Arc<Hooks> {
        &self.settings.hooks
    }

    /// Returns the budgets for calls.
    pub fn budgets(&self) -> &Arc<Budgets> {
        &self.settings.budgets
    }

    /// Returns the policies for calls.
    pub fn policies(&self) -> &Arc<Policies> {
        &self.settings.policies
    }

    /// Returns this node's table of paused tools.
    pub fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    fn shared_pauses(&self) -> SharedPauses<'_> {
        SharedPauses { pauses: &self.pauses, stores: &self.stores }
    }

    /// Ends the pause of a tool for a tenant, on all nodes.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. The tool may then still be paused.
    pub async fn resume_tool(&self, tenant: &Tenant, tool: &str) -> Result<(), StoreError> {
        self.shared_pauses().resume(tenant, tool).await
    }

    /// Creates the given number of call ids, so that a caller can subscribe to its calls before it submits them.
    pub fn ids(&self, calls: usize) -> Vec<Uuid> {
        // Calls of one request are in one shard, so that they can be accepted in one commit.
        let shard = self.journal.shard_of_new_calls();
        (0..calls).map(|_| self.ids.next_call(shard)).collect()
    }

    /// Returns the argument stream of a tenant's call on this node; `None` if the call has ended or is not streamed.
    pub fn draft(&self, tenant: &Tenant, id: Uuid) -> Option<ArgumentStream> {
        self.live.get_of(tenant, id)?.arguments.clone()
    }

    /// Creates an id for something other than a call, such as a request.
    pub fn new_id(&self) -> Uuid {
        self.ids.next()
    }

    /// Submits calls that can be planned immediately and whose session is joined already. They run even if the caller
    /// does not wait.
    ///
    /// `ids` come from [`Engine::ids`], one for each call. `request` is the memory permit of the request, or its size.
    ///
    /// # Errors
    /// Returns [`SubmitError::Overloaded`] or [`SubmitError::ShuttingDown`]. In both cases no call was accepted.
    pub fn submit_now(
        self: &Arc<Self>,
        access: &Access,
        submission: impl Into<Box<Submission>>,
        ids: &[Uuid],
        request: impl Into<Footprint>,
    ) -> Result<InFlightCalls, SubmitError> {
        submit::plan(self, access, submission.into(), ids, request.into())
    }

    /// Submits calls. Joins their session first, and checks large arguments on a separate thread.
    ///
    /// # Errors
    /// Returns a [`SubmitError`]. In this case no call was accepted.
    pub async fn submit(
        self: &Arc<Self>,
        access: &Access,
        submission: impl Into<Box<Submission>>,
        ids: Vec<Uuid>,
        request: impl Into<Footprint>,
    ) -> Result<InFlightCalls, SubmitError> {
        let (submission, request): (Box<Submission>, Footprint) = (submission.into(), request.into());
        if submit::is_immediate(access, &submission, &request) {
            return submit::plan(self, access, submission, &ids, request);
        }
        // Boxed because few requests need it, and a future is as large as its largest branch.
        Box::pin(submit::submit(self, access, submission, ids, request)).await
    }

    /// Submits calls with idempotency keys: looks up the calls that exist, and accepts the others.
    ///
    /// # Errors
    /// Returns a [`KeyedError`]. No call was accepted, except where [`KeyedError::NotRecorded`] says so.
    pub async fn submit_keyed(
        self: &Arc<Self>,
        access: &Access,
        submission: &Submission,
        ids: &[Uuid],
        request: Footprint,
    ) -> Result<Keyed, KeyedError> {
        submit::submit_keyed(self, access, submission, ids, request).await
    }

    /// Reads or creates the session of a submission whose calls are submitted one at a time.
    ///
    /// # Errors
    /// Returns [`SubmitError::Store`] or [`SubmitError::Overloaded`].
    pub async fn join_session(&self, access: &Access, submission: &mut Submission) -> Result<(), SubmitError> {
        submit::join_session(self, access, submission).await
    }

    /// Returns `true` if the backlog allows new calls at this moment. Check this before parsing a request, so that a
    /// rejection stays cheap.
    pub fn takes_calls(&self) -> bool {
        self.settings.admission.admits(self.journal.awaited())
    }

    /// Returns the memory budget of requests that submit calls.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Returns the memory budget of all other requests.
    pub fn other_memory(&self) -> &MemoryBudget {
        &self.others
    }

    /// Returns the registry of all tools.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the current load.
    pub fn load(&self) -> Load {
        let Settings { memory_kib, max_queued, .. } = self.settings;
        Load {
            memory_kib: self.memory.taken_kib(),
            max_memory_kib: memory_kib,
            backlog: self.journal.awaited(),
            queued: max_queued.saturating_sub(self.queue.available_permits()),
            most_queued: max_queued,
            waiting: self.slots.waiting(),
        }
    }

    /// Returns the control plane, which cancels calls and delivers reports and posted results.
    pub fn control(&self) -> ControlPlane<'_> {
        let Self { registry, stores, ids, live, inbox, workqueue, settings, .. } = self;
        ControlPlane { registry, stores, ids, node: &settings.node, live, inbox, offers: &workqueue.offers }
    }

    /// Returns the notices between this node and the others.
    pub fn notices(&self) -> &NoticeBoard {
        &self.notices
    }

    /// Returns the operations that end sessions with their calls.
    pub fn sessions(&self) -> Sessions<'_> {
        let Self { sessions: calls, notices, registry, stores, clock, .. } = self;
        Sessions { calls, notices, control: self.control(), registry, stores, clock }
    }

    /// Deletes sessions that have been idle for `idle`, until `stop` fires.
    pub async fn keep_sessions(self: Arc<Self>, idle: Duration, stop: CancellationToken) {
        self.sessions().run_cleanup(idle, stop).await;
    }

    /// Returns a future that applies changes of other nodes when their signals arrive, until `stop` fires. It receives
    /// signals from now on. `poll` is the interval at which it reads pauses without a signal.
    pub fn follow_others(
        self: &Arc<Self>,
        poll: Duration,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        Followed::new(self).run(self.clone(), poll, stop)
    }

    /// Returns `true` if the engine no longer accepts calls.
    pub fn is_draining(&self) -> bool {
        self.shutdown.drain.is_cancelled()
    }

    /// Stops accepting calls, waits until running calls have ended or `deadline` has passed, and then settles the rest
    /// as `SHUTTING_DOWN`. If the database is unavailable, waits no longer than a caller would.
    pub async fn drain(&self, deadline: Duration) {
        self.shutdown.drain.cancel();
        self.tasks.close();
        if self.shutdown.stop.is_cancelled() {
            // A previous drain has already waited for the calls.
            return;
        }
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_ok() {
            return;
        }
        self.shutdown.stop.cancel();
        if tokio::time::timeout(self.settings.store_timeout, self.tasks.wait()).await.is_err() {
            tracing::error!(
                calls = self.tasks.len(),
                "the database is unavailable; the outcomes of these calls are not recorded"
            );
        }
    }
}
