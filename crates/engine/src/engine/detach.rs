//! Work that runs in the task of its caller, and moves to a task of its own if the caller disconnects.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The rest of a submission. It runs in the task that polls it, which saves a task switch, and is spawned if it is
/// dropped before its end.
pub struct DetachOnDrop {
    rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tasks: TaskTracker,
}

impl DetachOnDrop {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static, tasks: &TaskTracker) -> Self {
        Self { rest: Some(Box::pin(tasks.track_future(work))), tasks: tasks.clone() }
    }
}

impl Future for DetachOnDrop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(()) };
        let done = rest.as_mut().poll(context);
        if done.is_ready() {
            self.rest = None;
        }
        done
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        // Without a runtime the process is ending, so the work cannot continue.
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(rest, &runtime);
        }
    }
}

impl std::fmt::Debug for DetachOnDrop {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DetachOnDrop").field("is_done", &self.rest.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_work_continues_in_its_own_task() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (go, gone) = tokio::sync::oneshot::channel();
        let tasks = TaskTracker::new();
        let mut work = DetachOnDrop::new(
            async move {
                let _ = gone.await;
                let _ = sender.send("done");
            },
            &tasks,
        );
        assert!(futures_util::poll!(&mut work).is_pending());
        drop(work);
        go.send(()).unwrap();
        assert_eq!(receiver.await, Ok("done"));
        tasks.close();
        tasks.wait().await;
    }
}
