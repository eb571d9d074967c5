//! Work that would keep a thread of the runtime from its other tasks, such as a check with a costly pattern.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work that may take long. The other tasks of this thread move to another one meanwhile.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let is_shared = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_shared { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_blocking_work() {
        let (sender, receiver) = std::sync::mpsc::channel();
        // The work waits for a task of the same runtime, whose only thread it occupies.
        let other = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(()).unwrap();
        });
        let work = tokio::spawn(async move { aside(|| receiver.recv()) });
        work.await.unwrap().unwrap();
        other.await.unwrap();
    }

    #[tokio::test]
    async fn work_runs_directly_if_there_is_one_thread() {
        assert_eq!(aside(|| 1), 1);
    }
}
