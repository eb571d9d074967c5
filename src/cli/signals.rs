//! The signals that interrupt a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// SIGINT and SIGTERM as signal numbers.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub fn new() -> Result<Self, CliError> {
        let install =
            || Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? });
        install().map_err(CliError::signals)
    }

    /// Waits for the next signal and returns its number.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
