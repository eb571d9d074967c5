//! `toolpost call`: runs one call, with the engine on the database or by a running service.

use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::domain::event::Stage;
use crate::domain::{Call, CallRequest, LimitsSpec, json as lossless};
use crate::engine::{PendingCall, RecordError, Submission, Wait};
use crate::events::bus::CallSubscription;
use crate::formats::native::ToolCall;
use serde_json::{Value, json};

use super::error::CliError;
use super::follow::{self, Display, OnSignal};
use super::options::Options;
use super::remote::{CallView, Remote, ServerArgs};
use super::screen::{Ending, Screen};
use super::signals::Signals;
use super::tenant::TenantArg;
use super::{Exit, print};

/// Timeout for the connection to an upstream server, whose first start may download it.
const UPSTREAM_WAIT: Duration = Duration::from_secs(60);
/// Timeout for the last events after the end of the call.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// Maximum length of arguments on standard input for a service, in bytes. The service has a limit of its own.
const MAX_INPUT: usize = 64 * 1024 * 1024;

/// Arguments of `toolpost call`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the tool
    name: String,
    /// Arguments of the tool, a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Stop the tool after this many milliseconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    #[command(flatten)]
    tenant: TenantArg,
    /// Print the full call as one line of JSON, without progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    if let Some(remote) = args.server.remote()? {
        return by_service(args, &remote).await;
    }
    let config = options.quiet_settings()?;
    let text = match args.arguments.as_str() {
        "-" => read_all(std::io::stdin().lock(), config.server.max_body_bytes)?,
        _ => args.arguments,
    };
    let mut signals = Signals::new()?;
    let app = super::start_command_line(config).await?;
    let access = match args.tenant.access(&app).await {
        Ok(access) => access,
        Err(error) => {
            app.stop().await;
            return Err(error);
        }
    };
    app.upstreams.reach(&access.snapshot().clone(), &args.name, UPSTREAM_WAIT).await;
    let ids = app.engine.ids(1);
    let reader = app.bus.subscribe(ids.clone());
    let submission = Submission {
        calls: vec![CallRequest { name: args.name, arguments: Some(arguments(&text)), ..CallRequest::default() }],
        limits: LimitsSpec { timeout_ms: args.timeout_ms, ..LimitsSpec::default() },
        wait: Wait::Result,
        ..Submission::default()
    };
    let submitted = app.engine.submit_now(&access, submission, &ids, text.len());
    let Some(pending) = submitted.ok().and_then(|submitted| submitted.detach().0.into_iter().next()) else {
        return Err(CliError::unavailable("the call is too large to be accepted")
            .hint("Raise max_in_flight_mib in the [server] section of the settings."));
    };
    let mut screen = Screen::new(!args.json);
    let (end, signal) = until_end(&app, pending, reader, &mut screen, &mut signals).await;
    // If the database is unavailable, waiting for its last changes is useless.
    let call = match (end, signal) {
        (Ok(call), _) => call,
        (Err(_), Some(number)) => {
            print::note("interrupted before the end of the call was recorded");
            return Ok(Exit::Signal(number));
        }
        (Err(lost), None) => return Err(not_recorded(lost)),
    };
    screen.end(&Ending::from(&*call));
    let output = call.outcome.as_deref().map_or("", |outcome| outcome.output.as_str());
    let printed = if args.json { print::json_line(&ToolCall::from(&*call)) } else { print::result(output) };
    tokio::select! {
        () = app.stop() => {}
        _ = signals.next() => {}
    }
    printed?;
    Ok(match signal {
        Some(number) => Exit::Signal(number),
        None if call.outcome.as_deref().is_some_and(|outcome| !outcome.is_error()) => Exit::Success,
        None => Exit::Failure,
    })
}

/// Runs the call by a service. The call is accepted first, so that it has an id for its events and its cancellation.
async fn by_service(args: Args, remote: &Remote) -> Result<Exit, CliError> {
    args.tenant.expect_default()?;
    let text = match args.arguments.as_str() {
        "-" => read_all(std::io::stdin().lock(), MAX_INPUT)?,
        _ => args.arguments,
    };
    let mut body = json!({"name": args.name, "arguments": arguments(&text), "wait": "accepted"});
    if let Some(timeout_ms) = args.timeout_ms {
        body["limits"] = json!({"timeout_ms": timeout_ms});
    }
    let mut signals = Signals::new()?;
    let accepted = remote.post(&["tool-calls"], &body).await?;
    let call: CallView = remote.read(accepted.clone())?;
    let display = if args.json { Display::CallJson } else { Display::Text };
    let screen = Screen::new(!args.json);
    screen.show_coerced(&call.coerced);
    // For people, the events of an ended call are shown, too.
    if call.status.is_terminal() && args.json {
        return follow::finish(remote, accepted, display, &screen);
    }
    follow::follow(remote, call.id, display, OnSignal::Cancel, &mut signals).await
}

/// Parses the arguments. Invalid JSON is passed on as a string, because the engine reports it best.
fn arguments(text: &str) -> Value {
    lossless::parse(text.as_bytes()).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn read_all(input: impl Read, limit: usize) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let max = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    input
        .take(max)
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::usage(format!("cannot read standard input: {error}")))?;
    if bytes.len() > limit {
        return Err(CliError::usage(format!("the arguments on standard input must have at most {limit} bytes"))
            .hint("Raise max_body_bytes in the [server] section of the settings."));
    }
    String::from_utf8(bytes).map_err(|_| CliError::usage("the arguments on standard input are not valid UTF-8"))
}

/// Shows events until the call ends. Returns the end, and the signal that interrupted it.
async fn until_end(
    app: &App,
    pending: PendingCall,
    mut reader: CallSubscription,
    screen: &mut Screen,
    signals: &mut Signals,
) -> (Result<Arc<Call>, RecordError>, Option<u8>) {
    let mut end = pin!(pending.end());
    // Shows all events; ends with the result.
    let mut show = pin!(async {
        while let Some(event) = reader.events.recv().await {
            screen.show(&event.event);
            if event.event.stage == Stage::Result {
                break;
            }
        }
    });
    let mut live = true;
    loop {
        tokio::select! {
            biased;
            number = signals.next() => return (interrupted(app, &mut end, signals).await, Some(number)),
            () = &mut show, if live => live = false,
            ended = &mut end => {
                if ended.is_ok() && live {
                    // A commit is acknowledged before it is published, so its events may still be on their way.
                    // Missing events only reduce the displayed progress.
                    let _ = tokio::time::timeout(LAST_EVENTS, show).await;
                }
                return (ended, None);
            }
        }
    }
}

/// Stops the tool and waits until the call is settled, so that it is not stored as running. A second signal skips the
/// wait.
async fn interrupted(
    app: &App,
    end: impl Future<Output = Result<Arc<Call>, RecordError>>,
    signals: &mut Signals,
) -> Result<Arc<Call>, RecordError> {
    // The drain waits for the database without a timeout; the end of the call does not.
    let stopping = async {
        app.engine.drain(Duration::ZERO).await;
        std::future::pending().await
    };
    tokio::select! {
        ended = end => ended,
        _ = signals.next() => Err(RecordError { accepted: false }),
        () = stopping => Err(RecordError { accepted: false }),
    }
}

fn not_recorded(RecordError { accepted }: RecordError) -> CliError {
    let what = if accepted {
        "the call was started, but its end could not be recorded: the database is unavailable"
    } else {
        "the call could not be recorded: the database is unavailable"
    };
    CliError::unavailable(what)
        .hint("Try again when the database is available. If the tool must not run twice, look up the call there first.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_is_passed_on_as_a_string() {
        assert_eq!(arguments(r#"{"a": 1}"#), serde_json::json!({"a": 1}));
        assert_eq!(arguments(r#"{"a": "#), Value::String(r#"{"a": "#.into()));
        assert_eq!(arguments(""), Value::String(String::new()));
    }

    #[test]
    fn standard_input_is_bounded() {
        assert_eq!(read_all(&b"{}\n"[..], 3).unwrap(), "{}\n");
        assert!(read_all(&b"{}\n\n"[..], 3).unwrap_err().to_string().contains("at most 3 bytes"));
        assert!(read_all(&b"\xff"[..], 3).unwrap_err().to_string().contains("UTF-8"));
    }
}
