//! Hooks around a call: before it runs, before its outcome is stored, and after it has ended.

use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::interrupt::{ANNOUNCE_AFTER, Deadline, Race, Shutdown};
use super::state::{Ongoing, RunExit, StartMode};
use super::{arguments, inject};
use crate::access::Access;
use crate::dispatch::QueuedSlot;
use crate::domain::event::{EventKind, Reported};
use crate::domain::{Call, Clock, Code, Failure, FailurePolicy, HookEvent, HookFault, Moment, Outcome};
use crate::engine::live::LiveCalls;
use crate::events::render;
use crate::hooks::{BeforeDecision, Hook, HookCall, Hooks, withhold};
use crate::registry::{Entry, presets};

/// Maximum size of arguments that are checked on the current thread, in bytes.
const MAX_INLINE_CHECK: usize = 64 * 1024;

/// The times at which a call that waits for its hooks is announced and abandoned.
#[derive(Debug, Clone, Copy)]
struct HookDeadlines {
    announce_at: Instant,
    deadline: Option<Deadline>,
}

/// Invokes the hooks of calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallHooks<'a> {
    pub hooks: &'a Arc<Hooks>,
    pub clock: &'a Clock,
    pub live: &'a LiveCalls,
    pub shutdown: &'a Shutdown,
    pub tasks: &'a TaskTracker,
}

impl CallHooks<'_> {
    /// Runs the before-hooks, which can change the arguments or block the call.
    pub async fn before(
        &self,
        job: &mut Ongoing,
        entry: &Arc<Entry>,
        place: &mut Option<QueuedSlot>,
    ) -> Result<(), RunExit> {
        // The hooks of a resumed call have run already.
        if !self.hooks.has(HookEvent::BeforeToolCall) || job.begin != StartMode::Start {
            return Ok(());
        }
        // Boxed because few calls have hooks.
        Box::pin(self.run_each(job, entry, place)).await
    }

    /// Runs the matching before-hooks in order. Each hook sees the arguments that the previous one has left.
    async fn run_each(
        &self,
        job: &mut Ongoing,
        entry: &Arc<Entry>,
        place: &mut Option<QueuedSlot>,
    ) -> Result<(), RunExit> {
        let hooks = self.hooks;
        let matching =
            hooks.matching(HookEvent::BeforeToolCall, &job.call.tenant, &entry.name, &entry.definition.groups);
        if matching.is_empty() {
            return Ok(());
        }
        // A slot must not be occupied while a hook hangs. The call gets the same place in the queue again by its id.
        drop(place.take());
        let deadlines = self.deadlines(job);
        for hook in matching {
            let call = HookCall::of(HookEvent::BeforeToolCall, &job.call);
            let result = self.with_deadlines(job, deadlines, hooks.before(&hook, call)).await?;
            match result {
                Ok(BeforeDecision::Continue) => {}
                Ok(BeforeDecision::Arguments(arguments)) => self.rewrite(job, entry, &hook, arguments).await?,
                Ok(BeforeDecision::Block(reason)) => return Err(Failure::blocked(reason.as_deref(), hook.id()).into()),
                Err(fault) => {
                    self.publish_hook_error(job, &fault).await;
                    if hook.definition().failure_policy == FailurePolicy::Closed {
                        return Err(Failure::hook_failed(&fault).into());
                    }
                }
            }
        }
        Ok(())
    }

    fn deadlines(&self, job: &Ongoing) -> HookDeadlines {
        let waited_ms = job.call.waited_ms(self.clock.moment());
        let limit = job.call.limits.and_then(|limits| limits.queue_timeout_ms);
        let deadline = limit.and_then(|limit_ms| Deadline::of(limit_ms, waited_ms, "queue_timeout_ms"));
        HookDeadlines { announce_at: Instant::now() + ANNOUNCE_AFTER, deadline }
    }

    /// Waits for a hook, or until the call is interrupted.
    async fn with_deadlines<T>(
        &self,
        job: &mut Ongoing,
        deadlines: HookDeadlines,
        run: impl Future<Output = T>,
    ) -> Result<T, RunExit> {
        let announce_at = (!job.recorder.has_announced()).then_some(deadlines.announce_at);
        let (cancel, is_left) = (job.handle.cancel.clone(), job.is_queued);
        let race = Race::new(&cancel, self.shutdown).left_on_drain(is_left, self.shutdown).until(deadlines.deadline);
        Ok(race.run_announcing(announce_at, job.publish_status(self.live), run).await?)
    }

    /// Merges the arguments of a hook into those of the call. The result must be valid.
    async fn rewrite(
        &self,
        job: &mut Ongoing,
        entry: &Arc<Entry>,
        hook: &Hook,
        arguments: Map<String, Value>,
    ) -> Result<(), RunExit> {
        let mut members =
            job.call.effective_arguments.as_deref().and_then(Value::as_object).cloned().unwrap_or_default();
        members.extend(arguments);
        let merged = Value::Object(members);
        inject::list_ignored(&mut job.call, presets::named_in(&entry.definition.presets, &merged));
        let (merged, entry) = (Arc::new(merged), entry.clone());
        let is_long =
            merged.as_object().is_some_and(|members| crate::domain::json::size_of(members) > MAX_INLINE_CHECK);
        let checked = if is_long {
            // A long check must not block other tasks of this thread.
            let checking = tokio::task::spawn_blocking(move || arguments::checked(&entry, &merged, None)).await;
            checking
                .unwrap_or_else(|_| Err(Failure::execution(&job.call.name, "its arguments cannot be checked").into()))
        } else {
            arguments::checked(&entry, &merged, None)
        };
        let checked = checked.map_err(|failure| RunExit::from(attribute_to_hook(*failure, hook.id())))?;
        job.call.add_checked(checked.arguments, checked.coerced);
        Ok(())
    }

    /// Runs the persist hooks. Returns the call as it must be stored, if that differs from what the caller receives.
    pub async fn persist(&self, job: &mut Ongoing, outcome: &Outcome, now: Moment) -> Option<Box<Call>> {
        if !self.hooks.has(HookEvent::ToolResultPersist) {
            return None;
        }
        Box::pin(self.image(job, outcome, now)).await
    }

    /// Runs the matching persist hooks on a copy of the settled call. Returns the copy if a hook has changed it.
    async fn image(&self, job: &mut Ongoing, outcome: &Outcome, now: Moment) -> Option<Box<Call>> {
        let matching = self.matching_hooks(HookEvent::ToolResultPersist, &job.access, &job.call);
        if matching.is_empty() {
            return None;
        }
        let mut image = Box::new(job.call.clone());
        image.settle(outcome.clone(), now).ok()?;
        let seq_before = job.call.last_seq;
        let (mut differs, announce) = (false, Instant::now() + ANNOUNCE_AFTER);
        // A cancelled call ends immediately; its outcome contains no output of a tool.
        let failure = outcome.error.as_ref().map(|failure| failure.code);
        let is_cut_short = matches!(failure, Some(Code::Cancelled | Code::ShuttingDown));
        for hook in matching.into_iter().filter(|hook| hook.is_builtin() || !is_cut_short) {
            let announce_at = (!is_announced(job)).then_some(announce);
            let cancel = job.handle.cancel.clone();
            // Cancellation and shutdown do not wait for a hook, because the result already exists.
            let race = Race::new(&cancel, self.shutdown).work_first();
            let run = self.hooks.persist(&hook, &mut image);
            let result = race.run_announcing(announce_at, job.publish_status(self.live), run).await;
            let result = result.unwrap_or_else(|_| Err(HookFault::given_up(hook.id(), hook.event())));
            match result {
                Ok(changed) => differs |= changed,
                Err(fault) => {
                    self.publish_hook_error(job, &fault).await;
                    if hook.definition().failure_policy == FailurePolicy::Closed {
                        image.rewrite(withhold);
                        differs = true;
                    }
                }
            }
        }
        // Events that were published while the hooks ran have used event numbers.
        image.skip_events(job.call.last_seq - seq_before);
        differs.then_some(image)
    }

    /// Starts the after-hooks of an ended call without waiting for them.
    pub fn after(&self, access: &Access, call: &Arc<Call>) {
        let hooks = self.hooks;
        if hooks.has(HookEvent::AfterToolCall) {
            let matching = self.matching_hooks(HookEvent::AfterToolCall, access, call);
            if !matching.is_empty() {
                hooks.notify(matching, call, self.tasks, &self.shutdown.stop);
            }
        }
    }

    /// Returns the hooks to run for a call. Calls of unknown tools or with invalid arguments run no webhooks or
    /// functions.
    fn matching_hooks(&self, event: HookEvent, access: &Access, call: &Call) -> Vec<Arc<Hook>> {
        let snapshot = access.snapshot();
        let groups = snapshot.get(&call.name).map_or(&[][..], |entry| &entry.definition.groups);
        let mut matching = self.hooks.matching(event, &call.tenant, &call.name, groups);
        if call.effective_arguments.is_none() {
            // Built-in hooks do not call out; they keep secret or oversized data out of the store.
            matching.retain(|hook| event == HookEvent::ToolResultPersist && hook.is_builtin());
        }
        matching
    }

    /// Publishes a hook failure to the subscribers.
    async fn publish_hook_error(&self, job: &mut Ongoing, fault: &HookFault) {
        job.register(self.live);
        if !is_announced(job) {
            let change = job.recorder.change(&job.call);
            // The commit need not be awaited: later changes of the call follow in the same queue.
            let _ = job.recorder.journal().enqueue(change).await;
        }
        let Ok(seq) = job.call.note() else { return };
        let data = render::hook_error(&job.call, fault);
        let change = job.recorder.reported(&job.call, Reported { seq, kind: EventKind::HookError, data });
        let _ = job.recorder.journal().enqueue(change).await;
    }
}

/// Returns `true` if subscribers know the current status of the call.
fn is_announced(job: &Ongoing) -> bool {
    let is_behind = job.call.started_at.is_some() && !job.recorder.has_announced_start();
    job.recorder.has_announced() && !is_behind
}

/// Adds the name of the responsible hook to a failure.
fn attribute_to_hook(mut failure: Failure, hook: &str) -> Failure {
    failure.text.push_str(&format!("\nThe arguments were valid until the hook {hook} changed them."));
    failure.message.push_str(&format!(": made invalid by the hook {hook}"));
    if let Some(Value::Object(details)) = &mut failure.details {
        details.insert("hook".to_owned(), hook.into());
    }
    failure
}
