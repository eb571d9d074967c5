//! The requests of one connection, shared by its server, its I/O and the handlers.
//!
//! A request can be answered before its body is read completely. Then the connection reads the rest and stays usable, or
//! the response announces its close (RFC 9112, section 9.6).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio_util::sync::CancellationToken;

/// The request counters of one connection, and the state of the current request.
#[derive(Debug, Default)]
pub(super) struct RequestTracker {
    begun: AtomicU64,
    done: AtomicU64,
    /// The number of the last request that was dropped before its body was read completely; 0 for none.
    unread: AtomicU64,
    /// The rest of that body.
    rest: Mutex<Option<Unread>>,
    /// Whether the current request ends when its client closes its side.
    is_watched: AtomicBool,
    /// Whether the current request has a body that has not ended.
    has_body: AtomicBool,
    /// Wakes the connection when the body ends.
    body_ended: AtomicWaker,
    /// Whether bytes wait to be written because the client does not read.
    is_stalled: AtomicBool,
}

/// A request in progress. Dropping the guard ends it.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<RequestTracker>);

impl RequestTracker {
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.unread.store(0, Ordering::Relaxed);
        self.is_watched.store(false, Ordering::Relaxed);
        self.has_body.store(false, Ordering::Relaxed);
        self.keep_busy()
    }

    /// Keeps the connection busy beyond the response of the current request.
    pub fn keep_busy(self: &Arc<Self>) -> RequestGuard {
        self.begun.fetch_add(1, Ordering::Relaxed);
        RequestGuard(self.clone())
    }

    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub fn is_busy(&self) -> bool {
        self.begun() != self.done.load(Ordering::Relaxed)
    }

    /// Records whether bytes wait to be written.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    /// Returns `true` if bytes wait to be written.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Records that the current request has an unread body.
    pub fn expect_body(&self) {
        self.has_body.store(true, Ordering::Relaxed);
    }

    /// Records that the body has ended.
    pub fn end_body(&self) {
        self.has_body.store(false, Ordering::Release);
        self.body_ended.wake();
    }

    /// Records that the request was dropped before its body was read completely.
    pub fn leave_unread(&self, request: u64, rest: Unread) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
        self.unread.store(request, Ordering::Release);
    }

    /// Takes the unread rest of the current request.
    pub fn take_unread(&self) -> Option<(u64, Unread)> {
        let request = self.unread.load(Ordering::Acquire);
        if request == 0 {
            return None;
        }
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        rest.map(|rest| (request, rest))
    }

    /// Records that the rest of the request's body has been read.
    pub fn forget_unread(&self, request: u64) {
        let _ = self.unread.compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns `true` if the last request was dropped before its body was read completely.
    pub fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed) != 0
    }

    /// Ends the current request as soon as its client closes its side. Must be called in the task of the connection,
    /// which checks this right afterwards.
    pub fn end_with_client(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the connection must be watched for a disconnect. Until the body has ended, reading it detects
    /// this.
    pub fn ends_with_client(&self, context: &Context<'_>) -> bool {
        if !self.is_watched.load(Ordering::Relaxed) || !self.is_busy() {
            return false;
        }
        if self.has_body.load(Ordering::Acquire) {
            self.body_ended.register(context.waker());
        }
        !self.has_body.load(Ordering::Acquire)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The rest of a body that was dropped before its end.
#[derive(Debug)]
pub(super) enum Unread {
    /// The body has this remaining length, in bytes, and is being sent.
    Known(Incoming, u64),
    /// The length is unknown, the body is sent only on demand, or reading it failed.
    Unknown,
}

/// The client of a request, as a request extractor.
#[derive(Debug, Clone, Default)]
pub(super) struct Client(Option<Arc<RequestTracker>>);

impl Client {
    pub fn of(tracker: &Arc<RequestTracker>) -> Self {
        Self(Some(tracker.clone()))
    }

    /// Ends the request as soon as the client closes its side of the connection, even if it closes only its write half:
    /// the two cannot be distinguished.
    pub fn ends_request(&self) {
        if let Some(tracker) = &self.0 {
            tracker.end_with_client();
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.remove().unwrap_or_default())
    }
}

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
    tracker: Arc<RequestTracker>,
}

impl TrackedBody {
    /// Wraps the body of the request that has just begun.
    pub fn wrap_request(request: Request<Incoming>, tracker: &Arc<RequestTracker>) -> Request<Body> {
        if request.body().is_end_stream() {
            return request.map(|_| Body::empty());
        }
        tracker.expect_body();
        let awaits_continue = request.headers().contains_key(EXPECT);
        let (number, tracker) = (tracker.begun(), tracker.clone());
        request.map(|body| Body::new(Self { body: Some(body), awaits_continue, request: number, tracker }))
    }

    fn end(&mut self) {
        self.body = None;
        self.tracker.end_body();
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
                this.tracker.leave_unread(this.request, Unread::Unknown);
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
        self.tracker.leave_unread(self.request, rest);
        self.tracker.end_body();
    }
}

impl RequestTracker {
    /// Decides whether to keep the connection if the answered request was not read completely.
    pub fn settle_unread(self: &Arc<Self>, response: &mut Response<Body>, closing: CancellationToken) {
        let Some((request, rest)) = self.take_unread() else { return };
        match rest {
            // After a timeout, the rest is not awaited again.
            Unread::Known(body, length) if length <= MAX_READ && response.status() != StatusCode::REQUEST_TIMEOUT => {
                let (tracker, request_guard) = (self.clone(), self.keep_busy());
                tokio::spawn(async move {
                    tokio::select! {
                        whole = discard_body(body) => if whole { tracker.forget_unread(request) },
                        () = tokio::time::sleep(READ_TIMEOUT) => {}
                        () = closing.cancelled() => {}
                    }
                    drop(request_guard);
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
