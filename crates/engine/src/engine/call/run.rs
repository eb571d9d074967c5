//! A call on its way: its row, its log, and the signals that reach it.
//!
//! The verbs of [`CallRun`] are the only writers of the call's row. The steps of a call say what has happened; whether and
//! when that is committed is decided by the log.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::log::{CallLog, Recorded};
use super::run_exit::RunExit;
use crate::access::Access;
use crate::call_table::CallEntry;
use crate::engine::live::{CallSignals, LiveCalls};
use crate::registry::Entry;
use crate::workqueue::{OfferWatch, Offers};
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::event::{EventKind, Reported};
use toolpost_core::domain::{Call, Code, Failure, Moment, Naming, Outcome, Session, Status, Time};
use toolpost_core::fault::{self, Point, assert_in_tests};
use toolpost_store::events::render;
use toolpost_store::store::journal::{Change, JournalError};
use toolpost_store::store::workers::Offer;
use toolpost_telemetry::Context;
use toolpost_tool::executor::ResultSlot;
use toolpost_tool::executor::emitter::{Report, ReportReceiver};

/// A commit that is under way. It need not be polled to happen.
pub(in crate::engine) type Commit = BoxFuture<'static, Result<(), JournalError>>;

/// The request of a call. Nothing of it changes after the call is planned.
#[derive(Clone)]
pub(in crate::engine) struct Origin {
    /// The caller of the call.
    pub access: Access,
    /// The names under which the caller sees tools.
    pub naming: Naming,
    /// The session, as it was when the call was submitted.
    pub conversation: Option<Arc<Session>>,
    pub traceparent: Option<Arc<str>>,
    /// The log context of the request.
    pub context: Context,
}

/// A call that has not ended.
pub(in crate::engine) struct CallRun {
    call: Call,
    log: CallLog,
    signals: Arc<CallSignals>,
    reports: ReportReceiver,
    origin: Origin,
    live: LiveCalls,
    /// Makes the call reachable until it is dropped.
    registration: Option<CallEntry<Arc<CallSignals>>>,
    /// `true` if the caller does not wait for the call: it has a permit of the queue, and a drain leaves it to the next start.
    is_detached: bool,
    /// Wakes the call when its offer to workers may have changed, from the first offer on.
    offer: Option<(Arc<OfferWatch>, CallEntry<Arc<OfferWatch>>)>,
    /// Of an adopted call: how many nodes were lost while they worked on it.
    losses: Option<i16>,
    /// Fires when a call of the same request waits for an approval.
    parked: Option<CancellationToken>,
    /// Memory, and the permit of a detached call. Held until the call waits for a person, or is settled.
    permits: Vec<Arc<dyn Any + Send + Sync>>,
    /// Guards that are dropped when the call is settled.
    guards: Vec<Box<dyn Any + Send + Sync>>,
}

/// The parts of a [`CallRun`] that its creator decides.
pub(in crate::engine) struct NewRun {
    pub origin: Origin,
    pub call: Call,
    pub log: CallLog,
    pub signals: Arc<CallSignals>,
    pub reports: ReportReceiver,
    pub live: LiveCalls,
}

impl CallRun {
    /// Creates the run of a new call.
    pub fn new(NewRun { origin, call, log, signals, reports, live }: NewRun) -> Self {
        Self {
            call,
            log,
            signals,
            reports,
            origin,
            live,
            registration: None,
            is_detached: false,
            offer: None,
            losses: None,
            parked: None,
            permits: Vec::new(),
            guards: Vec::new(),
        }
    }

    /// Creates the run of a call that another node, or an earlier start of the service, has accepted.
    pub fn resumed(new: NewRun, losses: i16) -> Self {
        Self { is_detached: true, losses: Some(losses), ..Self::new(new) }
    }

    /// Returns the call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Returns the id of the call.
    pub fn id(&self) -> Uuid {
        self.call.id
    }

    /// Returns the request of the call.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the signals that reach the call.
    pub fn signals(&self) -> &Arc<CallSignals> {
        &self.signals
    }

    /// Returns the token that cancels the call.
    pub fn cancel(&self) -> &CancellationToken {
        &self.signals.cancel
    }

    /// Returns the slot for a posted result.
    pub fn posted(&self) -> &ResultSlot {
        &self.signals.posted
    }

    /// Returns `true` if the caller does not wait for the call.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Returns how many nodes were lost while they worked on the call, if it was adopted.
    pub fn losses(&self) -> Option<i16> {
        self.losses
    }

    /// Returns `true` if the journal has the call.
    pub fn is_recorded(&self) -> bool {
        self.log.has_announced()
    }

    /// Returns `true` if the call is committed before anything runs, so that a repeated request finds it.
    pub fn is_accepted_first(&self) -> bool {
        self.log.is_accepted_first()
    }

    /// Returns `true` if the start of the current attempt is published.
    pub fn has_announced_start(&self) -> bool {
        self.log.has_announced_start()
    }

    /// Returns `true` if subscribers know the current status of the call.
    pub fn is_announced(&self) -> bool {
        let is_behind = self.call.started_at.is_some() && !self.log.has_announced_start();
        self.log.has_announced() && !is_behind
    }

    /// Returns `true` if the caller does not wait for approvals.
    pub fn parks(&self) -> bool {
        self.log.parks()
    }

    /// Returns the creation time of the session, if known. It distinguishes sessions that had the same id one after the
    /// other.
    pub fn session_since(&self) -> Option<Time> {
        self.origin.conversation.as_ref().map(|session| session.created_at)
    }

    /// Returns `true` if a shutdown leaves the call unchanged: it is detached, and is worked on outside this process.
    pub fn is_left_at_once(&self) -> bool {
        self.is_detached && self.call.phase == Phase::External
    }

    /// Returns `true` if a result may have been posted that the call has not consumed. A call that ends with `outcome`
    /// before it starts has no result if it was refused, or needs an approval that it does not have.
    pub fn may_have_result(&self, entry: &Entry, outcome: &Outcome) -> bool {
        if !self.signals.accepts_posted_result || !self.is_recorded() {
            return false;
        }
        match self.call.status {
            Status::Doing => self.posted().is_awaited() || self.posted().is_shut(),
            _ => {
                let is_refused = outcome.error.as_ref().is_some_and(|failure| refuses(failure.code));
                let lacks_approval = match &self.call.approval {
                    Some(approval) => !approval.is_approved(),
                    None => entry.definition.requires_approval(),
                };
                entry.works_outside() && entry.definition.worker().is_none() && !is_refused && !lacks_approval
            }
        }
    }

    /// Returns the watch of the call's offer to workers.
    pub fn watch_offer(&mut self, offers: &Offers) -> Arc<OfferWatch> {
        let enter = || OfferWatch::enter(offers, self.call.id);
        self.offer.get_or_insert_with(enter).0.clone()
    }

    /// Returns `true` if the call was offered to workers.
    pub fn was_offered(&self) -> bool {
        self.offer.is_some()
    }

    /// Adds the call to the log context of its request, and returns the context. `own` continues the trace of the request.
    pub fn enter_trace(&mut self, own: Option<Arc<str>>) -> Context {
        if let Some(own) = own {
            self.origin.traceparent = Some(own);
        }
        let context = std::mem::take(&mut self.origin.context);
        context.with_call(self.call.id, &self.call.call_id, &self.call.name, self.origin.traceparent.clone())
    }

    /// Keeps a permit until the call waits for a person, or is settled.
    pub fn keep_permit(&mut self, permit: Arc<dyn Any + Send + Sync>) {
        self.permits.push(permit);
    }

    /// Keeps a guard until the call is settled.
    pub fn keep_guard(&mut self, guard: impl Any + Send + Sync) {
        self.guards.push(Box::new(guard));
    }

    /// Records that the caller does not wait for the call.
    pub fn detach(&mut self) {
        self.is_detached = true;
    }

    /// Shares the token that fires when a call of the same request waits for an approval.
    pub fn share_parking(&mut self, parked: CancellationToken) {
        self.parked = Some(parked);
    }

    /// Returns the token that fires when a call of the same request waits for an approval.
    pub fn parked(&self) -> Option<&CancellationToken> {
        self.parked.as_ref()
    }
}

/// Returns `true` if a call with this failure must not have run, so that a result that it kept does not count.
fn refuses(code: Code) -> bool {
    !matches!(code, Code::Cancelled | Code::ToolTimeout | Code::Overloaded | Code::ShuttingDown | Code::OutcomeUnknown)
}

/// What is recorded before and between attempts.
impl CallRun {
    /// Changes the details of a call that waits: arguments, metadata, approval, reservations. The next change records them.
    pub fn amend<T>(&mut self, amend: impl FnOnce(&mut Call) -> T) -> T {
        let (status, attempts) = (self.call.status, self.call.attempts);
        let done = amend(&mut self.call);
        assert_in_tests!((self.call.status, self.call.attempts) == (status, attempts));
        done
    }

    /// Makes the call reachable for cancellations and reports. Must precede any message that shows the call's id to a
    /// client.
    pub fn register(&mut self) {
        if self.registration.is_none() {
            self.registration = Some(self.live.enter(self.call.id, self.signals.clone()));
        }
    }

    /// Returns the first change of a call, which commits it before anything runs. Calls of a request are committed together.
    pub fn acceptance(&mut self) -> Change {
        self.log.change(&self.call)
    }

    /// Makes a call reachable that is committed before anything runs, so that a repeated request finds it.
    pub fn accept_first(&mut self) {
        self.log.accept_first();
        self.register();
    }

    /// Ends a rejected call in its first change.
    pub fn reject(&mut self, failure: Failure, now: Moment) {
        if let Err(error) = self.call.settle(failure.into(), now) {
            tracing::error!(id = %self.call.id, %error, "a call was settled twice");
        }
    }

    /// Makes the call reachable, and publishes its status to subscribers if they do not know it.
    pub async fn announce(&mut self) {
        self.register();
        if !self.is_announced() {
            let change = self.log.change(&self.call);
            self.log.enqueue(change).await;
        }
    }

    /// Publishes an update of the status. Its commit is not awaited.
    ///
    /// # Errors
    /// Returns the end of a call that has ended already.
    pub async fn publish(&mut self, update: StatusUpdate, now: Time) -> Result<(), RunExit> {
        self.announce().await;
        self.call.update(update).map_err(|error| Failure::execution(&self.call.name, error.to_string()))?;
        self.log.enqueue(self.status_change(now)).await;
        Ok(())
    }

    /// Publishes the current status, whose event number is counted already. Its commit is not awaited.
    pub async fn publish_status(&mut self, now: Time) {
        self.log.enqueue(self.status_change(now)).await;
    }

    /// Publishes an event with this data. Its commit is not awaited.
    pub async fn publish_event(&mut self, kind: EventKind, data: impl FnOnce(&Call) -> String) {
        self.announce().await;
        if self.call.note().is_ok() {
            let data = data(&self.call);
            self.log.enqueue(self.event(kind, data)).await;
        }
    }

    /// Records the current status, and returns after the commit.
    ///
    /// # Errors
    /// Returns the end of a call that is not recorded.
    pub async fn record_status(&mut self, now: Time) -> Result<(), RunExit> {
        self.announce().await;
        self.call.note().map_err(|error| Failure::execution(&self.call.name, error.to_string()))?;
        match self.log.write(self.status_change(now)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(not_run(error)),
        }
    }

    /// Records the start of the call, unless it is recorded. The row of its offer can be deleted afterwards: until then, only
    /// the row says that a worker had the call.
    pub async fn record_start(&mut self) {
        if self.call.started_at.is_some() && !self.is_announced() {
            let change = self.log.change(&self.call);
            if let Err(error) = self.log.write(change).await {
                // The next change of the call fails in the same way.
                tracing::debug!(id = %self.call.id, %error, "the start of a call was not recorded");
            }
        }
    }

    /// Commits the acceptance of a call that waits for a worker, with its status if the arguments have changed since. Returns after
    /// the commit.
    ///
    /// # Errors
    /// Returns the end of a call that is not recorded, or not in time.
    pub async fn accept(&mut self, now: Time, has_changed: bool) -> Result<(), RunExit> {
        if self.is_recorded() {
            return if has_changed { self.record_status(now).await } else { Ok(()) };
        }
        let change = self.log.change(&self.call);
        let recorded = self.write_ahead(change, false).await?;
        recorded.map_err(|reason| Failure::overloaded(&reason))?;
        self.log.accept_first();
        Ok(())
    }

    /// Begins to write the current status.
    pub fn begin_status(&self, now: Time) -> Commit {
        self.begin(self.status_change(now))
    }

    /// Builds a change that records an event of the call.
    fn event(&self, kind: EventKind, data: String) -> Change {
        let reported = Reported { seq: self.call.last_seq, kind, data };
        Change::reported(Arc::new(self.call.clone()), Arc::new(reported))
    }

    /// Builds a change that records the current status of the call as an event.
    fn status_change(&self, now: Time) -> Change {
        assert_in_tests!(!self.call.status.is_terminal());
        self.event(EventKind::Status, render::status_update(&self.call, now))
    }

    fn begin(&self, change: Change) -> Commit {
        let journal = self.log.journal().clone();
        async move { journal.write(change).await }.boxed()
    }
}

/// Returns the end of a call whose change is rejected permanently before it runs.
fn not_run(error: JournalError) -> RunExit {
    match error {
        JournalError::Fenced => RunExit::TakenOver,
        error => Failure::overloaded(&format!("The call was not run: {error}")).into(),
    }
}

/// Attempts and their reports.
impl CallRun {
    /// Starts the first attempt. The start is committed before the tool runs, unless the tool is read-only and the call is
    /// not stored yet. After a crash the row therefore shows whether, and how often, the tool has run.
    ///
    /// # Errors
    /// Returns the end of a call whose start is not recorded.
    pub async fn start(&mut self, now: Moment) -> Result<(), RunExit> {
        self.call.start(now).map_err(|error| Failure::execution(&self.call.name, error.to_string()))?;
        if !self.log.records_starts() {
            return Ok(());
        }
        self.register();
        let change = self.log.change(&self.call);
        let may_be_late = self.log.may_start_late();
        let recorded = Box::pin(self.write_ahead(change, may_be_late)).await?;
        recorded.map_err(|reason| {
            self.call.never_ran();
            Failure::overloaded(&reason).into()
        })
    }

    /// Starts the first attempt, which a worker gets after the commit. Its claim is stored with the start. Returns the call.
    ///
    /// # Errors
    /// Returns the end of a call whose start is not recorded, or not in time for a caller that does not know of the call.
    pub async fn start_with_claim(&mut self, now: Moment, claim: Offer) -> Result<Arc<Call>, RunExit> {
        self.start_outside(now)?;
        let (may_be_late, call) = (self.is_recorded(), Arc::new(self.call.clone()));
        let change = self.log.shared_change(call.clone()).with_worker_claim(claim);
        let recorded = self.write_ahead(change, may_be_late).await?;
        recorded.map_err(|reason| {
            self.call.never_ran();
            Failure::overloaded(&reason)
        })?;
        self.log.accept_first();
        Ok(call)
    }

    /// Starts the first attempt, which a worker has claimed. If the call takes longer, its start is recorded like that of a
    /// read-only tool.
    ///
    /// # Errors
    /// Returns the end of a call that has ended already.
    pub fn start_outside(&mut self, now: Moment) -> Result<(), RunExit> {
        let started = self.call.start_outside(now);
        Ok(started.map_err(|error| Failure::execution(&self.call.name, error.to_string()))?)
    }

    /// Starts a further attempt after the failure `failed`. `None` means that the process of the previous attempt was
    /// lost.
    ///
    /// # Errors
    /// Returns the end of a call whose start is not recorded.
    pub async fn start_again(&mut self, now: Time, failed: Option<Failure>) -> Result<(), RunExit> {
        self.call.start_again().map_err(|error| Failure::execution(&self.call.name, error.to_string()))?;
        self.call.set_tip(format!("Attempt {}", self.call.attempts));
        let recorded = self.write_ahead(self.status_change(now), self.log.may_start_late()).await?;
        recorded.map_err(|_| {
            self.call.never_ran();
            // The tool has run in an earlier attempt, so the call ends with that failure.
            let lost = "its run was lost, and the next attempt could not be recorded";
            failed.unwrap_or_else(|| Failure::execution(&self.call.name, lost)).into()
        })
    }

    /// Records that the tool is about to run. Returns the reason why it must not run. If the commit takes too long, the
    /// caller may repeat the call; `may_be_late` says that the tool may run nevertheless.
    async fn write_ahead(&mut self, change: Change, may_be_late: bool) -> Result<Result<(), String>, RunExit> {
        fault::pass(Point::BeforeAccept);
        let written = self.log.write(change).await;
        fault::pass(Point::AfterAccept);
        match written {
            Ok(Recorded::InTime) => Ok(Ok(())),
            Ok(Recorded::Late) if may_be_late => Ok(Ok(())),
            Ok(Recorded::Late) => Ok(Err("The call could not be recorded in time and was not run".to_owned())),
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Ok(Err(format!("The call was not run: {error}"))),
        }
    }

    /// Begins to announce the call, whose start is not recorded yet.
    pub fn begin_announcement(&mut self) -> Commit {
        self.register();
        let change = self.log.change(&self.call);
        self.begin(change)
    }

    /// Returns the reports of the tool.
    pub fn reports(&mut self) -> &mut ReportReceiver {
        &mut self.reports
    }

    /// Merges a report into the call, and begins to write the change that records it. Returns `None` if it changes nothing.
    pub fn begin_report(&mut self, report: Report, now: Time) -> Option<Commit> {
        let change = self.apply(report, now)?;
        Some(self.begin(change))
    }

    /// Merges a report into the call, and passes the change that records it to the journal. Returns its commit, or `None` if
    /// the report changes nothing.
    pub async fn enqueue_report(&mut self, report: Report, now: Time) -> Option<Commit> {
        self.announce().await;
        let change = self.apply(report, now)?;
        let receipt = self.log.journal().enqueue(change).await.ok()?;
        Some(async move { receipt.await.unwrap_or(Err(JournalError::Closed)) }.boxed())
    }

    fn apply(&mut self, report: Report, now: Time) -> Option<Change> {
        if self.changes_nothing(&report) {
            return None;
        }
        match report {
            Report::Status(update) => {
                self.call.update(update).ok()?;
                Some(self.status_change(now))
            }
            Report::Emission(emission) => {
                self.call.update(StatusUpdate::default()).ok()?;
                Some(self.event(EventKind::Progress, render::emission(&self.call, &emission, now)))
            }
        }
    }

    /// Returns `true` if a report repeats what the start of the call has said: that it is worked on outside this process.
    pub fn changes_nothing(&self, report: &Report) -> bool {
        let is_outside = self.call.phase == Phase::External;
        matches!(report, Report::Status(update) if is_outside && update.only_enters(Phase::External))
    }
}

/// The end of the run.
impl CallRun {
    /// Starts a call that takes over the result of an equal one.
    ///
    /// # Errors
    /// Returns the end of a call that has ended already.
    pub fn take_over_result(&mut self, now: Moment) -> Result<(), RunExit> {
        let started = self.call.take_over(now);
        Ok(started.map_err(|error| Failure::execution(&self.call.name, error.to_string()))?)
    }

    /// Starts a call whose start elsewhere becomes known at its end. Returns `false` if it cannot have started.
    pub fn notice_start(&mut self, now: Moment, is_outside: bool) -> bool {
        let started = if is_outside { self.call.start_outside(now) } else { self.call.start(now) };
        started.is_ok()
    }

    /// Releases what a call does not need while a person decides, and answers a caller that does not wait for that.
    pub fn wait_for_person(&mut self) {
        self.is_detached = true;
        self.permits.clear();
        self.park();
        if let Some(parked) = &self.parked {
            parked.cancel();
        }
    }

    /// Answers a caller that does not wait for approvals with the call as it is.
    pub fn park(&mut self) {
        self.log.park(&self.call);
    }

    /// Releases the caller because it has waited too long. The call continues.
    pub fn give_up_caller(&mut self) {
        self.log.give_up_caller();
    }

    /// Replies to the caller of a call that was rejected in its first change.
    pub fn reply_with_rejection(mut self) {
        self.log.end_is_written(self.call);
    }

    /// Releases the caller: the call continues on another node or after the next start.
    pub fn leave(mut self) -> Recorded {
        self.log.leave();
        self.log.end()
    }

    /// Replies to the caller with the stored call, because another node has adopted it.
    pub async fn reply_with_stored(mut self) -> Recorded {
        self.log.reply_with_stored(&self.call).await;
        self.log.end()
    }

    /// Commits the end of the call, and replies to the caller. `image` is stored instead of the call, if given. `complete`
    /// adds what is known only at the end. Returns the call, or `None` if it did not end here.
    pub async fn settle(
        self,
        outcome: Outcome,
        now: Moment,
        image: Option<Box<Call>>,
        complete: impl FnOnce(&mut Call),
    ) -> (Option<Arc<Call>>, Recorded) {
        // The other resources of the call are released after its end is committed.
        let Self { mut call, mut log, .. } = self;
        if let Err(error) = call.settle(outcome, now) {
            tracing::error!(id = %call.id, %error, "a call was settled twice");
            return (None, log.end());
        }
        complete(&mut call);
        let settled = log.settle(Arc::new(call), image).await;
        (settled, log.end())
    }
}
