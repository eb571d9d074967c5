//! The pipe through which the confined process reports its status until it executes the program.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;

use serde_json::Value;

use super::protocol::{ExitKind, ExitReport};

/// The end of the pipe that the inner helper holds.
pub struct StatusPipe(PipeReader, Option<PipeWriter>);

impl StatusPipe {
    /// Creates a pipe.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self(reader, Some(writer)))
    }

    /// Returns the path of the write end. The confined process opens it by path, so that no other child inherits the
    /// descriptor.
    pub fn path(&self) -> String {
        let writer = self.1.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{writer}", std::process::id())
    }

    /// Reads the status until all writers have closed the pipe. `end` applies unless the confined process reported a
    /// failed start.
    pub fn report(&mut self, end: ExitKind) -> ExitReport {
        self.1 = None;
        let mut report = ExitReport { end, ..ExitReport::default() };
        for line in BufReader::new(&self.0).lines().map_while(Result::ok) {
            let Ok(Value::Object(mut note)) = serde_json::from_str(&line) else { continue };
            if let Some(Value::Object(sandbox)) = note.remove("sandbox") {
                report.sandbox = sandbox;
            }
            if let Some(Value::String(reason)) = note.remove("refused") {
                report.end = ExitKind::Refused(reason);
            }
        }
        report
    }
}
