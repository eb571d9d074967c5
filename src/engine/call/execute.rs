//! Step 5, execute: runs attempts with backoff in between, each recorded before it runs.

use futures_util::future::FutureExt;

use super::admit::Admitted;
use super::attempt::Attempts;
use super::hand_out::{Claimed, HandOut};
use super::interrupt::Race;
use super::lease_watch::LeaseWatch;
use super::recorder::Recorded;
use super::retry;
use super::state::{Executed, Ongoing, RunExit, StartMode};
use super::wait::Waiter;
use crate::domain::call::OUTPUT_VIOLATIONS;
use crate::domain::tool::{OutputCheck, WorkerSpec};
use crate::domain::{Code, Failure, IdGenerator, Outcome};
use crate::engine::at_work::AtWork;
use crate::engine::pauses::Pauses;
use crate::executor::images;
use crate::fault::{self, Point};
use crate::registry::Entry;
use crate::store::journal::{Change, JournalError};

/// The fifth step of a call.
pub(super) struct Execution<'a> {
    pub at_work: &'a AtWork,
    pub attempts: Attempts<'a>,
    pub waiter: Waiter<'a>,
    pub hand_out: HandOut<'a>,
    pub pauses: &'a Pauses,
    pub ids: &'a IdGenerator,
}

impl Execution<'_> {
    /// Runs the tool of a call until it has a result or no attempt is left.
    pub async fn execute(&self, admitted: Admitted) -> Executed {
        let Admitted { mut job, entry, slot } = admitted;
        let end = self.end_of(&mut job, &entry).await.map_or_else(|end| end, RunExit::Done);
        if let (RunExit::LeaveQueued, Some(losses)) = (&end, job.losses) {
            self.at_work.end(job.call.id, losses).await;
        }
        drop(slot);
        Executed { job, entry: Some(entry), end }
    }

    /// Runs attempts until the call has a result.
    ///
    /// # Errors
    /// Returns the end of a call that ends without a result of its tool.
    async fn end_of(&self, job: &mut Ongoing, entry: &Entry) -> Result<Box<Outcome>, RunExit> {
        let worker = entry.definition.worker();
        match job.begin {
            StartMode::Start => {
                if let Some(spec) = worker {
                    // Boxed because few calls wait for a worker.
                    Box::pin(self.hand_out.hand_out(job, entry, spec)).await?;
                }
                self.start(job, entry).await?;
            }
            StartMode::AwaitResult if worker.is_some() => Box::pin(self.rejoin(job, entry, worker)).await?,
            StartMode::Rerun => {
                Box::pin(retry::resume_backoff(self.waiter, job)).await?;
                Box::pin(self.start_again(job, entry, None)).await?;
            }
            StartMode::AwaitResult | StartMode::Lost => {}
        }
        if let Some(losses) = job.losses.filter(|_| !entry.works_outside() && job.begin != StartMode::AwaitResult) {
            // After the start is recorded: a call that must not run twice ends as `OUTCOME_UNKNOWN` instead.
            self.at_work.begin(job.call.id, losses).await;
            fault::pass(Point::AfterWorkNote);
        }
        loop {
            fault::pass(Point::BeforeRun);
            let ended = match worker.map(|spec| self.hand_out.watch(job, entry, spec)) {
                None => self.attempts.run(job, entry).await,
                Some(watch) => Box::pin(watched(&watch, self.attempts.run(job, entry))).await,
            };
            fault::pass(Point::AfterRun);
            let failure = match ended? {
                Ok(outcome) => {
                    self.pauses.note(&job.call.tenant, &entry.name, false);
                    return self.result_of(job, entry, outcome).await;
                }
                Err(failure) => *failure,
            };
            self.pauses.note(&job.call.tenant, &entry.name, failure.code == Code::ToolTimeout);
            if let Some(spec) = worker.filter(|_| failure.code == Code::OutcomeUnknown && entry.may_repeat()) {
                Box::pin(self.hand_out.hand_out_again(job, entry, spec)).await?;
                job.begin = StartMode::Rerun;
                Box::pin(self.start_again(job, entry, Some(failure))).await?;
                continue;
            }
            let spec = job.call.retry.over(&entry.definition.retry);
            let random = retry::random_of(self.ids.next());
            let wait = retry::wait(&entry.definition, &spec, job.call.attempts, &failure, random);
            let Some(wait) = wait else { return Err(failure.into()) };
            if worker.is_some() {
                Box::pin(self.hand_out.withdraw(job)).await?;
            }
            Box::pin(retry::wait_backoff(self.waiter, job, wait, spec.max_attempts, &failure)).await?;
            if let Some(spec) = worker {
                Box::pin(self.hand_out.hand_out_again(job, entry, spec)).await?;
            }
            job.begin = StartMode::Rerun;
            Box::pin(self.start_again(job, entry, Some(failure))).await?;
        }
    }

    /// Continues with a call that a worker may have had before a restart.
    async fn rejoin(&self, job: &mut Ongoing, entry: &Entry, worker: Option<&WorkerSpec>) -> Result<(), RunExit> {
        let Some(spec) = worker else { return Ok(()) };
        if self.hand_out.rejoin(job, entry, spec).await? == Claimed::New {
            job.begin = StartMode::Rerun;
            self.start_again(job, entry, None).await?;
        }
        Ok(())
    }

    /// Converts the outcome of an attempt to the result of the call: checks it against the output schema and scales
    /// images for models.
    async fn result_of(&self, job: &Ongoing, entry: &Entry, outcome: Box<Outcome>) -> Result<Box<Outcome>, RunExit> {
        let outcome = check_output(entry, outcome);
        if !images::has_any(&outcome) {
            return Ok(outcome);
        }
        let race = Race::against_cancel(&job.handle.cancel).work_first();
        Ok(race.run(images::fitted(outcome).boxed()).await?)
    }

    /// Starts the first attempt. The start is committed before the tool runs, unless the tool is read-only and the call
    /// is not stored yet. After a crash the row therefore shows whether, and how often, the tool has run.
    async fn start(&self, job: &mut Ongoing, entry: &Entry) -> Result<(), RunExit> {
        let (now, has_worker) = (self.waiter.clock.moment(), entry.definition.worker().is_some());
        let started = if has_worker { job.call.start_outside(now) } else { job.call.start(now) };
        started.map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        if has_worker {
            // The claim is committed. If the call takes longer, its start is recorded like that of a read-only tool.
            return Ok(());
        }
        if entry.definition.annotations.read_only && !job.recorder.has_announced() {
            return Ok(());
        }
        job.register(self.waiter.live);
        let change = job.recorder.change(&job.call);
        let recorded = Box::pin(self.write_ahead(job, entry, change)).await?;
        recorded.map_err(|reason| {
            job.call.never_ran();
            Failure::overloaded(&reason).into()
        })
    }

    /// Starts a further attempt after the failure `failed`. `None` means that the process of the previous attempt was
    /// lost.
    async fn start_again(&self, job: &mut Ongoing, entry: &Entry, failed: Option<Failure>) -> Result<(), RunExit> {
        job.call.start_again().map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        let tip = format!("Attempt {}", job.call.attempts);
        job.call.set_tip(tip);
        let change = job.status_change(self.waiter.clock.now());
        let recorded = self.write_ahead(job, entry, change).await?;
        recorded.map_err(|_| {
            job.call.never_ran();
            // The tool has run in an earlier attempt, so the call ends with that failure.
            let lost = "its run was lost, and the next attempt could not be recorded";
            failed.unwrap_or_else(|| Failure::execution(&job.call.name, lost)).into()
        })
    }

    /// Records that the tool is about to run. Returns the reason why it must not run. If the commit takes too long, the
    /// caller may repeat the call.
    async fn write_ahead(
        &self,
        job: &mut Ongoing,
        entry: &Entry,
        change: Change,
    ) -> Result<Result<(), String>, RunExit> {
        fault::pass(Point::BeforeAccept);
        let written = job.recorder.write(change).await;
        fault::pass(Point::AfterAccept);
        match written {
            Ok(Recorded::InTime) => Ok(Ok(())),
            // Safe despite the delay: a repeated call is found by its key or id, or the tool is read-only.
            Ok(Recorded::Late) if job.is_accepted_first || entry.definition.annotations.read_only => Ok(Ok(())),
            Ok(Recorded::Late) => Ok(Err("The call could not be recorded in time and was not run".to_owned())),
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Ok(Err(format!("The call was not run: {error}"))),
        }
    }
}

/// Runs an attempt while the lease of its worker is watched.
async fn watched<T>(watch: &LeaseWatch<'_>, run: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        ended = run => ended,
        never = watch.run() => match never {},
    }
}

/// Checks a successful outcome against the output schema of the tool. Returns the outcome, or the failure that replaces
/// it.
pub(super) fn check_output(entry: &Entry, mut outcome: Box<Outcome>) -> Box<Outcome> {
    let Some(schema) = entry.output.as_ref().filter(|_| !outcome.is_error()) else { return outcome };
    let text = serde_json::Value::String(outcome.output.clone());
    let violations = schema.violations(outcome.structured.as_deref().unwrap_or(&text));
    if violations.is_empty() {
        return outcome;
    }
    let violations = serde_json::json!(violations);
    match entry.definition.output_check {
        OutputCheck::Warn => {
            outcome.metadata.insert(OUTPUT_VIOLATIONS.into(), violations);
            outcome
        }
        OutputCheck::Strict => {
            let details = std::mem::take(&mut outcome.details);
            Box::new(Outcome { details, ..Failure::result_invalid(&entry.name, violations).into() })
        }
    }
}
