//! The approval of a call, a part of step 3: asks for the decision of a person, and waits for it.
//!
//! The row of the approval is the truth: this node reads it whenever it is notified, and whichever change of the row
//! comes first wins. A call that waits is durable, so that a restart or another node continues the wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::rules::PolicyCheck;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::{Prepared, Requirement};
use super::wait::{Waiter, repeat_until_done};
use crate::arguments;
use crate::engine::approval_notices::ApprovalNotices;
use crate::interrupt::{Interrupt, Race};
use crate::registry::Entry;
use toolpost_core::domain::approval::digest;
use toolpost_core::domain::{Approval, ApprovalSpec, ApprovalStatus, Failure, RequiredBy};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::approvals::StoredApproval;
use toolpost_store::store::{StoreError, Stores};

/// Longest time between two looks at the clock of a waiting approval.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Asks for approvals, and waits for them.
#[derive(Clone, Copy)]
pub(super) struct Approver<'a> {
    pub stores: &'a Stores,
    pub waiter: Waiter<'a>,
    pub notices: ApprovalNotices<'a>,
    pub policies: PolicyCheck<'a>,
    pub allows_self: bool,
    pub changes: &'a watch::Receiver<u64>,
}

/// The reason for which a waiting call looks at its approval again.
enum Wake {
    Decided,
    ToolsChanged,
    Time,
}

impl Approver<'_> {
    /// Waits until a call is approved that needs it.
    ///
    /// # Errors
    /// Returns the end of a call that is not approved.
    pub async fn approve(&self, prepared: &mut Prepared, required: Option<Requirement>) -> Result<(), RunExit> {
        let by_tool = || Requirement { by: RequiredBy::Tool, policy: None, reason: None };
        let required = match &prepared.run.call().approval {
            // A resumed call keeps what was asked for it.
            Some(known) => {
                Requirement { by: known.required_by, policy: known.policy.clone(), reason: known.reason.clone() }
            }
            None => match required {
                Some(required) => required,
                None if prepared.entry.definition.requires_approval() => by_tool(),
                None => return Ok(()),
            },
        };
        // A slot must not be occupied while a person decides.
        drop(prepared.queued.take());
        if prepared.run.call().approval.is_none() {
            let requested = self.request(&prepared.run, &prepared.entry, &required);
            if let Some(approval) = self.remembered(&prepared.run, &requested).await? {
                return self.record(&mut prepared.run, approval).await;
            }
            self.record(&mut prepared.run, requested).await?;
        }
        let end = match self.insert(&prepared.run, &prepared.entry).await {
            Ok(()) => {
                prepared.run.wait_for_person();
                self.wait(prepared, &required).await
            }
            Err(end) => Err(end),
        };
        match end {
            Err(end @ (RunExit::Done(_) | RunExit::Settle(_))) => Err(self.close(&mut prepared.run, end).await),
            end => end,
        }
    }

    /// Builds the pending approval of a call.
    fn request(&self, run: &CallRun, entry: &Entry, required: &Requirement) -> Approval {
        let spec = entry.definition.approval.clone().unwrap_or_default();
        let ApprovalSpec { expires_ms, min_approvals, .. } = spec;
        // The row has the displayed times, with which this value is compared.
        let now = self.waiter.clock.now().whole_millis();
        Approval {
            status: ApprovalStatus::Pending,
            required_by: required.by,
            policy: required.policy.clone(),
            reason: required.reason.clone(),
            digest: digest_of(run, entry),
            min_approvals,
            decisions: Vec::new(),
            requested_at: now,
            expires_at: now.plus_millis(expires_ms),
            requested_by: run.call().caller.as_ref().map(|caller| caller.subject.clone()),
        }
    }

    /// Returns the approval of a call whose digest is approved for the rest of its session.
    async fn remembered(&self, run: &CallRun, requested: &Approval) -> Result<Option<Approval>, RunExit> {
        let (Some(session), Some(created_at)) = (run.call().session.clone(), run.session_since()) else {
            return Ok(None);
        };
        let (tenant, digest) = (&run.call().tenant, requested.digest.as_str());
        let read = || self.stores.remembered_approval(tenant, (&session, created_at), digest);
        let decisions = self.retried(run, read).await?;
        let own = run.call().caller.as_ref().map(|caller| &*caller.subject);
        let is_own = decisions.iter().any(|decision| Some(decision.by.as_str()) == own);
        let is_enough = (decisions.len() as u64) >= u64::from(requested.min_approvals);
        let counts = is_enough && (self.allows_self || !is_own);
        Ok(counts.then(|| Approval { status: ApprovalStatus::Approved, decisions, ..requested.clone() }))
    }

    /// Sets the approval of the call, and records and publishes the change.
    async fn record(&self, run: &mut CallRun, approval: Approval) -> Result<(), RunExit> {
        run.announce().await;
        let set = run.amend(|call| call.set_approval(approval));
        set.map_err(|error| Failure::execution(&run.call().name, error.to_string()))?;
        run.record_status(self.waiter.clock.now()).await
    }

    /// Stores the approval, unless an earlier run of the call has done so.
    async fn insert(&self, run: &CallRun, entry: &Entry) -> Result<(), RunExit> {
        let Some(row) = StoredApproval::of(run.call()) else { return Ok(()) };
        let notice = self.notices.about(run.call(), &row.approval, Some(&entry.definition));
        fault::pass(Point::BeforeApproval);
        self.retried(run, || self.stores.insert_approval(&row, notice.as_ref())).await?;
        fault::pass(Point::AfterApproval);
        self.notices.wake();
        Ok(())
    }

    async fn wait(&self, prepared: &mut Prepared, required: &Requirement) -> Result<(), RunExit> {
        prepared.run.register();
        let signals = prepared.run.signals().clone();
        let mut changes = self.changes.clone();
        let mut wake = Wake::Decided;
        loop {
            let is_due = match wake {
                Wake::Decided => {
                    self.follow_definition(prepared, required).await?;
                    true
                }
                Wake::ToolsChanged => self.follow_definition(prepared, required).await?,
                // Many calls may wait, so the row is read only when something has happened.
                Wake::Time => self.left(&prepared.run).is_zero(),
            };
            if is_due {
                let row = self.read(&prepared.run).await?;
                if self.apply(prepared, row).await? {
                    return Ok(());
                }
            }
            let run = &prepared.run;
            let until = Instant::now() + self.left(run).min(MAX_SLEEP);
            let next = async {
                tokio::select! {
                    () = signals.decided.notified() => Wake::Decided,
                    // The registry lives as long as the engine.
                    _ = changes.changed() => Wake::ToolsChanged,
                    () = tokio::time::sleep_until(until) => Wake::Time,
                }
            };
            wake = match self.race(run).run(next).await {
                Ok(wake) => wake,
                // Only a cancellation ends the call; it stays as it is when the service stops.
                Err(Interrupt::Cancelled) => return Err(Interrupt::Cancelled.into()),
                Err(_) => return Err(RunExit::LeaveQueued),
            };
        }
    }

    /// Returns the time until a pending approval expires.
    fn left(&self, run: &CallRun) -> Duration {
        let pending = run.call().approval.as_deref().filter(|approval| approval.is_pending());
        let left = pending.map(|approval| approval.expires_at.millis_since(self.waiter.clock.now()));
        left.map_or(MAX_SLEEP, Duration::from_millis)
    }

    fn race<'r>(&'r self, run: &'r CallRun) -> Race<'r> {
        Race::new(run.cancel(), self.waiter.shutdown).left_on_drain(true, self.waiter.shutdown)
    }

    /// Closes the approval of a call that ends before it runs. Returns the end of the call: a decision that was recorded
    /// first counts. If the database fails, the end of the call says that it is closed.
    async fn close(&self, run: &mut CallRun, end: RunExit) -> RunExit {
        if run.signals().is_taken_over() {
            return RunExit::TakenOver;
        }
        while let Ok(row) = self.stores.approval(run.id()).await {
            let Some(row) = row else {
                // A concurrent decider must find the approval closed.
                let Some(row) = StoredApproval::of(run.call()) else { return end };
                match self.stores.insert_approval(&StoredApproval { is_void: true, ..row }, None).await {
                    Ok(()) => continue,
                    Err(_) => return end,
                }
            };
            if row.is_void {
                return end;
            }
            if !row.approval.is_pending() {
                return take_decided(run, row).map_or(end, RunExit::from);
            }
            let void = StoredApproval { is_void: true, ..row.clone() };
            if self.stores.change_approval(&row, &void, None, None, None).await.unwrap_or(true) {
                return end;
            }
        }
        end
    }

    async fn read(&self, run: &CallRun) -> Result<StoredApproval, RunExit> {
        let row = self.retried(run, || self.stores.approval(run.id())).await?;
        // The row is deleted with its call only.
        row.ok_or_else(|| Failure::execution(&run.call().name, "its approval was deleted").into())
    }

    /// Applies the stored approval to the call. Returns `true` if the call is approved.
    async fn apply(&self, prepared: &mut Prepared, row: StoredApproval) -> Result<bool, RunExit> {
        let Prepared { run, entry, .. } = &mut *prepared;
        if row.is_void {
            return Err(Failure::cancelled().into());
        }
        if row.approval.is_pending() && row.approval.expires_at <= self.waiter.clock.now() {
            let expired = Approval { status: ApprovalStatus::Expired, ..row.approval.clone() };
            let new = StoredApproval { approval: expired, ..row.clone() };
            let notice = self.notices.about(run.call(), &new.approval, Some(&entry.definition));
            let change = || self.stores.change_approval(&row, &new, None, notice.as_ref(), None);
            fault::pass(Point::BeforeApproval);
            let changed = self.retried(run, change).await?;
            fault::pass(Point::AfterApproval);
            self.notices.wake();
            let row = if changed { new } else { self.read(run).await? };
            return Box::pin(self.apply(prepared, row)).await;
        }
        if matches!(row.approval.status, ApprovalStatus::Rejected | ApprovalStatus::Expired)
            && let Some(failure) = take_decided(run, row.clone())
        {
            return Err(failure.into());
        }
        if let Some(arguments) = row.arguments {
            run.amend(|call| call.set_effective_arguments(Arc::new(arguments)));
        }
        // A changed definition may reach this node after the decision about it; it is followed before the call runs.
        let is_approved = !row.approval.is_pending() && row.approval.digest == digest_of(run, entry);
        if run.call().approval.as_deref() != Some(&row.approval) {
            self.record(run, row.approval).await?;
        }
        Ok(is_approved)
    }

    /// Asks again if the definition of the tool has changed: what was approved is not what would run. Returns `true` if
    /// the call has the changed definition.
    async fn follow_definition(&self, prepared: &mut Prepared, required: &Requirement) -> Result<bool, RunExit> {
        let Some(entry) = self.changed_entry(prepared)? else { return Ok(false) };
        let name = entry.name.clone();
        loop {
            let row = self.read(&prepared.run).await?;
            let is_over = row.approval.is_pending() && row.approval.expires_at <= self.waiter.clock.now();
            let is_open = matches!(row.approval.status, ApprovalStatus::Pending | ApprovalStatus::Approved);
            if row.is_void || is_over || !is_open {
                // What was decided first counts, also before a change.
                return Ok(false);
            }
            let given = row.arguments.clone().map(Arc::new).or(prepared.run.call().effective_arguments.clone());
            let given = given.unwrap_or_default();
            let checked = arguments::checked(&entry, &given, None).map_err(|failure| RunExit::from(*failure))?;
            prepared.run.amend(|call| call.add_checked(checked.arguments, checked.coerced));
            // A policy may forbid what the new definition makes of the arguments.
            let decided = self.policies.check(&mut prepared.run, &entry).await;
            decided.map_err(|failure| RunExit::from(*failure))?;
            let approval = self.request(&prepared.run, &entry, required);
            if approval.digest == row.approval.digest {
                // An editor, or an earlier run of the call, has requested it already.
                prepared.entry = entry;
                return Ok(true);
            }
            let effective = prepared.run.call().effective_arguments.as_deref();
            let arguments = row.arguments.as_ref().and(effective).cloned();
            let new = StoredApproval { approval: approval.clone(), arguments, ..row.clone() };
            let notice = self.notices.about(prepared.run.call(), &approval, Some(&entry.definition));
            let change = || self.stores.change_approval(&row, &new, None, notice.as_ref(), None);
            if !self.retried(&prepared.run, change).await? {
                continue;
            }
            self.notices.wake();
            tracing::info!(id = %prepared.run.id(), tool = &*name, "a changed tool needs a new approval");
            prepared.entry = entry;
            return self.record(&mut prepared.run, approval).await.map(|()| true);
        }
    }

    /// Returns the current entry of the tool if its revision is not that of the digest.
    fn changed_entry(&self, prepared: &Prepared) -> Result<Option<Arc<Entry>>, RunExit> {
        let (run, call) = (&prepared.run, prepared.run.call());
        let snapshot = run.origin().access.snapshot();
        let tool = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
        let Some(tool) = tool else { return Err(snapshot.not_found(&call.name, None).into()) };
        let is_known = call.approval.as_ref().is_some_and(|known| known.digest == digest_of(run, &prepared.entry));
        if is_known && tool.made.revision == prepared.entry.made.revision {
            return Ok(None);
        }
        match tool.entry() {
            Ok(entry) if call.approval.as_ref().is_some_and(|it| it.digest == digest_of(run, &entry)) => Ok(None),
            Ok(entry) => Ok(Some(entry)),
            Err(_) => Err(Failure::unavailable(&call.name).into()),
        }
    }

    /// Repeats an access to the database until it succeeds or the call is interrupted.
    async fn retried<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        run: &CallRun,
        access: impl Fn() -> F,
    ) -> Result<T, RunExit> {
        let work = repeat_until_done(run.id(), "an approval", access);
        self.race(run).work_first().run(work).await.map_err(|interrupt| match interrupt {
            Interrupt::Cancelled => interrupt.into(),
            _ => RunExit::LeaveQueued,
        })
    }
}

/// Shows a decided approval in the call. Returns the failure of a call that was rejected or has expired.
fn take_decided(run: &mut CallRun, row: StoredApproval) -> Option<Failure> {
    let StoredApproval { approval, arguments, .. } = row;
    if let Some(arguments) = arguments {
        run.amend(|call| call.set_effective_arguments(Arc::new(arguments)));
    }
    let failure = match approval.status {
        ApprovalStatus::Rejected => Some(Failure::approval_denied(&run.call().name, approval.rejection())),
        ApprovalStatus::Expired => Some(Failure::approval_expired(&run.call().name)),
        ApprovalStatus::Pending | ApprovalStatus::Approved => None,
    };
    let _ = run.amend(|call| call.set_approval(approval));
    failure
}

/// Returns the digest of what would run.
fn digest_of(run: &CallRun, entry: &Entry) -> String {
    let arguments = run.call().effective_arguments.as_deref().unwrap_or(&serde_json::Value::Null);
    digest(&run.call().name, arguments, entry.made.revision.unsigned_abs())
}
