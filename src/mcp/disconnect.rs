//! Clients of sessions that go away in the middle of a call: a broken stream can be taken up again for a while, and then
//! the call is cancelled.

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

/// How long a client may take to come back; it is told to try again after 3 s.
const GRACE: Duration = Duration::from_secs(10);

/// Sessions with a broken stream, each with the word that its client is back. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct DisconnectTracker(Arc<Mutex<HashMap<String, watch::Sender<()>>>>);

impl DisconnectTracker {
    /// The client of this session takes up a stream again.
    pub fn is_back(&self, session: &str) {
        // Whoever waits for it hears that nobody can say it any more.
        drop(self.waiting().remove(session));
    }

    /// The answer to one call of this session; if its stream breaks and nobody comes back, `gone` fires.
    pub fn watched(&self, answer: Body, session: String, gone: CancellationToken) -> Body {
        let guard = Guard { away: self.clone(), session, gone };
        Body::new(Watched { inner: answer, guard: Some(guard) })
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the client is back, or its time is over: then `false`.
    async fn comes_back(&self, session: &str) -> bool {
        let mut back = self.waiting().entry(session.to_owned()).or_default().subscribe();
        let is_back = tokio::time::timeout(GRACE, async { while back.changed().await.is_ok() {} }).await.is_ok();
        if !is_back {
            let mut waiting = self.waiting();
            // Another stream of the session may have broken later.
            if waiting.get(session).is_some_and(|sender| sender.receiver_count() == 1) {
                waiting.remove(session);
            }
        }
        is_back
    }
}

struct Guard {
    away: DisconnectTracker,
    session: String,
    gone: CancellationToken,
}

impl Guard {
    async fn wait(self) {
        if !self.away.comes_back(&self.session).await {
            self.gone.cancel();
        }
    }
}

/// A body that knows whether it came to its end.
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

    fn broken(away: &DisconnectTracker) -> CancellationToken {
        let gone = CancellationToken::new();
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        drop(away.watched(never, "s".into(), gone.clone()));
        gone
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_reconnect_is_lost() {
        let away = DisconnectTracker::default();
        let (one, other) = (broken(&away), broken(&away));
        one.cancelled().await;
        other.cancelled().await;
        assert!(away.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reconnects_is_not_lost() {
        let away = DisconnectTracker::default();
        let gone = broken(&away);
        tokio::time::sleep(GRACE / 2).await;
        away.is_back("s");
        tokio::time::sleep(GRACE * 2).await;
        assert!(!gone.is_cancelled() && away.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn completed_response_is_not_tracked() {
        let (away, gone) = (DisconnectTracker::default(), CancellationToken::new());
        let body = away.watched(Body::from("a"), "s".into(), gone.clone());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        tokio::time::sleep(GRACE * 2).await;
        assert!(!gone.is_cancelled() && away.waiting().is_empty());
    }
}
