//! Retries of failed attempts: whether and when a call is retried (docs/reference/contract.md, section 4), and the wait
//! for the next attempt. The end of the wait is published and stored, and a restart does not shorten it.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::run::CallRun;
use super::run_exit::RunExit;
use super::wait::Waiter;
use toolpost_core::domain::call::{Phase, StatusUpdate};
use toolpost_core::domain::tool::RetrySpec;
use toolpost_core::domain::{Failure, Time, ToolDefinition};

/// Maximum `retry_after_ms` of a failure that is still retried. Beyond it the call ends, and its failure names the
/// time.
const MAX_RETRY_AFTER_MS: u64 = 600_000;

/// Waits for the next attempt, and publishes when it is due.
pub(super) async fn wait_backoff(
    waiter: Waiter<'_>,
    run: &mut CallRun,
    wait: Duration,
    max_attempts: u32,
    failure: &Failure,
) -> Result<(), RunExit> {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let next = run.call().attempts + 1;
    let retry = serde_json::json!({
        "attempt": next, "max_attempts": max_attempts, "next_attempt_at": waiter.clock.now().plus_millis(wait_ms),
        "wait_ms": wait_ms, "error": {"code": failure.code, "message": failure.message},
    });
    let update = StatusUpdate {
        phase: Some(Phase::Retrying),
        tip: Some(format!("Attempt {next} of {max_attempts} in {:.1} s", wait.as_secs_f64())),
        metadata: [("retry".to_owned(), retry)].into_iter().collect(),
        ..StatusUpdate::default()
    };
    run.publish(update, waiter.clock.now()).await?;
    Ok(waiter.wait(run, Instant::now(), None, tokio::time::sleep(wait)).await?)
}

/// Waits for the rest of a backoff that began before a restart.
pub(super) async fn resume_backoff(waiter: Waiter<'_>, run: &mut CallRun) -> Result<(), RunExit> {
    let call = run.call();
    let rest = call.metadata.get("retry").filter(|_| call.phase == Phase::Retrying);
    let left_ms = rest.and_then(|rest| {
        let due = Time::parse(rest["next_attempt_at"].as_str()?)?;
        // Bounded by the original wait, in case the clock was set back.
        Some(due.millis_since(waiter.clock.now()).min(rest["wait_ms"].as_u64()?))
    });
    let Some(left_ms) = left_ms else { return Ok(()) };
    Ok(waiter.wait(run, Instant::now(), None, tokio::time::sleep(Duration::from_millis(left_ms))).await?)
}

/// Returns the wait before the next attempt, or `None` if the failure is final. `random` is at least 0 and below 1.
pub(super) fn wait(
    definition: &ToolDefinition,
    retry: &RetrySpec,
    attempts: u32,
    failure: &Failure,
    random: f64,
) -> Option<Duration> {
    let may = failure.retryable && (definition.is_repeatable() || failure.not_sent);
    if !may || attempts >= retry.max_attempts {
        return None;
    }
    let rest = failure.retry_after_ms.unwrap_or(0);
    if rest > MAX_RETRY_AFTER_MS {
        return None;
    }
    Some(backoff(retry, attempts, random).max(Duration::from_millis(rest)))
}

/// Computes exponential backoff with a maximum. The fraction `jitter` of it is random.
fn backoff(retry: &RetrySpec, attempts: u32, random: f64) -> Duration {
    let doublings = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
    let whole = retry.initial_backoff_ms as f64 * retry.backoff_multiplier.powi(doublings);
    let whole = whole.min(retry.max_backoff_ms as f64);
    Duration::from_secs_f64((whole * (1.0 - retry.jitter * random)).max(0.0) / 1000.0)
}

/// Derives a number of at least 0 and below 1 from the random part of an id (RFC 9562, section 5.7).
pub(super) fn random_of(id: Uuid) -> f64 {
    let low = id.as_u128() as u64 & ((1 << 53) - 1);
    low as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use toolpost_core::domain::Code;

    fn tool(read_only: bool, idempotent: bool) -> ToolDefinition {
        let mut tool = toolpost_core::domain::tool::read_definition(serde_json::json!({
            "name": "t", "input_schema": {"type": "object"}, "executor": {"type": "external"},
        }))
        .unwrap();
        (tool.annotations.read_only, tool.annotations.idempotent) = (read_only, idempotent);
        tool
    }

    fn three() -> RetrySpec {
        RetrySpec { max_attempts: 3, jitter: 0.0, ..RetrySpec::default() }
    }

    #[test]
    fn only_retryable_failures_of_repeatable_tools_are_retried() {
        let passing = Failure::execution("t", "503").retryable(None);
        let own = Failure::execution("t", "no such city");
        for (read_only, idempotent) in [(true, false), (false, true)] {
            assert!(wait(&tool(read_only, idempotent), &three(), 1, &passing, 0.0).is_some());
            assert!(wait(&tool(read_only, idempotent), &three(), 1, &own, 0.0).is_none());
        }
        assert_eq!(own.code, Code::ToolExecutionError);
        assert!(wait(&tool(false, false), &three(), 1, &passing, 0.0).is_none());
        assert!(wait(&tool(false, false), &three(), 1, &passing.clone().never_left(), 0.0).is_some());
        assert!(wait(&tool(true, true), &RetrySpec::default(), 1, &passing, 0.0).is_none(), "one attempt by default");
        assert!(wait(&tool(true, true), &three(), 3, &passing, 0.0).is_none());
    }

    #[test]
    fn backoff_grows_to_its_maximum_and_respects_retry_after() {
        let seconds = |attempts, failure: &Failure| {
            wait(&tool(true, true), &RetrySpec { max_attempts: 9, ..three() }, attempts, failure, 0.0)
                .map(|wait| wait.as_millis())
        };
        let plain = Failure::execution("t", "503").retryable(None);
        let waits: Vec<_> = (1..=6).map(|attempts| seconds(attempts, &plain).unwrap()).collect();
        assert_eq!(waits, [1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(seconds(1, &plain.clone().retryable(Some(30_000))), Some(30_000));
        assert_eq!(seconds(1, &plain.retryable(Some(600_001))), None);
    }

    proptest! {
        #[test]
        fn jitter_only_shortens_and_by_its_share_at_most(
            attempts in 1_u32..200, jitter in 0.0..=1.0_f64, random in 0.0..1.0_f64, initial in 0_u64..100_000,
        ) {
            let retry = RetrySpec { jitter, initial_backoff_ms: initial, ..three() };
            let (whole, short) = (backoff(&retry, attempts, 0.0), backoff(&retry, attempts, random));
            prop_assert!(short <= whole && short.as_secs_f64() >= whole.as_secs_f64() * (1.0 - jitter) - 1e-6);
            prop_assert!(whole.as_millis() as u64 <= retry.max_backoff_ms);
        }

        #[test]
        fn any_id_gives_a_number_below_one(id in any::<u128>()) {
            prop_assert!((0.0..1.0).contains(&random_of(Uuid::from_u128(id))));
        }
    }
}
