//! Step 5, execute: runs attempts with backoff in between, each recorded before it runs.

use futures_util::future::FutureExt;

use super::admit::Admitted;
use super::attempt::{AttemptEnd, Attempts};
use super::backoff::Backoff;
use super::inject::ExecutorInputs;
use super::interrupt::Race;
use super::output::check_output;
use super::recorder::Recorded;
use super::retry;
use super::state::{Executed, Ongoing, RunExit, StartMode};
use crate::domain::{Clock, Code, Failure, IdGenerator, Outcome};
use crate::engine::live::LiveCalls;
use crate::engine::pauses::Pauses;
use crate::executor::images;
use crate::fault::{self, Point};
use crate::registry::Entry;
use crate::store::journal::{Change, JournalError};

/// The result of recording the start of an attempt.
enum Ahead {
    /// The start is committed, so the tool may run.
    Recorded,
    /// The start was committed after the caller received a failure, so the tool must not run.
    Late,
    /// The journal rejected the start.
    Refused(JournalError),
}

/// The fifth step of a call.
#[derive(Debug)]
pub(super) struct Execution<'a> {
    pub attempts: Attempts<'a>,
    pub backoff: Backoff<'a>,
    pub pauses: &'a Pauses,
    pub clock: &'a Clock,
    pub ids: &'a IdGenerator,
    pub live: &'a LiveCalls,
}

impl Execution<'_> {
    /// Runs the tool of a call until it has a result or no attempt is left.
    pub async fn execute(&self, admitted: Admitted) -> Executed {
        let Admitted { mut job, entry, inputs, turn, slot, instance_guard } = admitted;
        let end = self.end_of(&mut job, &entry, &inputs).await.unwrap_or_else(|end| end);
        drop(slot);
        Executed { job, entry: Some(entry), inputs, turn, instance_guard, end }
    }

    /// Runs attempts until the call has a result or ends early. Both variants are ends of the call; `Err` is an early one.
    async fn end_of(&self, job: &mut Ongoing, entry: &Entry, inputs: &ExecutorInputs) -> Result<RunExit, RunExit> {
        match job.begin {
            StartMode::Start => self.start(job, entry).await?,
            StartMode::Rerun => {
                Box::pin(self.backoff.resume(job)).await?;
                Box::pin(self.start_again(job, entry, None)).await?;
            }
            StartMode::AwaitResult | StartMode::Lost => {}
        }
        loop {
            fault::pass(Point::BeforeRun);
            let ended = self.attempts.run(job, entry, inputs).await;
            fault::pass(Point::AfterRun);
            let failure = match ended {
                AttemptEnd::Answered(outcome) => {
                    self.pauses.note(&job.call.tenant, &entry.name, false);
                    return Ok(RunExit::Done(self.result_of(job, entry, outcome).await?));
                }
                AttemptEnd::Failed(failure) => *failure,
                AttemptEnd::Cancelled => return Err(Failure::cancelled().into()),
                AttemptEnd::ShuttingDown if job.is_left_at_once() => return Err(RunExit::LeaveQueued),
                AttemptEnd::ShuttingDown => return Err(Failure::shutting_down().into()),
                AttemptEnd::Taken => return Err(RunExit::TakenOver),
            };
            self.pauses.note(&job.call.tenant, &entry.name, failure.code == Code::ToolTimeout);
            let spec = job.call.retry.over(&entry.definition.retry);
            let random = retry::random_of(self.ids.next());
            let wait = retry::wait(&entry.definition, &spec, job.call.attempts, &failure, random);
            let Some(wait) = wait else { return Err(failure.into()) };
            Box::pin(self.backoff.wait_backoff(job, wait, spec.max_attempts, &failure)).await?;
            job.begin = StartMode::Rerun;
            Box::pin(self.start_again(job, entry, Some(failure))).await?;
        }
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
        job.call.start(self.clock.moment()).map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        if entry.definition.annotations.read_only && !job.recorder.has_announced() {
            return Ok(());
        }
        job.register(self.live);
        let change = job.recorder.change(&job.call);
        let unrecorded = match Box::pin(self.write_ahead(job, entry, change)).await? {
            Ahead::Recorded => return Ok(()),
            Ahead::Late => "The call could not be recorded in time and was not run".to_owned(),
            Ahead::Refused(error) => format!("The call was not run: {error}"),
        };
        job.call.never_ran();
        Err(Failure::overloaded(&unrecorded).into())
    }

    /// Starts a further attempt after the failure `failed`. `None` means that the process of the previous attempt was
    /// lost.
    async fn start_again(&self, job: &mut Ongoing, entry: &Entry, failed: Option<Failure>) -> Result<(), RunExit> {
        job.call.start_again().map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        let tip = format!("Attempt {}", job.call.attempts);
        job.call.set_tip(tip);
        let change = job.status_change();
        if let Ahead::Recorded = self.write_ahead(job, entry, change).await? {
            return Ok(());
        }
        // The tool has run in an earlier attempt, so the call ends with that failure.
        job.call.never_ran();
        let lost =
            || Failure::execution(&job.call.name, "its run was lost, and the next attempt could not be recorded");
        Err(failed.unwrap_or_else(lost).into())
    }

    /// Records that the tool is about to run. If this takes too long, the tool must not run, because the caller may
    /// repeat the call.
    async fn write_ahead(&self, job: &mut Ongoing, entry: &Entry, change: Change) -> Result<Ahead, RunExit> {
        fault::pass(Point::BeforeAccept);
        let written = job.recorder.write(change).await;
        fault::pass(Point::AfterAccept);
        match written {
            Ok(Recorded::InTime) => Ok(Ahead::Recorded),
            // Safe despite the delay: a repeated call is found by its key or id, or the tool is read-only.
            Ok(Recorded::Late) if job.is_accepted_first || entry.definition.annotations.read_only => {
                Ok(Ahead::Recorded)
            }
            Ok(Recorded::Late) => Ok(Ahead::Late),
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Ok(Ahead::Refused(error)),
        }
    }
}
