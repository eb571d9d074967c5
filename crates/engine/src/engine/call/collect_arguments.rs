//! Collection of streamed arguments: publishes the readable part as it grows, and completes the call when all arguments
//! have arrived.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use serde_json::Value;
use tokio::time::Instant;

use super::plan;
use super::run::{CallRun, Commit};
use super::run_exit::RunExit;
use super::state::{Next, Planned, StreamedArguments, limits_of};
use crate::arguments;
use crate::arguments::forward::resolve_tool;
use crate::arguments::stream::{ArgumentStream, CompleteArguments};
use crate::dispatch::{OrderGuard, OrderTicket};
use crate::interrupt::{Race, Shutdown};
use crate::memory::MemoryBudget;
use crate::registry::Entry;
use toolpost_core::domain::json::WeighedError;
use toolpost_core::domain::limits::ServerLimits;
use toolpost_core::domain::{CallRequest, Clock, Failure, Naming};
use toolpost_store::store::calls::CallFilter;
use toolpost_store::store::journal::JournalError;
use toolpost_tool::executor::ToolRole;

/// Minimum interval between two reads of partial arguments: 20 events a second.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum ratio of the interval between reads to the duration of a read, so that long arguments are read less often.
const READ_RATIO: u32 = 20;

/// Collects streamed arguments.
pub(super) struct ArgumentCollector<'a> {
    pub memory: &'a MemoryBudget,
    pub limits: &'a ServerLimits,
    /// Maximum time without a new chunk.
    pub silence: Duration,
    pub shutdown: &'a Shutdown,
    pub clock: &'a Clock,
}

impl ArgumentCollector<'_> {
    /// Waits until the arguments are complete and it is the call's turn. The returned guard must be held while the call
    /// runs.
    pub async fn collect_arguments(
        &self,
        planned: &mut Planned,
        streamed: StreamedArguments,
    ) -> Result<Option<OrderGuard>, RunExit> {
        let stream = &streamed.stream;
        let complete = self.receive(&mut planned.run, stream).await;
        stream.close();
        let CompleteArguments { arguments, ticket, recorded } = match complete {
            Ok(complete) => complete,
            Err(stop) => {
                self.save_partial(&mut planned.run, stream).await;
                return Err(stop);
            }
        };
        let arguments = arguments.unwrap_or_else(|| stream.arguments());
        self.resolve_arguments(planned, &streamed, arguments).await?;
        let Some(recorded) = recorded else {
            planned.run.publish_status(self.clock.now()).await;
            return self.await_order(planned, ticket).await;
        };
        match planned.run.begin_status(self.clock.now()).await {
            Ok(()) => {
                // The sender of the chunks may have disconnected.
                let _ = recorded.send(());
                self.await_order(planned, ticket).await
            }
            Err(JournalError::Fenced) => Err(RunExit::TakenOver),
            Err(error) => Err(Failure::overloaded(&format!("The call was not run: {error}")).into()),
        }
    }

    /// Records and publishes arguments that were never completed.
    async fn save_partial(&self, run: &mut CallRun, stream: &ArgumentStream) {
        let readable = stream.readable().unwrap_or_default();
        let came = stream.arguments();
        if came.as_str() != Some("") && run.amend(|call| call.keep(came, readable)).is_ok() {
            run.publish_status(self.clock.now()).await;
        }
    }

    /// Stores the complete arguments in the call, and decides whether it runs.
    async fn resolve_arguments(
        &self,
        planned: &mut Planned,
        streamed: &StreamedArguments,
        arguments: Value,
    ) -> Result<(), RunExit> {
        let arguments = Arc::new(arguments);
        // Invalid JSON is kept as text here; the check below reports it.
        let mut held = None;
        let has_memory = |weight: usize| self.memory.cover(&mut held, weight / 1024 * 2).is_ok();
        let parsed = match arguments::parse(&arguments, has_memory) {
            Err(WeighedError::TooHeavy) => {
                return Err(Failure::overloaded(
                    "No memory is available for the arguments of the call; it was not run",
                )
                .into());
            }
            parsed => parsed.unwrap_or_else(|_| arguments.clone()),
        };
        held.into_iter().for_each(|held| planned.run.keep_permit(Arc::new(held)));
        drop(arguments);
        let mut arguments = Arc::unwrap_or_clone(parsed);
        if planned.next.entry().is_some_and(|entry| entry.role == Some(ToolRole::Forward)) {
            arguments = forward_arguments(self.limits, planned, arguments, streamed);
        }
        let name = planned.run.call().name.clone();
        let complete = planned.run.amend(|call| call.complete(arguments));
        complete.map_err(|error| Failure::execution(&name, error.to_string()))?;
        let Some(entry) = planned.next.entry().cloned() else { return Ok(()) };
        let (arguments, vendor) = (planned.run.call().arguments.clone(), streamed.vendor);
        let (size, checking) = (planned.run.call().arguments_text.get().len(), entry.clone());
        let check = move || arguments::valid(&checking, &arguments, vendor, |_| true);
        let checked = arguments::check_without_blocking(&name, size, check).await;
        planned.next = match self.is_alone(planned, &entry).await {
            true => planned.run.amend(|call| plan::next(call, &entry, checked)).into(),
            false => Next::End(plan::must_run_alone(&entry.name).into(), None),
        };
        Ok(())
    }

    /// Returns `false` if the call must be the only one of its batch, and is not.
    async fn is_alone(&self, planned: &Planned, entry: &Entry) -> bool {
        let Some(batch_id) = planned.run.call().batch_id.filter(|_| entry.role == Some(plan::COMPLETION)) else {
            return true;
        };
        let filter = CallFilter { batch_id: Some(batch_id), limit: 2, ..CallFilter::default() };
        // Each call of a stream is committed before its arguments arrive, so the database knows them all.
        planned
            .run
            .origin()
            .access
            .store()
            .calls(&filter)
            .await
            .is_ok_and(|(calls, is_cut)| calls.len() <= 1 && !is_cut)
    }

    async fn await_order(&self, planned: &Planned, ticket: Option<OrderTicket>) -> Result<Option<OrderGuard>, RunExit> {
        let Some(ticket) = ticket.filter(|_| planned.next.entry().is_some()) else { return Ok(None) };
        let race = Race::new(planned.run.cancel(), self.shutdown).work_first();
        Ok(race.run(ticket.acquire()).await?)
    }

    async fn receive(&self, run: &mut CallRun, stream: &ArgumentStream) -> Result<CompleteArguments, RunExit> {
        let (silence, cancel) = (self.silence, run.cancel().clone());
        // Only one change is written at a time. Chunks that arrive in the meantime are merged.
        let mut writing: Fuse<Commit> = Fuse::terminated();
        let mut next_read = Instant::now();
        let end = loop {
            if let Some(end) = stream.take_outcome() {
                break end.map_err(|reason| Failure::broken_off(&run.call().name, &reason).into());
            }
            let (is_new, last_activity) = stream.poll_changes();
            let idle = writing.is_terminated();
            let next = async {
                tokio::select! {
                    biased;
                    written = &mut writing, if !idle => return written != Err(JournalError::Fenced),
                    () = tokio::time::sleep_until(next_read), if is_new && idle => {
                        let began = Instant::now();
                        let readable = stream.readable().filter(|readable| *readable != run.call().params);
                        if let Some(readable) = readable
                            && run.amend(|call| call.fill(readable)).is_ok()
                        {
                            writing = run.begin_status(self.clock.now()).fuse();
                        }
                        next_read = began + READ_INTERVAL.max(began.elapsed() * READ_RATIO);
                    }
                    () = stream.changed() => {}
                    // A keep-alive without new data may have arrived in the meantime.
                    () = tokio::time::sleep_until(last_activity + silence) => if stream.poll_changes().1 == last_activity {
                        stream.cut_off(&format!("no data was received for {} s", silence.as_secs_f32()));
                    },
                }
                true
            };
            match Race::new(&cancel, self.shutdown).run(next).await {
                Ok(true) => {}
                Ok(false) => break Err(RunExit::TakenOver),
                Err(interrupt) => break Err(interrupt.into()),
            }
        };
        if !writing.is_terminated() && writing.await == Err(JournalError::Fenced) {
            return Err(RunExit::TakenOver);
        }
        end
    }
}

/// Resolves the target of a call that was accepted before its arguments were known. Returns the arguments of the
/// target.
fn forward_arguments(
    server: &ServerLimits,
    planned: &mut Planned,
    arguments: Value,
    streamed: &StreamedArguments,
) -> Value {
    let (name, vendor) = (planned.run.call().name.to_string(), streamed.vendor);
    let mut request = CallRequest { name, arguments: Some(arguments), vendor, ..CallRequest::default() };
    let (access, conversation) = (planned.run.origin().access.clone(), planned.run.origin().conversation.clone());
    let snapshot = access.snapshot();
    let view = access.view(&snapshot, conversation.as_deref());
    let resolved = resolve_tool(view, &mut request, false);
    planned.run.amend(|call| call.extend_metadata(resolved.names(&request.name)));
    planned.next = match resolved.entry {
        Some(entry) => {
            let limits = limits_of(server, &entry, &streamed.limits, conversation.as_deref());
            let context = streamed.context.of(&entry.definition);
            let (name, title) = (entry.name.clone(), entry.title.clone());
            planned.run.amend(|call| call.assign(name, title, Some((limits, context))));
            resolved.refused.map_or(Ok(entry), Err).into()
        }
        None => {
            let name: Arc<str> = request.name.into();
            planned.run.amend(|call| call.assign(name.clone(), name.clone(), None));
            let failure = resolved.refused.unwrap_or_else(|| view.not_found(&name, Naming::Own).into());
            Next::End(failure, None)
        }
    };
    request.arguments.unwrap_or_default()
}
