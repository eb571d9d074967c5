//! Backoff between two attempts. Its end is published and stored, and a restart does not shorten it.

use std::time::Duration;

use super::interrupt::{Race, Shutdown};
use super::state::{Ongoing, RunExit};
use crate::domain::call::{Phase, StatusUpdate};
use crate::domain::{Clock, Failure, Time};
use crate::engine::live::LiveCalls;

/// The wait between two attempts of a call.
#[derive(Debug)]
pub(super) struct Backoff<'a> {
    pub clock: &'a Clock,
    pub live: &'a LiveCalls,
    pub shutdown: &'a Shutdown,
}

impl Backoff<'_> {
    /// Waits for the next attempt, and publishes when it is due.
    pub async fn wait_backoff(
        &self,
        job: &mut Ongoing,
        wait: Duration,
        most: u32,
        failure: &Failure,
    ) -> Result<(), RunExit> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let next = job.call.attempts + 1;
        let retry = serde_json::json!({
            "attempt": next, "max_attempts": most, "next_attempt_at": self.clock.now().plus_millis(wait_ms),
            "wait_ms": wait_ms, "error": {"code": failure.code, "message": failure.message},
        });
        job.register(self.live);
        if !job.recorder.has_announced_start() {
            let change = job.recorder.change(&job.call);
            let _ = job.recorder.journal().enqueue(change).await;
        }
        let update = StatusUpdate {
            phase: Some(Phase::Retrying),
            tip: Some(format!("Attempt {next} of {most} in {:.1} s", wait.as_secs_f64())),
            metadata: [("retry".to_owned(), retry)].into_iter().collect(),
            ..StatusUpdate::default()
        };
        job.call.update(update).map_err(|error| Failure::execution(&job.call.name, error.to_string()))?;
        let change = job.status_change();
        let _ = job.recorder.journal().enqueue(change).await;
        self.sleep_until_due(job, wait).await
    }

    /// Waits for the rest of a backoff that began before a restart.
    pub async fn resume(&self, job: &mut Ongoing) -> Result<(), RunExit> {
        let rest = job.call.metadata.get("retry").filter(|_| job.call.phase == Phase::Retrying);
        let left_ms = rest.and_then(|rest| {
            let due = Time::parse(rest["next_attempt_at"].as_str()?)?;
            // Bounded by the original wait, in case the clock was set back.
            Some(due.millis_since(self.clock.now()).min(rest["wait_ms"].as_u64()?))
        });
        match left_ms {
            Some(left_ms) => self.sleep_until_due(job, Duration::from_millis(left_ms)).await,
            None => Ok(()),
        }
    }

    async fn sleep_until_due(&self, job: &Ongoing, wait: Duration) -> Result<(), RunExit> {
        let race = Race::new(&job.handle.cancel, self.shutdown).left_on_drain(job.is_queued, self.shutdown);
        Ok(race.run(tokio::time::sleep(wait)).await?)
    }
}
