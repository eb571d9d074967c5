//! `wait`: waits in steps.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::tool::{DefinitionBuilder, Run, Tool, ToolError};

/// Maximum wait, in milliseconds.
const MAX_MS: u64 = 300_000;

/// Margin between the maximum wait and the tool's timeout, in milliseconds: the wait must end before the timeout.
const GRACE_MS: u64 = 10_000;

/// The tool `wait`. It reports progress after each step; cancelling the call ends the wait.
#[derive(Debug, Clone, Copy)]
pub struct Wait;

/// Waits for a number of milliseconds, up to five minutes, and reports progress.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitArgs {
    /// How long to wait, in milliseconds.
    #[schemars(range(max = 300_000))]
    pub ms: u64,
    /// The number of equal steps; progress is reported after each step.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub steps: u32,
}

fn one() -> u32 {
    1
}

impl Tool for Wait {
    const NAME: &'static str = "wait";
    type Args = WaitArgs;
    type Output = String;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Wait")
            .category(super::CATEGORY)
            .example(json!({"ms": 50}), "Waited 50 ms")
            .example(json!({"ms": 10_000, "steps": 10}), "Waited 10000 ms")
            .read_only()
            .closed_world()
            .timeout_ms(MAX_MS + GRACE_MS)
    }

    async fn call(&self, WaitArgs { ms, steps }: WaitArgs, run: Run) -> Result<String, ToolError> {
        let start = Instant::now();
        for step in 1..=steps {
            // Each step ends at its own absolute time, so that delays do not add up.
            let passed_ms = ms * u64::from(step) / u64::from(steps);
            sleep_until(start + Duration::from_millis(passed_ms)).await;
            run.progress(step, steps, format!("{passed_ms} of {ms} ms"));
        }
        Ok(format!("Waited {ms} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::emitter::Report;
    use crate::tool::BuiltinTool;
    use crate::tool::typed::tests::invocation;
    use toolpost_core::domain::ToolOutput;

    #[tokio::test(start_paused = true)]
    async fn wait_takes_exactly_the_requested_time() {
        for (ms, steps) in [(0, 1), (50, 1), (300_000, 7)] {
            let start = Instant::now();
            let answer = BuiltinTool::new(Wait).invoke(json!({"ms": ms, "steps": steps})).await;
            assert_eq!(answer, Ok(ToolOutput::Text(format!("Waited {ms} ms"))));
            assert_eq!(start.elapsed(), Duration::from_millis(ms));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_reported_after_each_step() {
        let (invocation, mut reports) = invocation(json!({"ms": 100, "steps": 4}));
        let mut running = BuiltinTool::new(Wait).executor.execute(invocation);
        let mut seen = Vec::new();
        loop {
            tokio::select! {
                biased;
                Report::Status(update) = reports.next() => seen.push(update.progress.unwrap()),
                answer = &mut running => {
                    answer.unwrap();
                    break;
                }
            }
        }
        seen.extend(reports.take().map(|report| match report {
            Report::Status(update) => update.progress.unwrap(),
            Report::Emission(_) => unreachable!(),
        }));
        let reported: Vec<_> = seen.iter().map(|p| (p.current, p.total, p.message.as_deref().unwrap())).collect();
        let expected = [(1.0, "25 of 100 ms"), (2.0, "50 of 100 ms"), (3.0, "75 of 100 ms"), (4.0, "100 of 100 ms")];
        assert_eq!(reported, expected.map(|(current, message)| (current, Some(4.0), message)));
    }

    #[test]
    fn timeout_exceeds_the_maximum_wait_of_the_schema() {
        let definition = BuiltinTool::new(Wait).definition;
        assert_eq!(definition.limits.timeout_ms, Some(310_000));
        let ms = &definition.input_schema["properties"]["ms"];
        assert_eq!((&ms["minimum"], &ms["maximum"]), (&json!(0), &json!(MAX_MS)));
        let steps = &definition.input_schema["properties"]["steps"];
        assert_eq!((&steps["minimum"], &steps["maximum"], &steps["default"]), (&json!(1), &json!(100), &json!(1)));
        assert_eq!(definition.input_schema["required"], json!(["ms"]));
    }
}
