//! One job to its end: wait for a slot, record where that must come first, run, convert, check, settle.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::Instant;

use super::attempt::{Attempts, Ended};
use super::cached::{Looked, Lookup};
use super::equip::Equipper;
use super::gather::Gatherer;
use super::hooked::CallHooks;
use super::interrupt::{ANNOUNCE_AFTER, Deadline, Race};
use super::job::{Begin, Job, Next, Stop};
use super::last_result::LastResult;
use super::observed::{call_span, note_end};
use super::output::check_output;
use super::recorder::Recorded;
use super::rest::Backoff;
use super::{Engine, Settings, retry};
use crate::dispatch::{Place, Slot, Wanted};
use crate::domain::limits::Bounds;
use crate::domain::tool::CacheSpec;
use crate::domain::{Call, Code, Failure, Outcome};
use crate::executor::images;
use crate::executor::instances::CallEnd;
use crate::fault::{self, Point};
use crate::registry::Entry;
use crate::store::journal::{Change, JournalError};
use crate::telemetry::trace::Span;

/// Whether the start of an attempt is on disk.
enum Ahead {
    /// It is, so the tool may run.
    Recorded,
    /// Only after the caller was told that it could not be recorded: the tool must not run.
    Late,
    /// It never will be.
    Refused(JournalError),
}

impl Engine {
    /// Runs a job to its end, and returns whether its caller was still waiting for it.
    pub(super) async fn run_to_end(&self, mut job: Box<Job>) -> Recorded {
        let mut span = call_span(&self.settings.tracer, &job);
        if let Some(own) = span.traceparent() {
            job.traceparent = Some(own);
        }
        let call = &job.call;
        let context = std::mem::take(&mut job.context);
        let context = context.with_call(call.id, &call.call_id, &call.name, job.traceparent.clone());
        context.scope(self.run_and_settle(job, &mut span)).await
    }

    /// Returns whether its caller was still waiting for its end.
    async fn run_and_settle(&self, mut job: Box<Job>, span: &mut Span) -> Recorded {
        let end = match self.run(&mut job).await {
            Ok(outcome) => Stop::With(outcome),
            // Boxed: few calls come this way.
            Err(Stop::With(outcome)) if job.may_have_result() => {
                let Self { stores, ids, shutdown, settings, .. } = self;
                let Settings { node, store_patience, .. } = settings;
                let last = LastResult { stores, ids, node, patience: *store_patience, shutdown };
                Box::pin(last.find(&mut job, outcome)).await
            }
            Err(stop) => stop,
        };
        let end = match end {
            Stop::With(mut outcome) => {
                let bounds = job.call.limits.map_or_else(Bounds::default, |limits| limits.output());
                outcome.truncate(&bounds, job.call.id);
                job.call.has_posted_result |= job.handle.outside.is_taken();
                Stop::With(outcome)
            }
            end => end,
        };
        // Whatever is posted from now on comes too late.
        drop(job.handle.outside.close());
        let now = self.clock.moment();
        let stored = match &end {
            Stop::With(outcome) => self.call_hooks().persist(&mut job, outcome, now).await,
            Stop::Left | Stop::Taken => None,
        };
        // Its way ends here; what is kept for it is freed once it is on disk.
        let Job { mut call, mut recorder, registration, holds, turn, .. } = *job;
        match end {
            Stop::With(outcome) => match call.settle(*outcome, now) {
                Ok(()) => {
                    let is_told = call.callback_url.is_some();
                    let told = recorder.settle(Arc::new(call), stored).await;
                    if is_told {
                        self.settings.callbacks_kick.notify_one();
                    }
                    if let Some(told) = told {
                        note_end(span, &told);
                        self.call_hooks().after(&job.access, &told);
                    }
                }
                Err(error) => tracing::error!(id = %call.id, %error, "a call was settled twice"),
            },
            Stop::Left => recorder.leave(),
            Stop::Taken => Box::pin(recorder.tell_stored(&call)).await,
        }
        drop((registration, holds, turn));
        recorder.end()
    }

    async fn run(&self, job: &mut Job) -> Result<Box<Outcome>, Stop> {
        if let Some(draft) = job.handle.draft.clone() {
            // Boxed: few calls come this way.
            let Settings { limits, silence, .. } = &self.settings;
            let gatherer = Gatherer { room: &self.room, limits, silence: *silence, shutdown: &self.shutdown };
            job.turn = Box::pin(gatherer.gather(job, &draft)).await?;
        }
        match &mut job.next {
            Next::Refuse(failure) => Err(failure.taken().into()),
            Next::Run(entry) => {
                let entry = entry.clone();
                self.call_hooks().before(job, &entry).await?;
                let Settings { secrets, vault, .. } = &self.settings;
                let Job { call, equipment, begin, .. } = &mut *job;
                let is_handed_out = matches!(begin, Begin::Outside | Begin::Lost);
                let equipper = Equipper { secrets, vault };
                let equipped = equipper.equip(call, equipment, &entry, *begin == Begin::Start, is_handed_out);
                if job.begin == Begin::Lost {
                    return Err(Failure::outcome_unknown(&entry.name).into());
                }
                equipped.map_err(|failure| *failure)?;
                match entry.definition.cache {
                    // Boxed: few calls come this way.
                    Some(cache) => Box::pin(self.run_or_reuse(job, &entry, cache)).await,
                    None => self.carry_out(job, &entry).await,
                }
            }
        }
    }

    /// Takes over the result of an equal call, or runs and keeps a good result for later ones.
    async fn run_or_reuse(&self, job: &mut Job, entry: &Arc<Entry>, cache: CacheSpec) -> Result<Box<Outcome>, Stop> {
        let Self { results, clock, live, shutdown, .. } = self;
        let flight = match (Lookup { results, clock, live, shutdown }).find(job, entry, cache).await? {
            Looked::Kept(outcome) => return Ok(outcome),
            Looked::Run(flight) => flight,
        };
        let outcome = self.carry_out(job, entry).await?;
        if let Some(flight) = flight.filter(|_| !outcome.is_error()) {
            flight.land(Arc::new((*outcome).clone()), Duration::from_millis(cache.ttl_ms)).await;
        }
        Ok(outcome)
    }

    async fn carry_out(&self, job: &mut Job, entry: &Arc<Entry>) -> Result<Box<Outcome>, Stop> {
        if job.handle.cancel.is_cancelled() {
            return Err(Failure::cancelled().into());
        }
        if job.begin == Begin::Start {
            self.settings.rates.admit(&job.call, entry).map_err(|failure| *failure)?;
        }
        // What few calls come to is boxed, here and below: a future is as large as the largest of its parts.
        let _slot = match job.place.take().or_else(|| self.queue(job, entry)) {
            Some(place) => Some(Box::pin(self.slot(job, place)).await?),
            None => None,
        };
        job.call_end = entry.instances.as_ref().map(|pool| CallEnd::of(pool.clone(), job.call.id));
        if job.begin == Begin::Start
            && let Some(paused) = self.pauses.of(&job.call.tenant, &entry.name)
        {
            let left_ms = self.pauses.left_ms(&paused);
            return Err(Failure::paused(&entry.name, paused.timeouts, left_ms).into());
        }
        match job.begin {
            Begin::Start => self.start(job, entry).await?,
            Begin::Again => {
                Box::pin(self.backoff().resume(job)).await?;
                Box::pin(self.start_again(job, entry, None)).await?;
            }
            Begin::Outside | Begin::Lost => {}
        }
        loop {
            fault::pass(Point::BeforeRun);
            let ended = self.attempts().run(job, entry).await;
            fault::pass(Point::AfterRun);
            let failure = match ended {
                Ended::With(outcome) => {
                    self.pauses.note(&job.call.tenant, &entry.name, false);
                    let outcome = check_output(entry, outcome);
                    if !images::has_any(&outcome) {
                        return Ok(outcome);
                    }
                    let race = Race::against_cancel(&job.handle.cancel).work_first();
                    return Ok(race.run(images::fitted(outcome).boxed()).await?);
                }
                Ended::Failed(failure) => *failure,
                Ended::Cancelled => return Err(Failure::cancelled().into()),
                Ended::Stopping if job.is_left_at_once() => return Err(Stop::Left),
                Ended::Stopping => return Err(Failure::shutting_down().into()),
                Ended::Taken => return Err(Stop::Taken),
            };
            self.pauses.note(&job.call.tenant, &entry.name, failure.code == Code::ToolTimeout);
            let spec = job.call.retry.over(&entry.definition.retry);
            let random = retry::random_of(self.ids.next());
            let wait = retry::wait(&entry.definition, &spec, job.call.attempts, &failure, random);
            let Some(wait) = wait else { return Err(failure.into()) };
            Box::pin(self.backoff().rest(job, wait, spec.max_attempts, &failure)).await?;
            job.begin = Begin::Again;
            Box::pin(self.start_again(job, entry, Some(failure))).await?;
        }
    }

    fn call_hooks(&self) -> CallHooks<'_> {
        let Self { clock, live, shutdown, tasks, settings, .. } = self;
        CallHooks { hooks: &settings.hooks, clock, live, shutdown, tasks }
    }

    fn attempts(&self) -> Attempts<'_> {
        let Settings { metrics, tracer, .. } = &self.settings;
        let Self { clock, live, shutdown, tasks, .. } = self;
        Attempts { clock, live, shutdown, tasks, metrics, tracer }
    }

    fn backoff(&self) -> Backoff<'_> {
        Backoff { clock: &self.clock, live: &self.live, shutdown: &self.shutdown }
    }

    /// The job's place in the queue, if it needs one. Most may run at once.
    pub(super) fn queue(&self, job: &Job, entry: &Entry) -> Option<Place> {
        let max_concurrency = job.call.limits.and_then(|limits| limits.max_concurrency);
        // Work that is done outside takes nothing of this node.
        let counts = job.is_queued && !entry.works_outside();
        if max_concurrency.is_none() && !counts {
            return None;
        }
        let tool = slots_of(&job.call, entry);
        Some(self.slots.queue(Wanted { tool, max_concurrency, counts, priority: job.call.priority, call: job.call.id }))
    }

    /// Waits until the call may run.
    async fn slot(&self, job: &mut Job, mut place: Place) -> Result<Slot, Stop> {
        let waited_ms = job.call.waited_ms(self.clock.moment());
        let queue_timeout = job.call.limits.and_then(|limits| limits.queue_timeout_ms);
        let queue_timeout = queue_timeout.filter(|_| job.begin == Begin::Start);
        let deadline = queue_timeout.and_then(|limit_ms| Deadline::of(limit_ms, waited_ms, "queue_timeout_ms"));
        let announce_at = (!job.recorder.has_announced()).then(|| Instant::now() + ANNOUNCE_AFTER);
        let (cancel, is_left) = (job.handle.cancel.clone(), job.is_queued);
        let race = Race::new(&cancel, &self.shutdown).left_on_drain(is_left, &self.shutdown).until(deadline);
        let slot = race.run_announcing(announce_at, job.announce(&self.live), place.slot()).await?;
        if job.begin == Begin::Start {
            let waited_ms = job.call.waited_ms(self.clock.moment());
            self.settings.metrics.waited(Duration::from_millis(waited_ms));
        }
        Ok(slot)
    }

    /// The start of a tool that is not read-only is on disk before the tool runs, and so is any start of a call that is on disk
    /// already: what a crash leaves behind is then known, and how often the tool has run.
    async fn start(&self, job: &mut Job, entry: &Entry) -> Result<(), Stop> {
        job.call.start(self.clock.moment()).map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        if entry.definition.annotations.read_only && !job.recorder.has_announced() {
            return Ok(());
        }
        job.register(&self.live);
        let change = job.recorder.change(&job.call);
        let unrecorded = match Box::pin(self.write_ahead(job, entry, change)).await? {
            Ahead::Recorded => return Ok(()),
            Ahead::Late => "The call could not be recorded in time and was not run".to_owned(),
            Ahead::Refused(error) => format!("The call was not run: {error}"),
        };
        job.call.never_ran();
        Err(Failure::overloaded(&unrecorded).into())
    }

    /// Begins the next attempt, after one that failed so; without `failed`, the process that ran it was lost.
    async fn start_again(&self, job: &mut Job, entry: &Entry, failed: Option<Failure>) -> Result<(), Stop> {
        job.call.start_again().map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        job.call.tip = Some(format!("Attempt {}", job.call.attempts));
        let change = job.status_change();
        if let Ahead::Recorded = self.write_ahead(job, entry, change).await? {
            return Ok(());
        }
        // An earlier attempt has run, so its failure is the end of the call.
        job.call.never_ran();
        let lost = || Failure::execution(&job.call.name, "its run was lost, and the next one could not be recorded");
        Err(failed.unwrap_or_else(lost).into())
    }

    /// Writes that the tool is about to run. If that cannot be done in time, it is not run: the caller may send it again.
    async fn write_ahead(&self, job: &mut Job, entry: &Entry, change: Change) -> Result<Ahead, Stop> {
        fault::pass(Point::BeforeAccept);
        let written = job.recorder.write(change).await;
        fault::pass(Point::AfterAccept);
        match written {
            Ok(Recorded::InTime) => Ok(Ahead::Recorded),
            // Whoever sends it again finds it by its key or by its id, or it changes nothing.
            Ok(Recorded::Late) if job.is_accepted_first || entry.definition.annotations.read_only => {
                Ok(Ahead::Recorded)
            }
            Ok(Recorded::Late) => Ok(Ahead::Late),
            Err(JournalError::Fenced) => Err(Stop::Taken),
            Err(error) => Ok(Ahead::Refused(error)),
        }
    }
}

/// The name of the slots that a call takes.
fn slots_of(call: &Call, entry: &Entry) -> Arc<str> {
    match entry.owner(&call.tenant) {
        Some(owner) => format!("{}\0{}", owner.as_str(), entry.name).into(),
        None => entry.name.clone(),
    }
}
