//! Interruption of calls: the only place where a step races against cancellation, the drain, the shutdown and a
//! deadline.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Delay before a waiting call or a running read-only call is announced to subscribers. A shorter call is written once,
/// at its end.
pub(crate) const ANNOUNCE_AFTER: Duration = Duration::from_millis(10);

/// The two signals of a shutdown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// Fires when the drain begins. Detached calls that wait are left to the next start.
    pub drain: CancellationToken,
    /// Fires at the deadline of the drain. Calls that still run are settled as `SHUTTING_DOWN`.
    pub stop: CancellationToken,
}

/// The reason why a step was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The call was cancelled.
    Cancelled,
    /// The service drains. The next start continues the call.
    Drained,
    /// The service stops now.
    Stopping,
    /// A limit has passed: its value in milliseconds, and its name.
    TimedOut(u64, &'static str),
}

/// A point in time at which a step is abandoned, and the limit that sets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub at: Instant,
    limit_ms: u64,
    name: &'static str,
}

impl Deadline {
    /// Creates the deadline of a limit in milliseconds, less the time already spent. Returns `None` if the limit
    /// exceeds the range of the clock.
    pub fn of(limit_ms: u64, spent_ms: u64, name: &'static str) -> Option<Self> {
        let at = Instant::now().checked_add(Duration::from_millis(limit_ms.saturating_sub(spent_ms)))?;
        Some(Self { at, limit_ms, name })
    }
}

/// A race of one step of a call against its interruptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Race<'a> {
    cancel: Option<&'a CancellationToken>,
    drain: Option<&'a CancellationToken>,
    stop: Option<&'a CancellationToken>,
    deadline: Option<Deadline>,
    is_work_first: bool,
}

impl<'a> Race<'a> {
    /// Creates a race against cancellation of the call and the stop of the service.
    pub fn new(cancel: &'a CancellationToken, shutdown: &'a Shutdown) -> Self {
        Self { stop: Some(&shutdown.stop), ..Self::against_cancel(cancel) }
    }

    /// Creates a race against cancellation of the call only.
    pub fn against_cancel(cancel: &'a CancellationToken) -> Self {
        Self { cancel: Some(cancel), drain: None, stop: None, deadline: None, is_work_first: false }
    }

    /// Creates a race against the stop of the service only.
    pub fn against_stop(shutdown: &'a Shutdown) -> Self {
        Self { cancel: None, drain: None, stop: Some(&shutdown.stop), deadline: None, is_work_first: false }
    }

    /// Adds the drain if `is_left`: the next start then continues the call.
    pub fn left_on_drain(self, is_left: bool, shutdown: &'a Shutdown) -> Self {
        Self { drain: is_left.then_some(&shutdown.drain), ..self }
    }

    /// Adds a deadline.
    pub fn until(self, deadline: Option<Deadline>) -> Self {
        Self { deadline, ..self }
    }

    /// Gives completed work precedence over a simultaneous interruption.
    pub fn work_first(self) -> Self {
        Self { is_work_first: true, ..self }
    }

    /// Waits for the work or for the first interruption, which drops the work.
    ///
    /// # Errors
    /// Returns the first [`Interrupt`].
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        self.run_announcing(None, async {}, work).await
    }

    /// Like [`Race::run`], but also runs `announce` at the given time if the work has not ended by then. An
    /// announcement that has begun is completed.
    ///
    /// # Errors
    /// Returns the first [`Interrupt`].
    pub async fn run_announcing<T>(
        self,
        announce_at: Option<Instant>,
        announce: impl Future<Output = ()>,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        let Self { deadline, is_work_first, .. } = self;
        let (mut work, mut interrupted) = (pin!(work), pin!(self.interrupted()));
        let mut expired = pin!(sleep_until(deadline.map(|deadline| deadline.at)));
        let mut due = pin!(sleep_until(announce_at));
        let mut announce = pin!(announce);
        let mut is_announced = announce_at.is_none();
        loop {
            let next = poll_fn(|context| {
                if is_work_first && let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(Ok(done)));
                }
                if let Poll::Ready(interrupt) = interrupted.as_mut().poll(context) {
                    return Poll::Ready(Some(Err(interrupt)));
                }
                if !is_work_first && let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(Ok(done)));
                }
                if let Some(Deadline { limit_ms, name, .. }) = deadline
                    && expired.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(Some(Err(Interrupt::TimedOut(limit_ms, name))));
                }
                if !is_announced && due.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                Poll::Pending
            });
            if let Some(end) = next.await {
                return end;
            }
            is_announced = true;
            announce.as_mut().await;
        }
    }

    async fn interrupted(self) -> Interrupt {
        tokio::select! {
            biased;
            () = fired(self.cancel) => Interrupt::Cancelled,
            () = fired(self.drain) => Interrupt::Drained,
            () = fired(self.stop) => Interrupt::Stopping,
        }
    }
}

async fn fired(signal: Option<&CancellationToken>) {
    match signal {
        Some(signal) => signal.cancelled().await,
        None => pending().await,
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn completed_work_ends_the_race() {
        let (cancel, shutdown) = (CancellationToken::new(), Shutdown::default());
        assert_eq!(Race::new(&cancel, &shutdown).run(ready(5)).await, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn each_signal_interrupts_the_step_that_listens_to_it() {
        let (cancel, shutdown) = (CancellationToken::new(), Shutdown::default());
        shutdown.drain.cancel();
        let race = Race::new(&cancel, &shutdown);
        assert_eq!(race.left_on_drain(true, &shutdown).run(pending::<()>()).await, Err(Interrupt::Drained));
        assert_eq!(race.left_on_drain(false, &shutdown).run(ready(1)).await, Ok(1));
        shutdown.stop.cancel();
        assert_eq!(race.run(pending::<()>()).await, Err(Interrupt::Stopping));
        assert_eq!(Race::against_stop(&shutdown).run(pending::<()>()).await, Err(Interrupt::Stopping));
        cancel.cancel();
        assert_eq!(race.run(pending::<()>()).await, Err(Interrupt::Cancelled));
        assert_eq!(Race::against_cancel(&cancel).run(pending::<()>()).await, Err(Interrupt::Cancelled));
    }

    #[tokio::test(start_paused = true)]
    async fn cancellation_wins_unless_work_has_precedence() {
        let (cancel, shutdown) = (CancellationToken::new(), Shutdown::default());
        cancel.cancel();
        let race = Race::new(&cancel, &shutdown);
        assert_eq!(race.run(ready(1)).await, Err(Interrupt::Cancelled));
        assert_eq!(race.work_first().run(ready(1)).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn earlier_deadline_interrupts_with_its_limit() {
        let (cancel, shutdown) = (CancellationToken::new(), Shutdown::default());
        let long = Deadline::of(1_000, 0, "timeout_ms");
        let short = Deadline::of(2_000, 1_500, "queue_timeout_ms");
        let race =
            Race::new(&cancel, &shutdown).until(long.into_iter().chain(short).min_by_key(|deadline| deadline.at));
        assert_eq!(race.run(pending::<()>()).await, Err(Interrupt::TimedOut(2_000, "queue_timeout_ms")));
    }

    #[tokio::test(start_paused = true)]
    async fn long_step_is_announced_once() {
        let (cancel, shutdown) = (CancellationToken::new(), Shutdown::default());
        let (mut announced, at) = (0, Instant::now() + ANNOUNCE_AFTER);
        let race = Race::new(&cancel, &shutdown);
        let work = tokio::time::sleep(ANNOUNCE_AFTER * 10);
        assert_eq!(race.run_announcing(Some(at), async { announced += 1 }, work).await, Ok(()));
        assert_eq!(announced, 1);
    }
}
