//! A connection as the service sees it: what is read and written goes through clocks, so that nobody keeps a connection by
//! doing nothing. What the HTTP library answers by itself becomes a problem document.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::problem::Problem;
use super::turns::RequestTracker;

/// How long, and how much, is still read of a request that has been answered already, before its connection is closed.
const PARTING: Duration = Duration::from_secs(2);
const MOST_AT_PARTING: usize = 32 << 20;
/// Maximum number of bytes that are read ahead of a request in work, to see whether its client leaves.
const MOST_AHEAD: usize = 1024;

/// How long a client may do nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// Between the first byte of a request and the end of its headers.
    pub header: Duration,
    /// Between two requests, and before the first.
    pub idle: Duration,
    /// With something to be read by it that it does not read.
    pub write: Duration,
}

/// Makes an answer of a problem, for a connection that ends with it.
pub(super) type ErrorResponder = Arc<dyn Fn(Problem) -> Bytes + Send + Sync>;

/// A clock that is mostly not looked at: it is set again only when it has run out too early.
#[derive(Default)]
struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Who is woken when it rings.
    wakes: Option<Waker>,
}

impl LazyTimer {
    /// Ready once the deadline has passed.
    fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        if self.sleep.as_ref().is_none_or(|sleep| sleep.deadline() > deadline) {
            self.set(deadline);
        }
        while self.rings(context) {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.set(deadline);
        }
        Poll::Pending
    }

    /// Has somebody look again within this time, whatever the deadline will be then.
    fn keep(&mut self, within: Duration, context: &mut Context<'_>) {
        while self.sleep.is_none() || self.rings(context) {
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

    /// Whether it has run out. A sleep that will wake the same task already is not asked.
    fn rings(&mut self, context: &mut Context<'_>) -> bool {
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

/// A stream with clocks.
pub(super) struct TimedIo<S> {
    stream: S,
    clocks: ConnectionTimeouts,
    turns: Arc<RequestTracker>,
    last_words: ErrorResponder,
    /// Bytes of later requests, read while the client of this one was watched.
    ahead: BytesMut,
    /// Requests that had begun at the last look, and whether one was in work.
    seen: u64,
    was_busy: bool,
    /// When something was last done here: from then on the next request is waited for.
    active: Instant,
    /// Something was done since then: the clock is looked at once nothing more is to be done.
    was_active: bool,
    /// The first bytes of a request have come whose headers are not complete.
    has_begun: bool,
    /// When that was seen to be so.
    begun: Option<Instant>,
    read_alarm: LazyTimer,
    /// Since when the other side takes nothing.
    stalled: Option<Instant>,
    write_alarm: LazyTimer,
    /// What goes out in the place of what the HTTP library wanted to say.
    own: Bytes,
    /// Since when nothing more is written, and what was thrown away meanwhile.
    final_response: Option<(Instant, usize)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TimedIo<S> {
    pub fn new(stream: S, clocks: ConnectionTimeouts, turns: Arc<RequestTracker>, last_words: ErrorResponder) -> Self {
        Self {
            stream,
            clocks,
            turns,
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

    /// Takes notice of requests that have begun or are done with.
    fn look(&mut self) {
        let (begun, is_busy) = (self.turns.begun(), self.turns.is_busy());
        if is_busy || self.was_busy || begun != self.seen {
            (self.seen, self.was_busy) = (begun, is_busy);
            (self.has_begun, self.begun, self.was_active) = (false, None, true);
        }
    }

    /// Nothing more has come: is that still in time?
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let idle = self.clocks.idle;
        // Whoever works on a request has clocks of its own, and so has an answer that is still being read. The alarm is
        // kept all the same: nobody may look again once that is over.
        if self.turns.is_busy() || self.stalled.is_some() {
            if !idle.is_zero() {
                self.read_alarm.keep(idle, context);
            }
            return Poll::Pending;
        }
        if std::mem::take(&mut self.was_active) {
            self.active = Instant::now();
        }
        if self.has_begun && self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
        let (since, patience) = self.begun.map_or((self.active, idle), |begun| (begun, self.clocks.header));
        if patience.is_zero() {
            return Poll::Pending;
        }
        ready!(self.read_alarm.poll(since + patience, context));
        if self.begun.is_some() {
            let words = (self.last_words)(Problem::headers_timeout(patience));
            // Said as far as it fits into the socket: whoever is too slow is not waited for again.
            let _ = Pin::new(&mut self.stream).poll_write(context, &words);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing more can be written: is that still in time?
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let since = *self.stalled.get_or_insert_with(Instant::now);
        if self.clocks.write.is_zero() {
            return Poll::Pending;
        }
        self.write_alarm.poll(since + self.clocks.write, context).map(|()| io::ErrorKind::TimedOut.into())
    }

    fn after_write(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.poll_stalled(context).map(Err),
            done => {
                (self.stalled, self.was_active) = (None, true);
                done
            }
        }
    }

    /// Takes down what the HTTP library says by itself, and what is said instead.
    fn replaces(&mut self, said: &[u8]) -> bool {
        if self.turns.is_busy() {
            return false;
        }
        let Some(status) = bare_error_status(said) else { return false };
        self.own = (self.last_words)(match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Problem::head_too_large(status),
            _ => Problem::malformed_http(),
        });
        true
    }

    /// Reads what still comes, and lets the other side close: a connection that is closed on unread bytes is reset, and the
    /// answer that is on its way destroyed with it.
    fn poll_parting(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (since, mut read) = *self.final_response.get_or_insert_with(|| (Instant::now(), 0));
        let mut nothing = [0; 8192];
        while read < MOST_AT_PARTING && since.elapsed() < PARTING {
            let mut buf = ReadBuf::new(&mut nothing);
            match Pin::new(&mut self.stream).poll_read(context, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => read += buf.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.final_response = Some((since, read));
                    return self.read_alarm.poll(since + PARTING, context);
                }
            }
        }
        Poll::Ready(())
    }

    /// Fails once the client of a request that ends with it has closed its side.
    fn poll_client(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut bytes = [0; MOST_AHEAD];
        while self.ahead.len() < MOST_AHEAD {
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

    fn poll_own(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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

/// The status of a refusal without a body, which is what the HTTP library answers to what is no request. All of ours have
/// a body.
fn bare_error_status(said: &[u8]) -> Option<StatusCode> {
    let is_bare = said.starts_with(b"HTTP/1.1 4")
        && said.ends_with(b"\r\n\r\n")
        && said.windows(21).any(|part| part == b"\r\ncontent-length: 0\r\n");
    is_bare.then(|| StatusCode::from_bytes(said.get(9..12)?).ok()).flatten()
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        this.look();
        let read = match this.ahead.len().min(buf.remaining()) {
            0 => Pin::new(&mut this.stream).poll_read(context, buf),
            count => {
                buf.put_slice(&this.ahead.split_to(count));
                Poll::Ready(Ok(()))
            }
        };
        match read {
            Poll::Pending => this.poll_patience(context),
            done => {
                let has_read = buf.filled().len() > before;
                if has_read && !this.turns.is_busy() {
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
        ready!(this.poll_own(context))?;
        if this.replaces(buf) {
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
        ready!(this.poll_own(context))?;
        if let [only] = bufs
            && this.replaces(only)
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
        ready!(this.poll_own(context))?;
        // The HTTP library flushes whenever it looks at the connection, and does not read while a request is in work.
        if this.turns.ends_with_client(context) {
            this.poll_client(context)?;
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_own(context))?;
        if this.final_response.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if this.turns.has_unread() {
            ready!(this.poll_parting(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
