//! The thread of an import.

use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::{HttpResult, Problem};

/// A thread for the steps of one import, which block it and need much memory. The allocator keeps freed memory for the
/// thread that has allocated it, so all steps run on the same thread, which then ends.
pub(super) struct ImportThread(mpsc::Sender<Step>);

type Step = Box<dyn FnOnce() + Send>;

impl ImportThread {
    /// Starts the thread. It ends when this handle is dropped and its last step is done.
    pub fn start() -> HttpResult<Self> {
        let (sender, steps) = mpsc::channel::<Step>();
        let run = move || steps.into_iter().for_each(|step| step());
        let started = thread::Builder::new().name("import".into()).spawn(run);
        started.map_err(|error| {
            tracing::error!(%error, "cannot start a thread for an import");
            Problem::overloaded("no thread can be started; nothing was imported, retry later")
        })?;
        Ok(Self(sender))
    }

    /// Runs a step.
    ///
    /// # Errors
    /// Returns an internal error if the step panics.
    pub async fn run<T: Send + 'static>(&self, step: impl FnOnce() -> T + Send + 'static) -> HttpResult<T> {
        let (sender, result) = oneshot::channel();
        // The caller may have gone.
        let step = Box::new(move || drop(sender.send(step())));
        // The thread has ended if an earlier step panicked; then there is no result either.
        let _ = self.0.send(step);
        result.await.map_err(|_| Problem::internal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_run_on_one_thread_until_one_panics() {
        let thread = ImportThread::start().unwrap();
        let id = || thread::current().id();
        let first = thread.run(id).await.unwrap();
        assert_eq!(thread.run(id).await.unwrap(), first);
        assert_ne!(id(), first);
        assert!(thread.run::<()>(|| panic!("a step")).await.is_err());
        assert!(thread.run(id).await.is_err());
    }
}
