//! Tracks clients of sessions that disconnect during a call. They can resume a broken stream for a while; then the call
//! is cancelled.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time for a client to reconnect; the client is asked to retry after 3 s.
const GRACE: Duration = Duration::from_secs(10);

/// Sessions with a broken stream. Dropping the sender of a session signals that its client is back. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct DisconnectTracker(Arc<Mutex<HashMap<String, watch::Sender<()>>>>);

impl DisconnectTracker {
    /// Records that the client of this session resumes a stream.
    pub fn reconnected(&self, session: &str) {
        // Closing the channel wakes the waiting guards.
        drop(self.waiting().remove(session));
    }

    /// Wraps the response to a call of this session; cancels `gone` if the stream breaks and the client does not
    /// reconnect.
    pub fn watch(&self, answer: Body, session: String, gone: CancellationToken) -> Body {
        let guard = Guard { disconnects: self.clone(), session, gone };
        Body::new(Watched { inner: answer, guard: Some(guard) })
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client reconnects. Returns `false` on a timeout.
    async fn wait_for_reconnect(&self, session: &str) -> bool {
        let mut back = self.waiting().entry(session.to_owned()).or_default().subscribe();
        let is_connected = tokio::time::timeout(GRACE, async { while back.changed().await.is_ok() {} }).await.is_ok();
        if !is_connected {
            let mut waiting = self.waiting();
            // Another stream of the session may have broken later.
            if waiting.get(session).is_some_and(|sender| sender.receiver_count() == 1) {
                waiting.remove(session);
            }
        }
        is_connected
    }
}

struct Guard {
    disconnects: DisconnectTracker,
    session: String,
    gone: CancellationToken,
}

impl Guard {
    async fn wait(self) {
        if !self.disconnects.wait_for_reconnect(&self.session).await {
            self.gone.cancel();
        }
    }
}

/// A response body that starts the guard if it is dropped before its end.
struct Watched {
    inner: Body,
    guard: Option<Guard>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = std::pin::pin!(self.inner.frame());
        let polled = frame.as_mut().poll(context);
        if let Poll::Ready(None) = polled {
            self.guard = None;
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(guard.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(tracker: &DisconnectTracker) -> CancellationToken {
        let gone = CancellationToken::new();
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        drop(tracker.watch(never, "s".into(), gone.clone()));
        gone
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_reconnect_is_lost() {
        let tracker = DisconnectTracker::default();
        let (one, other) = (broken(&tracker), broken(&tracker));
        one.cancelled().await;
        other.cancelled().await;
        assert!(tracker.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reconnects_is_not_lost() {
        let tracker = DisconnectTracker::default();
        let gone = broken(&tracker);
        tokio::time::sleep(GRACE / 2).await;
        tracker.reconnected("s");
        tokio::time::sleep(GRACE * 2).await;
        assert!(!gone.is_cancelled() && tracker.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn completed_response_is_not_tracked() {
        let (tracker, gone) = (DisconnectTracker::default(), CancellationToken::new());
        let body = tracker.watch(Body::from("a"), "s".into(), gone.clone());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        tokio::time::sleep(GRACE * 2).await;
        assert!(!gone.is_cancelled() && tracker.waiting().is_empty());
    }
}
