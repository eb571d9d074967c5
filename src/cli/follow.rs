//! Follows a call of the service to its end.

use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

use super::error::CliError;
use super::remote::{CallView, EventData, Query, Remote, ServiceEvent, StreamUpdate, Subscription};
use super::screen::{Ending, Screen};
use super::signals::Signals;
use super::{Exit, print};
use crate::domain::Status;

/// The display of a followed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// Progress on standard error, the output on standard output.
    Text,
    /// The call as one line of JSON.
    CallJson,
    /// Each event as one line of JSON.
    EventsJson,
}

/// The effect of a signal on the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSignal {
    /// Cancels the call and waits for its end. A second signal skips the wait.
    Cancel,
    /// Leaves the call running.
    Leave,
}

/// Follows a call until it ends, prints it and returns the exit code.
pub async fn follow(
    remote: &Remote,
    id: Uuid,
    display: Display,
    on_signal: OnSignal,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let path = ["tool-calls".to_owned(), id.to_string(), "events".to_owned()].to_vec();
    let mut updates = remote.subscribe(Subscription { path, query: Query::default(), after: None });
    let mut screen = Screen::new(display == Display::Text);
    let mut signal = None;
    loop {
        tokio::select! {
            biased;
            number = signals.next() => {
                if on_signal == OnSignal::Leave || signal.is_some() {
                    print::note(&format!("call {id} continues; follow it with `toolpost calls watch {id}`"));
                    return Ok(Exit::Signal(number));
                }
                signal = Some(number);
                remote.post(&["tool-calls", &id.to_string(), "cancel"], &json!({})).await?;
            }
            end = until_result(&mut updates, &mut screen, display) => {
                end?;
                break;
            }
        }
    }
    let call = remote.get(&["tool-calls", &id.to_string()], &Query::default()).await?;
    let exit = finish(remote, call, display, &screen)?;
    Ok(signal.map_or(exit, Exit::Signal))
}

/// Prints an ended call and returns the exit code.
pub fn finish(remote: &Remote, call: Value, display: Display, screen: &Screen) -> Result<Exit, CliError> {
    let view: CallView = remote.read(call.clone())?;
    screen.end(&Ending::from(&view));
    match display {
        Display::Text => print::result(view.output.as_deref().unwrap_or_default())?,
        Display::CallJson => print::json_line(&call)?,
        Display::EventsJson => {}
    }
    Ok(if view.status == Status::Success { Exit::Success } else { Exit::Failure })
}

/// Shows events until the result of the call. Each update is received before it is shown, so this can be cancelled.
async fn until_result(
    updates: &mut Receiver<StreamUpdate>,
    screen: &mut Screen,
    display: Display,
) -> Result<(), CliError> {
    while let Some(update) = updates.recv().await {
        match update {
            StreamUpdate::Connected => {}
            StreamUpdate::Lost => print::note("connection lost; resuming"),
            StreamUpdate::Failed(error) => return Err(error),
            StreamUpdate::Event(event) => {
                show(&event, screen, display)?;
                if event.event == "tool_result" {
                    return Ok(());
                }
            }
        }
    }
    Err(CliError::unavailable("the event stream ended before the call"))
}

fn show(event: &ServiceEvent, screen: &mut Screen, display: Display) -> Result<(), CliError> {
    if display == Display::EventsJson {
        return print::json_line(event);
    }
    // Unreadable data would only reduce the display.
    let data: EventData = serde_json::from_value(event.data.clone()).unwrap_or_default();
    screen.show_received(&event.event, &data);
    Ok(())
}
