//! Conversion of the end of a program to the outcome of its call.

use serde_json::{Map, Value};

use super::output::Output;
use super::protocol::ExitReport;
use super::tail::{self, Tail};
use crate::domain::limits::Bounds;
use crate::domain::{Failure, Outcome, ToolOutput, outcome_of};
use crate::executor::Redaction;

/// Bytes and lines reserved for the error message and the exit status.
const RESERVED: (u64, u64) = (1024, 6);

/// Returns the outcome of a run from its output and its end. The details contain the enforced restrictions and standard
/// error.
pub fn outcome(
    name: &str,
    ended: ExitReport,
    output: Output,
    tail: Tail,
    redaction: Option<&Redaction>,
    bounds: Bounds,
) -> ToolOutput {
    let stream_bounds = bounds_per_stream(bounds);
    let stderr = tail.text(redaction, stream_bounds);
    let outcome = match ended.end.fault() {
        None => outcome_of(name, output.answer()),
        Some((end, details)) => {
            let written = match output.has_result() {
                true => tail::of(outcome_of(name, output.answer()).output.as_bytes(), redaction, stream_bounds),
                false => tail::of(output.plain(), redaction, stream_bounds),
            };
            let parts = [written.trim_end(), stderr.trim_end(), &end];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            Outcome::failed(Failure::execution(name, parts.join("\n\n")).with_details(details))
        }
    };
    with_details(outcome, ended.sandbox, stderr)
}

/// Returns the bounds for each of output and standard error of a failed program. They share the model's bounds, so that
/// the exit status still fits.
fn bounds_per_stream(bounds: Bounds) -> Bounds {
    let (bytes, lines) = RESERVED;
    Bounds { bytes: bounds.bytes.saturating_sub(bytes) / 2, lines: bounds.lines.saturating_sub(lines) / 2, ..bounds }
}

fn with_details(mut outcome: Outcome, sandbox: Map<String, Value>, stderr: String) -> ToolOutput {
    outcome.details.insert("sandbox".to_owned(), Value::Object(sandbox));
    if !stderr.is_empty() {
        outcome.details.insert("stderr".to_owned(), Value::String(stderr));
    }
    ToolOutput::Outcome(Box::new(outcome))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::output;
    use super::super::protocol::ExitKind;
    use super::*;

    fn of(end: ExitKind, stdout: &str, stderr: &str) -> Outcome {
        let (mut output, mut tail) = (Output::default(), Tail::default());
        let mut rest = stdout.as_bytes();
        while let Some(line) = output.next(&mut rest).unwrap().or_else(|| output.finish()) {
            match output::read(line) {
                output::Line::Result(result) => output.settle(result),
                line => panic!("{line:?}"),
            }
        }
        tail.push(stderr.as_bytes());
        let sandbox = json!({"landlock": true}).as_object().unwrap().clone();
        let answer = outcome("t", ExitReport { end, sandbox }, output, tail, None, Bounds::default());
        let ToolOutput::Outcome(outcome) = answer else { panic!("an outcome") };
        assert_eq!(outcome.details["sandbox"]["landlock"], true);
        *outcome
    }

    #[test]
    fn success_returns_the_output() {
        let outcome = of(ExitKind::Exited(0), "{\"a\":1}\n", "a warning");
        assert_eq!((outcome.output.as_str(), outcome.is_error()), ("{\"a\":1}", false));
        assert_eq!(outcome.details["stderr"], "a warning");
        assert_eq!(of(ExitKind::Exited(0), "", "").output, "Done");
        assert!(of(ExitKind::Exited(0), "{\"error\":\"e\"}", "").is_error());
    }

    #[test]
    fn a_failure_has_the_output_and_the_exit_status() {
        let outcome = of(ExitKind::Exited(3), "out\n", "err\n");
        assert_eq!(outcome.output, "Error executing tool \"t\": out\n\nerr\n\nCommand exited with code 3");
        assert_eq!(outcome.error.unwrap().details, Some(json!({"exit_code": 3})));
        assert!(of(ExitKind::Killed(9), "", "").output.ends_with(": Command was killed by signal 9"));
        let result = of(ExitKind::Exited(1), "{\"event\":\"result\",\"output\":\"o\"}\n", "");
        assert!(result.output.contains("o\n\nCommand exited with code 1"), "{}", result.output);
        let long = of(ExitKind::Exited(1), &"y\n".repeat(1_000_000), &"z\n".repeat(1_000_000)).output;
        assert!(long.len() < 51_200 && long.lines().count() < 2000 && long.ends_with("code 1"), "{}", long.len());
        assert!(of(ExitKind::TooManyProcesses(4), "", "").output.contains("more than 4 processes"));
        assert!(of(ExitKind::Refused("no".into()), "", "").output.ends_with(": no"));
    }
}
