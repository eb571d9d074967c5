//! Hooks around a call: before it runs, before its outcome is stored, and after it has ended.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::wait::Waiter;
use crate::access::Access;
use crate::arguments;
use crate::dispatch::QueuedSlot;
use crate::hooks::{BeforeDecision, Hook, HookCall, Hooks, withhold};
use crate::inputs;
use crate::interrupt::{ANNOUNCE_AFTER, Race};
use crate::registry::{Entry, presets};
use toolpost_core::domain::event::EventKind;
use toolpost_core::domain::{Call, Code, Failure, FailurePolicy, HookEvent, HookFault, Moment, Outcome, json};
use toolpost_store::events::render;

/// Invokes the hooks of calls.
#[derive(Clone, Copy)]
pub(super) struct CallHooks<'a> {
    pub hooks: &'a Arc<Hooks>,
    pub waiter: Waiter<'a>,
    pub tasks: &'a TaskTracker,
}

impl CallHooks<'_> {
    /// Runs the matching before-hooks in order, which can change the arguments or block the call. Each hook sees the
    /// arguments that the previous one has left.
    pub async fn before(
        &self,
        run: &mut CallRun,
        entry: &Arc<Entry>,
        queued: &mut Option<QueuedSlot>,
    ) -> Result<(), RunExit> {
        let groups = &entry.definition.groups;
        let matching = self.hooks.matching(HookEvent::BeforeToolCall, &run.call().tenant, &entry.name, groups);
        if matching.is_empty() {
            return Ok(());
        }
        // A slot must not be occupied while a hook hangs. The call gets the same place in the queue again by its id.
        drop(queued.take());
        let (deadline, announce_at) = (self.waiter.queue_deadline(run.call()), Instant::now() + ANNOUNCE_AFTER);
        for hook in matching {
            let call = HookCall::of(HookEvent::BeforeToolCall, run.call());
            let began = self.waiter.clock.moment();
            let decision = self.waiter.wait(run, announce_at, deadline, self.hooks.before(&hook, call)).await;
            note_run(run, &hook, began, self.waiter.clock.moment());
            match decision? {
                Ok(BeforeDecision::Continue) => {}
                Ok(BeforeDecision::Arguments(arguments)) => self.rewrite(run, entry, &hook, arguments).await?,
                Ok(BeforeDecision::Block(reason)) => return Err(Failure::blocked(reason.as_deref(), &hook.id).into()),
                Err(fault) => {
                    self.publish_hook_error(run, &fault).await;
                    if hook.definition.failure_policy == FailurePolicy::Closed {
                        return Err(Failure::hook_failed(&fault).into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Merges the arguments of a hook into those of the call. The result must be valid.
    async fn rewrite(
        &self,
        run: &mut CallRun,
        entry: &Arc<Entry>,
        hook: &Hook,
        arguments: Map<String, Value>,
    ) -> Result<(), RunExit> {
        let mut members =
            run.call().effective_arguments.as_deref().and_then(Value::as_object).cloned().unwrap_or_default();
        members.extend(arguments);
        let size = json::size_of(&members);
        let merged = Value::Object(members);
        let ignored = presets::named_in(&entry.definition.presets, &merged);
        run.amend(|call| inputs::list_ignored(call, ignored));
        let (merged, checking) = (Arc::new(merged), entry.clone());
        let check = move || arguments::checked(&checking, &merged, None);
        let checked = arguments::check_without_blocking(&entry.name, size, check).await;
        let checked = checked.map_err(|failure| RunExit::from(attribute_to_hook(*failure, &hook.id)))?;
        run.amend(|call| call.add_checked(checked.arguments, checked.coerced));
        Ok(())
    }

    /// Runs the matching persist hooks on a copy of the settled call. Returns the copy, which must be stored, if a hook
    /// has changed it.
    pub async fn persist(&self, run: &mut CallRun, outcome: &Outcome, now: Moment) -> Option<Box<Call>> {
        let matching = self.matching_hooks(HookEvent::ToolResultPersist, &run.origin().access, run.call());
        if matching.is_empty() {
            return None;
        }
        let mut image = Box::new(run.call().clone());
        image.settle(outcome.clone(), now).ok()?;
        let seq_before = run.call().last_seq;
        let (mut differs, announce) = (false, Instant::now() + ANNOUNCE_AFTER);
        // A cancelled call ends immediately; its outcome contains no output of a tool.
        let failure = outcome.error.as_ref().map(|failure| failure.code);
        let is_cut_short = matches!(failure, Some(Code::Cancelled | Code::ShuttingDown));
        for hook in matching.into_iter().filter(|hook| hook.is_builtin() || !is_cut_short) {
            let announce_at = (!run.is_announced()).then_some(announce);
            let cancel = run.cancel().clone();
            // Cancellation and shutdown do not wait for a hook, because the result already exists.
            let race = Race::new(&cancel, self.waiter.shutdown).work_first();
            let persisting = self.hooks.persist(&hook, &mut image);
            let result = race.run_announcing(announce_at, run.announce(), persisting).await;
            let result = result.unwrap_or_else(|_| Err(HookFault::given_up(&hook.id, hook.event())));
            match result {
                Ok(changed) => differs |= changed,
                Err(fault) => {
                    self.publish_hook_error(run, &fault).await;
                    if hook.definition.failure_policy == FailurePolicy::Closed {
                        image.rewrite(withhold);
                        differs = true;
                    }
                }
            }
        }
        // Events that were published while the hooks ran have used event numbers.
        image.skip_events(run.call().last_seq - seq_before);
        if !Arc::ptr_eq(&image.arguments, &run.call().arguments) {
            image.rewrite(|record| record.is_redacted = true);
        }
        differs.then_some(image)
    }

    /// Starts the after-hooks of an ended call without waiting for them.
    pub fn after(&self, access: &Access, call: &Arc<Call>) {
        if !self.hooks.has(HookEvent::AfterToolCall) {
            return;
        }
        let matching = self.matching_hooks(HookEvent::AfterToolCall, access, call);
        if !matching.is_empty() {
            self.hooks.notify(matching, call, self.tasks, &self.waiter.shutdown.stop);
        }
    }

    /// Returns the hooks to run for a call. Calls of unknown tools or with invalid arguments run no webhooks or
    /// functions.
    fn matching_hooks(&self, event: HookEvent, access: &Access, call: &Call) -> Vec<Arc<Hook>> {
        let snapshot = access.snapshot();
        let groups = snapshot.get(&call.name).map_or(&[][..], |tool| &tool.groups);
        let mut matching = self.hooks.matching(event, &call.tenant, &call.name, groups);
        if call.effective_arguments.is_none() {
            // Built-in hooks do not call out; they keep secret or oversized data out of the store.
            matching.retain(|hook| event == HookEvent::ToolResultPersist && hook.is_builtin());
        }
        matching
    }

    /// Publishes a hook failure to the subscribers.
    async fn publish_hook_error(&self, run: &mut CallRun, fault: &HookFault) {
        let now = self.waiter.clock.now();
        run.publish_event(EventKind::HookError, |call| render::hook_error(call, fault, now)).await;
    }
}

/// Adds a run of a hook to the metadata of the call.
fn note_run(run: &mut CallRun, hook: &Hook, began: Moment, ended: Moment) {
    let duration_ms = ended.micros_since(began) / 1000;
    let note = json!({"id": hook.id, "event": hook.event(), "at": began.at, "duration_ms": duration_ms});
    run.amend(|call| call.note_hook(note));
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
