//! The terminal of the live view: raw mode, keys and drawing.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{cursor, execute, queue};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::frame::{Span, Tint};

/// Interval at which the reader of keys checks whether the view has ended.
const POLL: Duration = Duration::from_millis(200);
/// Width and height of a terminal that does not know its size.
const USUAL_SIZE: (u16, u16) = (80, 24);
/// Number of inputs that wait for the view.
const QUEUE: usize = 16;

/// An input that the view reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Quit,
    /// Ctrl-C, which is a key in raw mode.
    Interrupt,
    Resize,
}

/// A terminal in raw mode that shows the view. It is restored on drop.
pub struct LiveTerminal {
    inputs: Receiver<Input>,
}

impl LiveTerminal {
    /// Opens the view.
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let (sender, inputs) = channel(QUEUE);
        // From here on, a failure restores the terminal.
        let opened = Self { inputs };
        execute!(io::stdout(), terminal::EnterAlternateScreen, terminal::DisableLineWrap, cursor::Hide)?;
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || read_inputs(&sender))?;
        Ok(opened)
    }

    /// Waits for the next input.
    pub async fn next(&mut self) -> Input {
        match self.inputs.recv().await {
            Some(input) => input,
            // Keys cannot be read. Signals still end the view.
            None => std::future::pending().await,
        }
    }

    /// Returns the width and the height. Some pseudo-terminals do not know theirs.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size().map(|size| if size.0 == 0 || size.1 == 0 { USUAL_SIZE } else { size })
    }

    /// Draws all lines at once.
    pub fn draw(&self, lines: &[Vec<Span>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        queue!(bytes, terminal::BeginSynchronizedUpdate)?;
        for (row, line) in (0..).zip(lines) {
            queue!(bytes, cursor::MoveTo(0, row))?;
            for (tint, text) in line {
                match colour(*tint) {
                    Some(colour) => queue!(bytes, SetForegroundColor(colour), Print(text), ResetColor)?,
                    None => queue!(bytes, Print(text))?,
                }
            }
            queue!(bytes, Clear(ClearType::UntilNewLine))?;
        }
        queue!(bytes, terminal::EndSynchronizedUpdate)?;
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        // A terminal that cannot be restored is gone.
        let _ = execute!(io::stdout(), cursor::Show, terminal::EnableLineWrap, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn colour(tint: Tint) -> Option<Color> {
    match tint {
        Tint::Plain => None,
        Tint::Faint => Some(Color::DarkGrey),
        Tint::Waiting => Some(Color::Yellow),
        Tint::Running => Some(Color::Cyan),
        Tint::Good => Some(Color::Green),
        Tint::Bad => Some(Color::Red),
    }
}

/// Sends inputs until the view has ended. Reading keys blocks, so this runs on a thread of its own.
fn read_inputs(sender: &Sender<Input>) {
    while !sender.is_closed() {
        let input = match event::poll(POLL) {
            Ok(true) => event::read().map(|event| input_of(&event)),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match input {
            Ok(Some(input)) if sender.blocking_send(input).is_err() => return,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn input_of(event: &Event) -> Option<Input> {
    match event {
        Event::Resize(..) => Some(Input::Resize),
        Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => None,
        Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
            if modifiers.contains(KeyModifiers::CONTROL) =>
        {
            Some(Input::Interrupt)
        }
        Event::Key(KeyEvent { code: KeyCode::Char('q' | 'Q') | KeyCode::Esc, .. }) => Some(Input::Quit),
        _ => None,
    }
}
