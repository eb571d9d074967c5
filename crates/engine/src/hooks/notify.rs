//! Notification of after-hooks: concurrent, detached from the call, and bounded. Notifications beyond the bound are
//! dropped and counted.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Hooks;
use super::call::HookCall;
use super::counts::HookOutcome;
use super::hook::Hook;
use toolpost_core::domain::{Call, HookEvent, Outcome, json};

/// Maximum number of after-hooks that run at once.
pub(super) const MAX_RUNNING: usize = 64;
/// Maximum memory of waiting notifications, in KiB. A larger call acquires all of it.
pub(super) const MAX_WAITING_KIB: u32 = 32 * 1024;
/// Minimum memory counted for a notification, in KiB, so that at most 4096 wait.
const MIN_KIB: u32 = 8;

impl Hooks {
    /// Runs after-hooks of an ended call in tasks of `tasks`, until `stop` fires. Never waits.
    pub fn notify(
        self: &Arc<Self>,
        hooks: Vec<Arc<Hook>>,
        call: &Arc<Call>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let kib = u32::try_from(size_of(call) / 1024).unwrap_or(u32::MAX).clamp(MIN_KIB, MAX_WAITING_KIB);
        let Ok(memory) = self.notification_memory.clone().try_acquire_many_owned(kib) else {
            for hook in hooks {
                let dropped = self.count_ended(&hook, HookOutcome::Dropped);
                // Logged at each power of two, so that an overload does not flood the log.
                if dropped.is_power_of_two() {
                    tracing::warn!(hook = hook.id, dropped, "after-hooks are too slow; notifications are dropped");
                }
            }
            return;
        };
        let (all, call, stop, tracker) = (self.clone(), call.clone(), stop.clone(), tasks.clone());
        tasks.spawn(async move {
            let view = HookCall::of(HookEvent::AfterToolCall, &call);
            let body = view.body();
            let each = hooks.into_iter().map(|hook| {
                let (all, view, body, stop) = (all.clone(), view.clone(), body.clone(), stop.clone());
                tracker.spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = async {
                            // The semaphore is never closed.
                            let _slot = all.notification_slots.acquire().await;
                            // A failure is logged and counted inside; the call has ended, so its events cannot report
                            // it.
                            let _ = all.after(&hook, view, body).await;
                        } => {}
                    }
                })
            });
            futures_util::future::join_all(each.collect::<Vec<_>>()).await;
            drop(memory);
        });
    }
}

/// Returns the approximate memory of an ended call, in bytes.
fn size_of(call: &Call) -> usize {
    let of_outcome = |outcome: &Outcome| outcome.output.len() * 2 + json::size_of(&outcome.details);
    call.arguments_text.get().len() + call.outcome.as_deref().map_or(0, of_outcome)
}

#[cfg(test)]
mod tests {
    use super::super::{AfterToolCall, HookError, RustHook};
    use super::*;
    use toolpost_core::domain::Time;
    use toolpost_core::domain::call::CallRecord;

    struct Hangs;

    impl AfterToolCall for Hangs {
        async fn after_tool_call(&self, _: HookCall) -> Result<(), HookError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn overflow_is_dropped_and_counted() {
        let hooks = Arc::new(super::super::tests::hooks_of(vec![RustHook::after(Hangs)], &[]));
        let call =
            Call::from(CallRecord::accepted(uuid::Uuid::nil(), "t".into(), None, Arc::default(), Time(0), "n".into()));
        let (call, tasks, stop) = (Arc::new(call), TaskTracker::new(), CancellationToken::new());
        let max = MAX_WAITING_KIB / MIN_KIB;
        for _ in 0..max + 3 {
            hooks.notify(
                hooks.matching(HookEvent::AfterToolCall, &toolpost_core::domain::Tenant::default(), "t", &[]),
                &call,
                &tasks,
                &stop,
            );
        }
        assert_eq!(hooks.counts().dropped(), 3);
        while hooks.counts().invocations() < MAX_RUNNING as u64 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        assert_eq!(hooks.counts().invocations(), MAX_RUNNING as u64, "no further hook was run");
        assert_eq!(hooks.notification_memory.available_permits(), MAX_WAITING_KIB as usize);
    }
}
