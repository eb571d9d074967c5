//! Requests with large bodies: they run on threads of their own. To parse, check and record 4 MB takes a thread many
//! milliseconds, in which no other request may wait. Calls that they start run on these threads, too.
//!
//! Work of the blocking pool is no alternative: each of its threads keeps memory of its own.

use std::sync::OnceLock;

use axum::body::HttpBody;
use axum::extract::Request;
use tokio::runtime::Runtime;
use tokio_util::task::AbortOnDropHandle;

use crate::threads;

/// Minimum size of a large body, in bytes.
const LARGE: u64 = 64 * 1024;

/// The threads for large requests. They start with the first one.
#[derive(Debug, Default)]
pub(super) struct LargeRequests(OnceLock<Option<Runtime>>);

/// Returns `true` if a request may have a large body.
pub(super) fn is_large(request: &Request) -> bool {
    let size = request.body().size_hint();
    size.upper().is_none_or(|max| max >= LARGE)
}

impl LargeRequests {
    /// Runs the work for a request. Dropping the future stops it. Returns `None` if the service has ended meanwhile.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let start = || {
            threads::runtime("large-requests")
                .inspect_err(|error| tracing::warn!(%error, "cannot start threads for large requests"))
                .ok()
        };
        match self.0.get_or_init(start) {
            Some(runtime) => AbortOnDropHandle::new(runtime.spawn(work)).await.ok(),
            None => Some(work.await),
        }
    }
}

impl Drop for LargeRequests {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take().flatten() {
            // It may be dropped by a task, which must not wait for other threads.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_request_runs_on_another_thread_until_its_client_leaves() {
        let large = LargeRequests::default();
        let own = std::thread::current().id();
        assert_ne!(large.run(async { std::thread::current().id() }).await, Some(own));
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let never = large.run(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        let mut never = Box::pin(never);
        assert!(futures_util::poll!(&mut never).is_pending());
        drop(never);
        assert!(dropped.await.is_err(), "the work is dropped");
    }

    #[test]
    fn request_is_large_by_its_possible_size() {
        let of = |body: axum::body::Body| is_large(&Request::new(body));
        assert!(!of(axum::body::Body::empty()));
        assert!(!of("x".repeat(64 * 1024 - 1).into()));
        assert!(of("x".repeat(64 * 1024).into()));
        let parts = futures_util::stream::empty::<Result<bytes::Bytes, std::io::Error>>();
        assert!(of(axum::body::Body::from_stream(parts)), "the size is not known");
    }
}
