//! Clients of sessions that disconnect during a call. They can resume a broken stream for a while, at any node; then the
//! call is cancelled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use uuid::Uuid;

use crate::access::Access;
use crate::domain::Tenant;

/// Time for a client to reconnect; the client is asked to retry after 3 s.
const GRACE: Duration = Duration::from_secs(10);

/// The stream with the response to a call, as one connection receives it.
#[derive(Debug, Clone)]
pub(super) struct CallStream {
    pub tenant: Tenant,
    /// The client that resumed the stream; it must have access to the call to cancel it. `None` without authentication.
    pub access: Option<Access>,
    /// The MCP session.
    pub session: String,
    pub call: Uuid,
    /// How often the stream had been resumed when this connection received it. A higher number means that the client is
    /// connected again.
    pub resumed: i64,
}

/// The presence of the clients of streams.
pub(super) trait Presence: Send + Sync + 'static {
    /// Returns `true` if the client has resumed the stream over another connection; `None` if this is unknown now.
    fn is_resumed(&self, stream: &CallStream) -> impl Future<Output = Option<bool>> + Send;

    /// Cancels the call.
    fn cancel(&self, stream: &CallStream) -> impl Future<Output = ()> + Send;
}

/// Wraps the response to a call; cancels the call if the stream breaks and the client does not resume it.
pub(super) fn watch(answer: Body, stream: CallStream, clients: Arc<impl Presence>) -> Body {
    Body::new(WatchedBody { inner: answer, guard: Some((stream, clients)) })
}

async fn wait_for_client(stream: CallStream, clients: Arc<impl Presence>) {
    loop {
        tokio::time::sleep(GRACE).await;
        match clients.is_resumed(&stream).await {
            Some(true) => return,
            Some(false) => return clients.cancel(&stream).await,
            None => {}
        }
    }
}

/// A response body that waits for its client if it is dropped before its end.
struct WatchedBody<P: Presence> {
    inner: Body,
    guard: Option<(CallStream, Arc<P>)>,
}

impl<P: Presence> HttpBody for WatchedBody<P> {
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

impl<P: Presence> Drop for WatchedBody<P> {
    fn drop(&mut self) {
        if let Some((stream, clients)) = self.guard.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(wait_for_client(stream, clients));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Counts resumptions; a negative number means that the database is unavailable.
    #[derive(Default)]
    struct Clients {
        resumed: AtomicI64,
        cancelled: CancellationToken,
    }

    impl Presence for Clients {
        async fn is_resumed(&self, stream: &CallStream) -> Option<bool> {
            let resumed = self.resumed.load(Ordering::SeqCst);
            (resumed >= 0).then_some(resumed > stream.resumed)
        }

        async fn cancel(&self, _: &CallStream) {
            self.cancelled.cancel();
        }
    }

    fn stream(resumed: i64) -> CallStream {
        let (tenant, session) = (Tenant::default(), "s".to_owned());
        CallStream { tenant, access: None, session, call: Uuid::nil(), resumed }
    }

    fn break_off(clients: &Arc<Clients>, resumed: i64) {
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        drop(watch(never, stream(resumed), clients.clone()));
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_a_client_that_does_not_reconnect_is_cancelled() {
        let clients = Arc::new(Clients::default());
        break_off(&clients, 0);
        clients.cancelled.cancelled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_a_client_that_resumed_elsewhere_runs_until_that_stream_breaks() {
        let clients = Arc::new(Clients::default());
        break_off(&clients, 0);
        clients.resumed.store(1, Ordering::SeqCst);
        tokio::time::sleep(GRACE * 2).await;
        assert!(!clients.cancelled.is_cancelled());
        break_off(&clients, 1);
        clients.cancelled.cancelled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_cancelled_while_the_database_is_unavailable() {
        let clients = Arc::new(Clients::default());
        clients.resumed.store(-1, Ordering::SeqCst);
        break_off(&clients, 0);
        tokio::time::sleep(GRACE * 3).await;
        assert!(!clients.cancelled.is_cancelled());
        clients.resumed.store(0, Ordering::SeqCst);
        clients.cancelled.cancelled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn completed_response_is_not_tracked() {
        let clients = Arc::new(Clients::default());
        let body = watch(Body::from("a"), stream(0), clients.clone());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
        tokio::time::sleep(GRACE * 2).await;
        assert!(!clients.cancelled.is_cancelled());
    }
}
