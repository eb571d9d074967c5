//! The pipe in which the process that becomes the program tells how far it came before that.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;

use serde_json::Value;

use super::protocol::{ExitKind, ExitReport};

/// The keeper's end of it.
pub struct StatusPipe(PipeReader, Option<PipeWriter>);

impl StatusPipe {
    /// A pipe that nobody has written to.
    ///
    /// # Errors
    /// If there is none.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self(reader, Some(writer)))
    }

    /// Under which path others open it: whoever starts something else meanwhile must not pass it on.
    pub fn path(&self) -> String {
        let writer = self.1.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{writer}", std::process::id())
    }

    /// What was told, when everybody who could tell has ended; else this end.
    pub fn told(&mut self, end: ExitKind) -> ExitReport {
        self.1 = None;
        let mut told = ExitReport { end, ..ExitReport::default() };
        for line in BufReader::new(&self.0).lines().map_while(Result::ok) {
            let Ok(Value::Object(mut note)) = serde_json::from_str(&line) else { continue };
            if let Some(Value::Object(sandbox)) = note.remove("sandbox") {
                told.sandbox = sandbox;
            }
            if let Some(Value::String(reason)) = note.remove("refused") {
                told.end = ExitKind::Refused(reason);
            }
        }
        told
    }
}
