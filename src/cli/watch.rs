//! `toolpost watch`: shows the calls of a running service as they happen.

use std::io::IsTerminal;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tokio::sync::mpsc::Receiver;
use tokio::time::MissedTickBehavior;

use super::error::CliError;
use super::remote::{EventData, Query, Remote, ServerArgs, ServiceEvent, StreamUpdate, Subscription};
use super::signals::Signals;
use super::{Exit, print};
use crate::domain::Clock;

mod board;
mod frame;
mod line;
mod terminal;

use board::Board;
use terminal::{Input, LiveTerminal};

/// Interval of redrawing.
const REDRAW: Duration = Duration::from_millis(100);

/// Arguments of `toolpost watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In a terminal, the view has one line for each call, and q ends it. Elsewhere, each event is one line of text.
The view survives a lost connection: it resumes after the last event.")]
pub struct Args {
    /// Show only calls of this tool
    #[arg(long, value_name = "TOOL", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Show only calls of this session
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Begin after the event with this id; 0 begins with the oldest stored event [default: only new events]
    #[arg(long, value_name = "EVENT-ID", value_parser = NonEmptyStringValueParser::new())]
    after: Option<String>,
    /// End after this number of events
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print one line of text per event, also in a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    /// Print one line of JSON per event: its id, its name and its data
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: Args) -> Result<Exit, CliError> {
    let remote = args.server.required("watch")?;
    let mut signals = Signals::new()?;
    let query = Query::default().with("name", args.name).with("session", args.session);
    let path = vec!["events".to_owned()];
    let updates = remote.subscribe(Subscription { path, query, after: args.after });
    let mut events = Events { updates, left: args.limit };
    if args.json || args.plain || !std::io::stdout().is_terminal() {
        return print_events(&remote, &mut events, args.json, &mut signals).await;
    }
    // The first attempt to connect can fail; then the terminal stays as it is.
    tokio::select! {
        number = signals.next() => return Ok(Exit::Signal(number)),
        first = events.next() => if let Update::Failed(error) = first { return Err(error) },
    }
    draw_events(&remote, &mut events, &mut signals).await
}

/// The updates of the stream up to the limit.
struct Events {
    updates: Receiver<StreamUpdate>,
    /// Number of events until the end; `None` for no limit.
    left: Option<u64>,
}

/// An update of the stream, or the end of the command.
enum Update {
    Connected,
    Lost,
    Event(ServiceEvent),
    Failed(CliError),
    /// The limit is reached.
    End,
}

impl Events {
    async fn next(&mut self) -> Update {
        if self.left == Some(0) {
            return Update::End;
        }
        match self.updates.recv().await {
            Some(StreamUpdate::Connected) => Update::Connected,
            Some(StreamUpdate::Lost) => Update::Lost,
            Some(StreamUpdate::Failed(error)) => Update::Failed(error),
            Some(StreamUpdate::Event(event)) => {
                self.left = self.left.map(|left| left - 1);
                Update::Event(event)
            }
            None => Update::Failed(CliError::unavailable("the event stream ended")),
        }
    }
}

/// Prints one line per event.
async fn print_events(
    remote: &Remote,
    events: &mut Events,
    json: bool,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    loop {
        let update = tokio::select! {
            biased;
            number = signals.next() => return Ok(Exit::Signal(number)),
            update = events.next() => update,
        };
        match update {
            Update::Connected => print::note(&format!("watching {}", remote.name())),
            Update::Lost => print::note("connection lost; resuming"),
            Update::Failed(error) => return Err(error),
            Update::End => return Ok(Exit::Success),
            Update::Event(event) => {
                let text = if json { print::one_line_json(&event)? } else { line::text(&event, &data_of(&event)) };
                if !print::is_written(&text)? {
                    return Ok(Exit::Success);
                }
            }
        }
    }
}

/// Draws the calls until a key or a signal ends the view.
async fn draw_events(remote: &Remote, events: &mut Events, signals: &mut Signals) -> Result<Exit, CliError> {
    let failed = |error: std::io::Error| CliError::unavailable(format!("cannot use the terminal: {error}"));
    let mut terminal = LiveTerminal::open().map_err(failed)?;
    let (mut board, clock) = (Board::new(remote.name()), Clock::system());
    let mut ticks = tokio::time::interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_stale = true;
    loop {
        tokio::select! {
            biased;
            number = signals.next() => return Ok(Exit::Signal(number)),
            input = terminal.next() => match input {
                Input::Quit => return Ok(Exit::Success),
                Input::Interrupt => return Ok(Exit::Signal(2)),
                Input::Resize => is_stale = true,
            },
            _ = ticks.tick() => {
                if is_stale || board.is_running() {
                    let lines = frame::lines(&board, terminal.size().map_err(failed)?, clock.now());
                    terminal.draw(&lines).map_err(failed)?;
                    is_stale = false;
                }
            }
            update = events.next() => {
                is_stale = true;
                match update {
                    Update::Connected => board.is_connected = true,
                    Update::Lost => board.is_connected = false,
                    Update::Event(event) => board.apply(&event, data_of(&event)),
                    Update::Failed(error) => return Err(error),
                    Update::End => return Ok(Exit::Success),
                }
            }
        }
    }
}

/// Returns the data of an event. Unreadable data would only reduce the display.
fn data_of(event: &ServiceEvent) -> EventData {
    serde_json::from_value(event.data.clone()).unwrap_or_default()
}
