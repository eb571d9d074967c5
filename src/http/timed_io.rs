//! The I/O of a connection, with timeouts, so that no client keeps a connection open by doing nothing. Bare error
//! responses of the HTTP library are replaced with problem documents.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Problem;
use super::requests::RequestTracker;

/// How long, and up to how many bytes, the connection keeps reading a request that was already answered before it
/// closes.
const FINAL_READ_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_FINAL_READ: usize = 32 << 20;
/// Maximum number of bytes read ahead during a request, to detect that its client disconnects.
const MAX_READ_AHEAD: usize = 1024;

/// The timeouts of a connection. Zero disables a timeout.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// From the first byte of a request to the end of its headers.
    pub header: Duration,
    /// Between two requests, and before the first one.
    pub idle: Duration,
    /// While the client does not read the bytes that are ready for it.
    pub write: Duration,
}

/// Renders a problem as the final response of a connection.
pub(super) type ErrorResponder = Arc<dyn Fn(Problem) -> Bytes + Send + Sync>;

/// A timer that is reset only when it fires too early, because deadlines move often and rarely pass.
#[derive(Default)]
struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The task that is woken when the timer fires.
    wakes: Option<Waker>,
}

impl LazyTimer {
    /// Returns `Ready` once the deadline has passed.
    fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        if self.sleep.as_ref().is_none_or(|sleep| sleep.deadline() > deadline) {
            self.set(deadline);
        }
        while self.has_fired(context) {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.set(deadline);
        }
        Poll::Pending
    }

    /// Keeps the timer armed, so that the task is polled again within this time, regardless of later deadlines.
    fn keep_armed(&mut self, within: Duration, context: &mut Context<'_>) {
        while self.sleep.is_none() || self.has_fired(context) {
            self.set(Instant::now() + within);
        }
    }

    fn set(&mut self, deadline: Instant) {
        self.wakes = None;
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    /// Returns `true` if the timer has fired. Skips polling a sleep that already wakes this task.
    fn has_fired(&mut self, context: &mut Context<'_>) -> bool {
        let Some(sleep) = &mut self.sleep else { return false };
        let is_known = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_known && !sleep.is_elapsed() {
            return false;
        }
        let rings = sleep.as_mut().poll(context).is_ready();
        self.wakes = (!rings).then(|| context.waker().clone());
        rings
    }
}

/// A stream with timeouts.
pub(super) struct TimedIo<S> {
    stream: S,
    clocks: ConnectionTimeouts,
    tracker: Arc<RequestTracker>,
    last_words: ErrorResponder,
    /// Bytes of later requests, read while watching the client of the current one.
    ahead: BytesMut,
    /// Number of requests at the last update, and whether one was in progress.
    seen: u64,
    was_busy: bool,
    /// Time of the last activity; the idle timeout starts here.
    active: Instant,
    /// Whether there was activity since then. The clock is read only once the connection is idle.
    was_active: bool,
    /// Whether the first bytes of a request were received, but not all headers.
    has_begun: bool,
    /// The time when `has_begun` was first seen; the header timeout starts here.
    begun: Option<Instant>,
    read_alarm: LazyTimer,
    /// The time since when the client has not read.
    stalled: Option<Instant>,
    write_alarm: LazyTimer,
    /// Unsent bytes of the response that replaces one of the HTTP library.
    own: Bytes,
    /// The time since when nothing more is written, and the number of bytes discarded since.
    final_response: Option<(Instant, usize)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TimedIo<S> {
    pub fn new(
        stream: S,
        clocks: ConnectionTimeouts,
        tracker: Arc<RequestTracker>,
        last_words: ErrorResponder,
    ) -> Self {
        Self {
            stream,
            clocks,
            tracker,
            last_words,
            ahead: BytesMut::new(),
            seen: 0,
            was_busy: false,
            active: Instant::now(),
            was_active: false,
            has_begun: false,
            begun: None,
            read_alarm: LazyTimer::default(),
            stalled: None,
            write_alarm: LazyTimer::default(),
            own: Bytes::new(),
            final_response: None,
        }
    }

    /// Updates the state after a request has begun or ended.
    fn update_state(&mut self) {
        let (begun, is_busy) = (self.tracker.begun(), self.tracker.is_busy());
        if is_busy || self.was_busy || begun != self.seen {
            (self.seen, self.was_busy) = (begun, is_busy);
            (self.has_begun, self.begun, self.was_active) = (false, None, true);
        }
    }

    /// Returns bytes that were read but not used. The next read returns them first.
    pub fn put_back(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let later = std::mem::replace(&mut self.ahead, BytesMut::from(bytes));
            self.ahead.extend_from_slice(&later);
        }
    }

    /// Checks the header and idle timeouts while no bytes are available.
    fn poll_read_timeout(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let idle = self.clocks.idle;
        // A request in progress and an unread response have their own timeouts. The timer stays armed, because the
        // connection may not be polled again when they end.
        if self.tracker.is_busy() || self.stalled.is_some() {
            if !idle.is_zero() {
                self.read_alarm.keep_armed(idle, context);
            }
            return Poll::Pending;
        }
        if std::mem::take(&mut self.was_active) {
            self.active = Instant::now();
        }
        if self.has_begun && self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
        let (since, timeout) = self.begun.map_or((self.active, idle), |begun| (begun, self.clocks.header));
        if timeout.is_zero() {
            return Poll::Pending;
        }
        ready!(self.read_alarm.poll(since + timeout, context));
        if self.begun.is_some() {
            let words = (self.last_words)(Problem::timeout("headers", timeout));
            // Best effort: a slow client does not get further time to read the response.
            let _ = Pin::new(&mut self.stream).poll_write(context, &words);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Checks the write timeout while the client does not read.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let since = *self.stalled.get_or_insert_with(Instant::now);
        if self.clocks.write.is_zero() {
            return Poll::Pending;
        }
        self.write_alarm.poll(since + self.clocks.write, context).map(|()| io::ErrorKind::TimedOut.into())
    }

    fn after_write(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.tracker.set_stalled(written.is_pending());
        match written {
            Poll::Pending => self.poll_stalled(context).map(Err),
            done => {
                (self.stalled, self.was_active) = (None, true);
                done
            }
        }
    }

    /// Returns `true` if `said` is an error response of the HTTP library, and prepares its replacement.
    fn replace_bare_error(&mut self, response: &[u8]) -> bool {
        if self.tracker.is_busy() {
            return false;
        }
        let Some(status) = bare_error_status(response) else { return false };
        self.own = (self.last_words)(match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Problem::head_too_large(status),
            _ => Problem::bad_request("the request is not valid HTTP/1.1"),
        });
        true
    }

    /// Discards incoming bytes until the client closes. Closing with unread bytes would reset the connection and
    /// destroy the response in transit.
    fn poll_final_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (since, mut read) = *self.final_response.get_or_insert_with(|| (Instant::now(), 0));
        let mut nothing = [0; 8192];
        while read < MAX_FINAL_READ && since.elapsed() < FINAL_READ_TIMEOUT {
            let mut buf = ReadBuf::new(&mut nothing);
            match Pin::new(&mut self.stream).poll_read(context, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => read += buf.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.final_response = Some((since, read));
                    return self.read_alarm.poll(since + FINAL_READ_TIMEOUT, context);
                }
            }
        }
        Poll::Ready(())
    }

    /// Fails if the client has closed its side. Called only for requests that end with their client.
    fn poll_client(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut bytes = [0; MAX_READ_AHEAD];
        while self.ahead.len() < MAX_READ_AHEAD {
            let mut buf = ReadBuf::new(&mut bytes[self.ahead.len()..]);
            match Pin::new(&mut self.stream).poll_read(context, &mut buf) {
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            if buf.filled().is_empty() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.ahead.extend_from_slice(buf.filled());
        }
        Ok(())
    }

    fn poll_replacement(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.own.has_remaining() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.own);
            match ready!(self.after_write(written, context))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.own.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the status of an error response without a body. Only the HTTP library sends those, for invalid requests.
fn bare_error_status(response: &[u8]) -> Option<StatusCode> {
    let is_bare = response.starts_with(b"HTTP/1.1 4")
        && response.ends_with(b"\r\n\r\n")
        && response.windows(21).any(|part| part == b"\r\ncontent-length: 0\r\n");
    is_bare.then(|| StatusCode::from_bytes(response.get(9..12)?).ok()).flatten()
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        this.update_state();
        let read = match this.ahead.len().min(buf.remaining()) {
            0 => Pin::new(&mut this.stream).poll_read(context, buf),
            count => {
                buf.put_slice(&this.ahead.split_to(count));
                Poll::Ready(Ok(()))
            }
        };
        match read {
            Poll::Pending => this.poll_read_timeout(context),
            done => {
                let has_read = buf.filled().len() > before;
                if has_read && !this.tracker.is_busy() {
                    this.has_begun = true;
                }
                done
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(context))?;
        if this.replace_bare_error(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut this.stream).poll_write(context, buf);
        this.after_write(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(context))?;
        if let [only] = bufs
            && this.replace_bare_error(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, bufs);
        this.after_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(context))?;
        // The HTTP library flushes on every poll of the connection, and does not read during a request.
        if this.tracker.ends_with_client(context) {
            this.poll_client(context)?;
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_replacement(context))?;
        if this.final_response.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if this.tracker.has_unread() {
            ready!(this.poll_final_read(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
