//! Bodies of requests that are answered before they are read completely: the connection reads the rest and stays
//! usable, or the response announces its close (RFC 9112, section 9.6).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio_util::sync::CancellationToken;

use super::turns::{RequestTracker, Unread};

/// Maximum size of a rest that is read after the response, in bytes, and the timeout for it.
const MAX_READ: u64 = 256 * 1024;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A request body. If it is dropped before its end, the connection handles the rest.
pub(super) struct TrackedBody {
    /// `None` once it has ended.
    body: Option<Incoming>,
    /// Whether the client waits for `100 Continue` (`Expect: 100-continue`), which the first read sends.
    awaits_continue: bool,
    /// The number of the request.
    request: u64,
    turns: Arc<RequestTracker>,
}

impl TrackedBody {
    /// Wraps the body of the request that has just begun.
    pub fn of(request: Request<Incoming>, turns: &Arc<RequestTracker>) -> Request<Body> {
        if request.body().is_end_stream() {
            return request.map(|_| Body::empty());
        }
        turns.expect_body();
        let awaits_continue = request.headers().contains_key(EXPECT);
        let (number, turns) = (turns.begun(), turns.clone());
        request.map(|body| Body::new(Self { body: Some(body), awaits_continue, request: number, turns }))
    }

    fn end(&mut self) {
        self.body = None;
        self.turns.end_body();
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        this.awaits_continue = false;
        let frame = Pin::new(&mut *body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Err(_))) => {
                this.turns.leave_unread(this.request, Unread::Unknown);
                this.end();
            }
            Poll::Ready(None) => this.end(),
            Poll::Ready(Some(Ok(_))) if body.is_end_stream() => this.end(),
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let rest = match body.size_hint().exact() {
            Some(length) if !self.awaits_continue => Unread::Known(body, length),
            _ => Unread::Unknown,
        };
        self.turns.leave_unread(self.request, rest);
        self.turns.end_body();
    }
}

impl RequestTracker {
    /// Decides whether to keep the connection if the answered request was not read completely.
    pub fn settle_unread(self: &Arc<Self>, response: &mut Response<Body>, closing: CancellationToken) {
        let Some((request, rest)) = self.take_unread() else { return };
        match rest {
            // After a timeout, the rest is not awaited again.
            Unread::Known(body, length) if length <= MAX_READ && response.status() != StatusCode::REQUEST_TIMEOUT => {
                let (turns, turn) = (self.clone(), self.keep_busy());
                tokio::spawn(async move {
                    tokio::select! {
                        whole = discard_body(body) => if whole { turns.forget_unread(request) },
                        () = tokio::time::sleep(READ_TIMEOUT) => {}
                        () = closing.cancelled() => {}
                    }
                    drop(turn);
                });
            }
            _ => {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
    }
}

/// Reads and discards a body. Returns `true` if it was received completely.
async fn discard_body(mut body: Incoming) -> bool {
    while let Some(frame) = body.frame().await {
        if frame.is_err() {
            return false;
        }
    }
    true
}
