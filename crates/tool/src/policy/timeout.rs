//! Timeouts of attempts. When one expires, the future of the attempt is dropped, which closes its connection.

use std::time::Duration;

use tokio::time::Instant;

use crate::executor::{BoxFuture, Emitter, Invocation};
use toolpost_core::domain::{Failure, ToolOutput};

/// Waits until the tool has reported nothing for `idle_ms`.
async fn silence(emitter: &Emitter, idle_ms: Option<u64>) {
    let idle = Duration::from_millis(idle_ms.unwrap_or(u64::MAX));
    let begun = Instant::now();
    loop {
        let due = emitter.last_activity().map_or(begun, |sign| sign.max(begun)) + idle;
        if due <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(due).await;
    }
}

/// Runs an attempt within its `timeout_ms`, and with at most `idle_timeout_ms` between two of its reports.
pub fn run_within(
    invocation: Invocation,
    execute: impl FnOnce(Invocation) -> BoxFuture<Result<ToolOutput, Failure>>,
) -> BoxFuture<Result<ToolOutput, Failure>> {
    let (after_ms, idle_ms) = (invocation.timeout_ms, invocation.idle_timeout_ms);
    let left = Duration::from_millis(after_ms.saturating_sub(invocation.elapsed_ms));
    let (emitter, cancel) = (invocation.emitter.clone(), invocation.cancel.clone());
    let run = execute(invocation);
    Box::pin(async move {
        tokio::select! {
            biased;
            ended = run => ended,
            // The timer is created only if the attempt does not end immediately.
            () = async { tokio::time::sleep(left).await } => {
                cancel.cancel();
                Err(Failure::timeout(after_ms, "timeout_ms"))
            }
            () = async { silence(&emitter, idle_ms).await }, if idle_ms.is_some() => {
                cancel.cancel();
                Err(Failure::timeout(idle_ms.unwrap_or_default(), "idle_timeout_ms"))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;

    use super::*;
    use crate::executor::{ResultSlot, emitter};
    use toolpost_core::domain::Code;
    use toolpost_core::domain::call::StatusUpdate;

    fn invocation(timeout_ms: u64, idle_timeout_ms: Option<u64>, elapsed_ms: u64) -> Invocation {
        let (emitter, reports) = emitter::channel();
        // Keeps the channel open for the whole test; no test reads the reports.
        std::mem::forget(reports);
        Invocation {
            id: Uuid::nil(),
            tenant: toolpost_core::domain::Tenant::default(),
            allowed: None,
            call_id: "c".into(),
            name: "t".into(),
            naming: toolpost_core::domain::Naming::default(),
            arguments: Arc::new(Value::Null),
            context: Arc::default(),
            agent: None,
            redaction: None,
            session: None,
            session_snapshot: None,
            attempt: 1,
            output: toolpost_core::domain::limits::Bounds::default(),
            timeout_ms,
            elapsed_ms,
            idle_timeout_ms,
            awaits_external: false,
            result_slot: ResultSlot::default(),
            traceparent: None,
            emitter,
            cancel: CancellationToken::new(),
        }
    }

    /// Runs a tool that reports `times` times, every `every_ms` milliseconds, and then never returns.
    async fn run(invocation: Invocation, every_ms: u64, times: u64) -> (Failure, u128, bool) {
        let (begun, cancel) = (Instant::now(), invocation.cancel.clone());
        let tool = move |invocation: Invocation| -> BoxFuture<Result<ToolOutput, Failure>> {
            Box::pin(async move {
                for _ in 0..times {
                    tokio::time::sleep(Duration::from_millis(every_ms)).await;
                    invocation.emitter.status(StatusUpdate { tip: Some("on it".into()), ..StatusUpdate::default() });
                }
                std::future::pending().await
            })
        };
        let failure = run_within(invocation, tool).await.unwrap_err();
        (failure, begun.elapsed().as_millis(), cancel.is_cancelled())
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_ends_at_its_timeout_and_is_cancelled() {
        let (failure, after, is_cancelled) = run(invocation(30_000, None, 0), 1000, 100).await;
        assert_eq!((failure.code, after, is_cancelled), (Code::ToolTimeout, 30_000, true));
        assert_eq!(failure.text, "Error: Tool execution timeout after 30000ms (timeout_ms)");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_an_attempt_and_reports_extend_it() {
        let (failure, after, is_cancelled) = run(invocation(60_000, Some(5000), 0), 4000, 3).await;
        assert_eq!((after, is_cancelled), (3 * 4000 + 5000, true));
        assert_eq!(failure.text, "Error: Tool execution timeout after 5000ms (idle_timeout_ms)");
        let (failure, after, _) = run(invocation(10_000, Some(5000), 0), 4000, 100).await;
        assert_eq!((failure.text.ends_with("(timeout_ms)"), after), (true, 10_000));
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_that_passed_before_a_restart_applies() {
        let (failure, after, _) = run(invocation(10_000, None, 9_000), 1, 0).await;
        assert_eq!((failure.text.contains("after 10000ms"), after), (true, 1000));
        assert_eq!(run(invocation(10_000, None, 99_000), 1, 0).await.1, 0);
    }
}
