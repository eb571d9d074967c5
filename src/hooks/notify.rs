//! Telling hooks of ends: in parallel, never awaited, and bounded. What does not fit is dropped and counted.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Hooks;
use super::call::HookCall;
use super::counts::HookOutcome;
use super::hook::Hook;
use crate::domain::{Call, HookEvent, Outcome, json};

/// Hooks that are told at once.
const AT_ONCE: usize = 64;
/// Memory that ends may hold which wait to be told, in KiB; one that is larger takes it all.
const ROOM_KIB: u32 = 32 * 1024;
/// The least that one is counted with: no more than 4096 wait.
const LEAST_KIB: u32 = 8;

/// The bounds of telling.
#[derive(Debug)]
pub(super) struct Notifier {
    room: Arc<Semaphore>,
    slots: Arc<Semaphore>,
}

impl Default for Notifier {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM_KIB as usize)), slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Hooks {
    /// Has these hooks told of an ended call, in tasks of `tasks`, until `stop` fires. Never waits.
    pub fn tell(
        self: &Arc<Self>,
        hooks: Vec<Arc<Hook>>,
        call: &Arc<Call>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let kib = u32::try_from(size_of(call) / 1024).unwrap_or(u32::MAX).clamp(LEAST_KIB, ROOM_KIB);
        let Ok(room) = self.desk.room.clone().try_acquire_many_owned(kib) else {
            for hook in hooks {
                let dropped = self.counts.note_dropped();
                hook.counts.note_dropped();
                self.counts.note_ended(hook.event(), HookOutcome::Dropped);
                // Told at every doubling: whoever is flooded is not flooded by the log too.
                if dropped.is_power_of_two() {
                    tracing::warn!(hook = hook.id(), dropped, "hooks are too slow: ends of calls are not told to them");
                }
            }
            return;
        };
        let (all, call, stop, tracker) = (self.clone(), call.clone(), stop.clone(), tasks.clone());
        tasks.spawn(async move {
            let told = HookCall::of(HookEvent::AfterToolCall, &call);
            let body = told.body();
            let each = hooks.into_iter().map(|hook| {
                let (all, told, body, stop) = (all.clone(), told.clone(), body.clone(), stop.clone());
                tracker.spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = async {
                            // Never closed.
                            let _slot = all.desk.slots.acquire().await;
                            // What it failed with is logged and counted; its call has ended and tells nothing more.
                            let _ = all.after(&hook, told, body).await;
                        } => {}
                    }
                })
            });
            futures_util::future::join_all(each.collect::<Vec<_>>()).await;
            drop(room);
        });
    }
}

/// About how many bytes an ended call holds.
fn size_of(call: &Call) -> usize {
    let of_outcome = |outcome: &Outcome| outcome.output.len() * 2 + json::size_of(&outcome.details);
    call.arguments_text.get().len() + call.outcome.as_deref().map_or(0, of_outcome)
}

#[cfg(test)]
mod tests {
    use super::super::{AfterToolCall, HookError, RustHook};
    use super::*;
    use crate::domain::Time;

    struct Hangs;

    impl AfterToolCall for Hangs {
        async fn after_tool_call(&self, _: HookCall) -> Result<(), HookError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn overflow_is_dropped_and_counted() {
        let hooks = Arc::new(super::super::tests::hooks_of(vec![RustHook::after(Hangs)], &[]));
        let call = Call::accepted(uuid::Uuid::nil(), "t".into(), None, Arc::default(), Time(0), "n".into());
        let (call, tasks, stop) = (Arc::new(call), TaskTracker::new(), CancellationToken::new());
        let most = ROOM_KIB / LEAST_KIB;
        for _ in 0..most + 3 {
            hooks.tell(
                hooks.matching(HookEvent::AfterToolCall, &crate::domain::Tenant::default(), "t", &[]),
                &call,
                &tasks,
                &stop,
            );
        }
        assert_eq!(hooks.counts().dropped(), 3);
        while hooks.counts().asked() < AT_ONCE as u64 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        assert_eq!(hooks.counts().asked(), AT_ONCE as u64, "no more were ever told at once");
        assert_eq!(hooks.desk.room.available_permits(), ROOM_KIB as usize);
    }
}
