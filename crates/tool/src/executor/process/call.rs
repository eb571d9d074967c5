//! One call of a program: its input, and the conversion of its output.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::Processes;
use super::output::{self, Line, Output, TooLarge};
use super::plan::Plan;
use super::program::{Confinement, Program, WorkDirSpec};
use super::protocol::ExitReport;
use super::run::ProcessEvent;
use super::tail::{self, Tail};
use crate::executor::envelope::Envelope;
use crate::executor::http::MAX_ANSWER_BYTES;
use crate::executor::http::read::run_sized;
use crate::executor::{Emitter, Invocation, Redaction};
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Failure, Outcome, ToolOutput, outcome_of};

/// Bytes and lines reserved for the error message and the exit status.
const RESERVED: (u64, u64) = (1024, 6);

/// The standard input of a program.
#[derive(Serialize)]
struct Input<'a> {
    #[serde(flatten)]
    run: Envelope<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

/// Runs one call.
pub(super) async fn run(plan: &Plan, processes: &Processes, invocation: &Invocation) -> Result<ToolOutput, Failure> {
    let failed = |message: String| Failure::execution(&invocation.name, message);
    let program = program(plan, processes, invocation).map_err(failed)?;
    let mut running = processes.start(program).await.map_err(|error| failed(error.to_string()))?;
    let (mut output, mut tail) = (Output::default(), Tail::default());
    let ended = loop {
        match running.next().await {
            Ok(ProcessEvent::Stdout(chunk)) => {
                let mut rest = &chunk[..];
                while let Some(line) = output.next(&mut rest).map_err(|TooLarge| {
                    failed(format!("the output is larger than {MAX_ANSWER_BYTES} bytes (16 MiB)"))
                })? {
                    handle(line, &mut output, &invocation.emitter).await;
                }
            }
            Ok(ProcessEvent::Stderr(chunk)) => tail.push(&chunk),
            Ok(ProcessEvent::Exited(ended)) => break ended,
            Err(error) => {
                tracing::warn!(id = %invocation.id, %error, "the helper of a program failed");
                return Err(failed("the program's helper has ended unexpectedly".to_owned()));
            }
        }
    };
    if let Some(line) = output.finish() {
        handle(line, &mut output, &invocation.emitter).await;
    }
    let size = output.len();
    let (name, redaction, bounds) = (invocation.name.clone(), invocation.redaction.clone(), invocation.output);
    let outcome = move || outcome(&name, ended, output, tail, redaction.as_deref(), bounds);
    let outcome = run_sized(size, outcome).await;
    outcome.ok_or_else(|| failed("its output could not be read".to_owned()))
}

/// Builds the program for this call.
fn program(plan: &Plan, processes: &Processes, invocation: &Invocation) -> Result<Program, String> {
    let spec = &plan.spec;
    let work_dir = match &spec.cwd {
        Some(folder) => WorkDirSpec::Folder(folder.into()),
        None => {
            let name = format!("toolpost-{}-{}", invocation.id, invocation.attempt);
            WorkDirSpec::Temporary(std::env::temp_dir().join(name))
        }
    };
    let mut program = Program::new(&spec.argv, work_dir);
    program.env = plan.environment(program.env, &invocation.arguments, processes.secrets.as_ref())?;
    program.input = input(invocation).map_err(|error| error.to_string())?;
    let confinement = &mut program.confinement;
    (confinement.limits, confinement.mode, confinement.network) = (spec.limits, spec.sandbox, spec.network);
    if let Some(paths) = &spec.read {
        confinement.read = Confinement::system_and(paths);
    }
    if let Some(paths) = &spec.write {
        confinement.write = paths.iter().map(PathBuf::from).collect();
    }
    Ok(program)
}

fn input(invocation: &Invocation) -> serde_json::Result<Vec<u8>> {
    let run = Envelope::new(invocation, invocation.timeout_ms.saturating_sub(invocation.elapsed_ms));
    let mut input = serde_json::to_vec(&Input { run, traceparent: invocation.traceparent.as_deref() })?;
    // Some programs read one line.
    input.push(b'\n');
    Ok(input)
}

/// Handles a line: sends a report, stores a result, or adds plain output.
async fn handle(line: Vec<u8>, output: &mut Output, emitter: &Emitter) {
    match run_sized(line.len(), move || output::read(line)).await {
        Some(Line::Progress(report)) => drop(report.tell(emitter).await),
        Some(Line::Result(result)) => {
            output.result.get_or_insert(result);
        }
        Some(Line::Plain(mut line)) => output.plain.append(&mut line),
        None => {}
    }
}

/// Returns the outcome of a run from its output and its end. The details contain the enforced restrictions and standard
/// error.
fn outcome(
    name: &str,
    ended: ExitReport,
    output: Output,
    tail: Tail,
    redaction: Option<&Redaction>,
    bounds: Bounds,
) -> ToolOutput {
    let stream_bounds = bounds_per_stream(bounds);
    let stderr = tail.text(redaction, stream_bounds);
    let mut outcome = match ended.end.fault() {
        None => outcome_of(name, output.answer()),
        Some((end, details)) => {
            let written = match output.result {
                Some(_) => outcome_of(name, output.answer()).output.into_bytes(),
                None => output.plain,
            };
            let written = tail::render_tail(&written, redaction, stream_bounds);
            let parts = [written.trim_end(), stderr.trim_end(), &end];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            Outcome::failed(Failure::execution(name, parts.join("\n\n")).with_details(details))
        }
    };
    outcome.details.insert("sandbox".to_owned(), Value::Object(ended.sandbox));
    if !stderr.is_empty() {
        outcome.details.insert("stderr".to_owned(), Value::String(stderr));
    }
    ToolOutput::Outcome(Box::new(outcome))
}

/// Returns the bounds for each of output and standard error of a failed program. They share the model's bounds, so that
/// the exit status still fits.
fn bounds_per_stream(bounds: Bounds) -> Bounds {
    let (bytes, lines) = RESERVED;
    Bounds { bytes: bounds.bytes.saturating_sub(bytes) / 2, lines: bounds.lines.saturating_sub(lines) / 2, ..bounds }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::output;
    use super::super::protocol::ExitKind;
    use super::*;

    fn convert_end(end: ExitKind, stdout: &str, stderr: &str) -> Outcome {
        let (mut output, mut tail) = (Output::default(), Tail::default());
        let mut rest = stdout.as_bytes();
        while let Some(line) = output.next(&mut rest).unwrap().or_else(|| output.finish()) {
            match output::read(line) {
                output::Line::Result(result) => output.result = Some(result),
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
        let outcome = convert_end(ExitKind::Exited(0), "{\"a\":1}\n", "a warning");
        assert_eq!((outcome.output.as_str(), outcome.is_error()), ("{\"a\":1}", false));
        assert_eq!(outcome.details["stderr"], "a warning");
        assert_eq!(convert_end(ExitKind::Exited(0), "", "").output, "Done");
        assert!(convert_end(ExitKind::Exited(0), "{\"error\":\"e\"}", "").is_error());
    }

    #[test]
    fn failure_has_the_output_and_the_exit_status() {
        let outcome = convert_end(ExitKind::Exited(3), "out\n", "err\n");
        assert_eq!(outcome.output, "Error executing tool \"t\": out\n\nerr\n\nCommand exited with code 3");
        assert_eq!(outcome.error.unwrap().details, Some(json!({"exit_code": 3})));
        assert!(convert_end(ExitKind::Killed(9), "", "").output.ends_with(": Command was killed by signal 9"));
        let result = convert_end(ExitKind::Exited(1), "{\"event\":\"result\",\"output\":\"o\"}\n", "");
        assert!(result.output.contains("o\n\nCommand exited with code 1"), "{}", result.output);
        let long = convert_end(ExitKind::Exited(1), &"y\n".repeat(1_000_000), &"z\n".repeat(1_000_000)).output;
        assert!(long.len() < 51_200 && long.lines().count() < 2000 && long.ends_with("code 1"), "{}", long.len());
        assert!(convert_end(ExitKind::TooManyProcesses(4), "", "").output.contains("more than 4 processes"));
        assert!(convert_end(ExitKind::Refused("no".into()), "", "").output.ends_with(": no"));
    }
}
