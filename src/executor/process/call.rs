//! One call of a program: its input, and the conversion of its output.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::output::{self, Line, Output, TooLarge};
use super::plan::Plan;
use super::program::Program;
use super::protocol::WorkDirSpec;
use super::run::ProcessEvent;
use super::tail::Tail;
use super::{Processes, verdict};
use crate::domain::{Agent, Failure, ToolOutput};
use crate::executor::http::MAX_ANSWER_BYTES;
use crate::executor::{Emitter, Invocation};

/// Maximum size of output that is parsed inline, in bytes.
const MAX_INLINE: usize = 256 * 1024;

/// The standard input of a program.
#[derive(Serialize)]
struct Envelope<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Value,
    context: &'a Map<String, Value>,
    agent: Option<&'a Agent>,
    attempt: u32,
    deadline_ms: u64,
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
    let outcome = move || verdict::outcome(&name, ended, output, tail, redaction.as_deref(), bounds);
    let outcome = run_blocking(size, outcome).await;
    outcome.ok_or_else(|| failed("its output could not be read".to_owned()))
}

/// Builds the program for this call.
fn program(plan: &Plan, processes: &Processes, invocation: &Invocation) -> Result<Program, String> {
    let spec = &plan.spec;
    let paths = |paths: &Option<Vec<String>>| paths.as_ref().map(|paths| paths.iter().map(PathBuf::from).collect());
    let fresh = || std::env::temp_dir().join(format!("toolpost-{}-{}", invocation.id, invocation.attempt));
    let place =
        spec.cwd.as_ref().map_or_else(|| WorkDirSpec::Temporary(fresh()), |folder| WorkDirSpec::Folder(folder.into()));
    let bare = Program::new(&spec.argv, place);
    Ok(Program {
        env: plan.environment(bare.env.clone(), &invocation.arguments, processes.secrets.as_ref())?,
        input: input(invocation).map_err(|error| error.to_string())?,
        limits: spec.limits,
        sandbox: spec.sandbox,
        network: spec.network,
        read: paths(&spec.read),
        write: paths(&spec.write),
        ..bare
    })
}

fn input(invocation: &Invocation) -> serde_json::Result<Vec<u8>> {
    let mut input = serde_json::to_vec(&Envelope {
        id: invocation.id,
        call_id: &invocation.call_id,
        name: &invocation.name,
        arguments: &invocation.arguments,
        context: &invocation.context,
        agent: invocation.agent.as_deref(),
        attempt: invocation.attempt,
        deadline_ms: invocation.timeout_ms.saturating_sub(invocation.elapsed_ms),
        traceparent: invocation.traceparent.as_deref(),
    })?;
    // Some programs read one line.
    input.push(b'\n');
    Ok(input)
}

/// Handles a line: sends a report, stores a result, or adds plain output.
async fn handle(line: Vec<u8>, output: &mut Output, emitter: &Emitter) {
    match run_blocking(line.len(), move || output::read(line)).await {
        Some(Line::Progress(report)) => drop(report.tell(emitter).await),
        Some(Line::Result(result)) => output.settle(result),
        Some(Line::Plain(line)) => output.add(line),
        None => {}
    }
}

/// Runs `work` for an input of this size, on a blocking thread if the input is large. Returns `None` if that thread
/// fails.
async fn run_blocking<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if bytes <= MAX_INLINE {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}
