//! Step 5, execute: runs attempts with backoff in between, each recorded before it runs.

use futures_util::future::FutureExt;

use super::attempt::{Attempt, Attempts, Resumed};
use super::permit::{WorkerPermit, WorkerPermits, WorkerTool};
use super::retry;
use super::run::CallRun;
use super::run_exit::RunExit;
use super::state::{Admitted, Executed};
use super::wait::Waiter;
use crate::engine::at_work::AtWork;
use crate::inputs::ExecutorInputs;
use crate::interrupt::Race;
use crate::pauses::Pauses;
use crate::registry::Entry;
use toolpost_core::domain::call::OUTPUT_VIOLATIONS;
use toolpost_core::domain::tool::OutputCheck;
use toolpost_core::domain::{Code, Failure, IdGenerator, Outcome};
use toolpost_core::fault::{self, Point};
use toolpost_tool::executor::images;

/// The fifth step of a call.
pub(super) struct Execution<'a> {
    pub at_work: &'a AtWork,
    pub attempts: Attempts<'a>,
    pub waiter: Waiter<'a>,
    pub permits: WorkerPermits<'a>,
    pub pauses: &'a Pauses,
    pub ids: &'a IdGenerator,
}

/// The way in which an attempt begins.
pub(super) enum Start {
    /// The first attempt of a call.
    First,
    /// A further attempt after this failure. `None` means that the process of the last attempt was lost.
    Again(Option<Failure>),
    /// The rest of an attempt that is worked on outside of this process, and was so before a restart: for this time, in
    /// milliseconds, if it is known.
    Resumed { elapsed_ms: Option<u64> },
}

impl Execution<'_> {
    /// Runs the tool of a call until it has a result or no attempt is left.
    pub async fn run(&self, mut admitted: Admitted, start: Start) -> Executed {
        let end = self.attempt_until_end(&mut admitted, start).await.map_or_else(|end| end, RunExit::Done);
        let Admitted { run, entry, inputs, slot } = admitted;
        if let (RunExit::LeaveQueued, Some(losses)) = (&end, run.losses()) {
            self.at_work.end(run.id(), losses).await;
        }
        drop(slot);
        Executed { run, entry: Some(entry), inputs, end }
    }

    /// Runs attempts until the call has a result.
    ///
    /// # Errors
    /// Returns the end of a call that ends without a result of its tool.
    async fn attempt_until_end(&self, admitted: &mut Admitted, mut start: Start) -> Result<Box<Outcome>, RunExit> {
        let Admitted { run, entry, inputs, .. } = admitted;
        let mut is_noted = false;
        loop {
            let resumed = self.begin(run, entry, inputs, start).await?;
            if let Some(losses) = run.losses().filter(|_| !is_noted && resumed.is_none() && !entry.works_outside()) {
                // After the start is recorded: a call that must not run twice ends as `OUTCOME_UNKNOWN` instead.
                self.at_work.begin(run.id(), losses).await;
                is_noted = true;
                fault::pass(Point::AfterWorkNote);
            }
            let failure = match self.attempt(run, Attempt { entry, inputs, resumed }).await? {
                Ok(outcome) => return self.result_of(run, entry, outcome).await,
                Err(failure) => *failure,
            };
            start = Start::Again(Some(self.back_off(run, entry, failure).await?));
        }
    }

    /// Begins an attempt. It is recorded before the tool runs, except the first one of a read-only call. An attempt of a
    /// worker's tool needs a worker first. Returns the attempt that has begun before a restart, if it is still under way.
    async fn begin(
        &self,
        run: &mut CallRun,
        entry: &Entry,
        inputs: &ExecutorInputs,
        start: Start,
    ) -> Result<Option<Resumed>, RunExit> {
        let (clock, permits) = (self.waiter.clock, &self.permits);
        let worker = entry.definition.worker().map(|spec| WorkerTool { entry, spec, inputs });
        match (start, worker) {
            (Start::First, None) => run.start(clock.moment()).await?,
            // The futures for workers are boxed because few calls wait for a worker.
            (Start::First, Some(tool)) => match Box::pin(permits.acquire(run, tool)).await? {
                WorkerPermit::Reserved(slot) => Box::pin(permits.start(run, tool, slot)).await?,
                WorkerPermit::Claimed => run.start_outside(clock.moment())?,
            },
            (Start::Again(failed), worker) => {
                match failed {
                    None => Box::pin(retry::resume_backoff(self.waiter, run)).await?,
                    Some(_) if worker.is_some() => Box::pin(permits.announce_next(run)).await?,
                    Some(_) => {}
                }
                if let Some(tool) = worker {
                    Box::pin(permits.acquire(run, tool)).await?;
                }
                Box::pin(run.start_again(clock.now(), failed)).await?;
            }
            (Start::Resumed { elapsed_ms }, worker) => {
                if worker.is_some() {
                    run.posted().open();
                    run.register();
                }
                return Ok(Some(Resumed { elapsed_ms: elapsed_ms.unwrap_or_else(|| self.since_start(run)) }));
            }
        }
        Ok(None)
    }

    /// Runs one attempt. The lease of its worker is watched meanwhile.
    async fn attempt(
        &self,
        run: &mut CallRun,
        attempt: Attempt<'_>,
    ) -> Result<Result<Box<Outcome>, Box<Failure>>, RunExit> {
        let Attempt { entry, .. } = attempt;
        fault::pass(Point::BeforeRun);
        let ended = match entry.definition.worker().map(|spec| self.permits.watch(run, entry, spec)) {
            None => self.attempts.run(run, attempt).await,
            Some(watch) => {
                let id = run.id();
                Box::pin(self.permits.watched(watch, id, self.attempts.run(run, attempt))).await
            }
        };
        fault::pass(Point::AfterRun);
        let ended = ended?;
        let has_timed_out = ended.as_ref().is_err_and(|failure| failure.code == Code::ToolTimeout);
        self.pauses.note(&run.call().tenant, &entry.name, has_timed_out);
        Ok(ended)
    }

    /// Waits until the next attempt after a failure, and returns the failure.
    ///
    /// # Errors
    /// Returns the end of a call that is not retried, or that is interrupted.
    async fn back_off(&self, run: &mut CallRun, entry: &Entry, failure: Failure) -> Result<Failure, RunExit> {
        let is_for_worker = entry.definition.worker().is_some();
        if is_for_worker && failure.code == Code::OutcomeUnknown && entry.may_repeat() {
            // Its worker is lost, so another one gets the call at once.
            return Ok(failure);
        }
        let spec = run.call().retry.over(&entry.definition.retry);
        let random = retry::random_of(self.ids.next());
        let wait = retry::wait(&entry.definition, &spec, run.call().attempts, &failure, random);
        let Some(wait) = wait else { return Err(failure.into()) };
        if is_for_worker {
            Box::pin(self.permits.release(run)).await?;
        }
        Box::pin(retry::wait_backoff(self.waiter, run, wait, spec.max_attempts, &failure)).await?;
        Ok(failure)
    }

    /// Returns the time since the start of the call, in milliseconds.
    fn since_start(&self, run: &CallRun) -> u64 {
        run.call().started_at.map_or(0, |started| self.waiter.clock.now().millis_since(started))
    }

    /// Converts the outcome of an attempt to the result of the call: checks it against the output schema and scales
    /// images for models.
    async fn result_of(&self, run: &CallRun, entry: &Entry, outcome: Box<Outcome>) -> Result<Box<Outcome>, RunExit> {
        let outcome = check_output(entry, outcome);
        if !images::has_any(&outcome) {
            return Ok(outcome);
        }
        let race = Race::against_cancel(run.cancel()).work_first();
        Ok(race.run(images::fitted(outcome).boxed()).await?)
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
