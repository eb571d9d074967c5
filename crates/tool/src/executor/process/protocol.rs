//! The protocol between the service and its helper on one socket: a launch request with the program's input, and an
//! exit report. When the socket is closed, the helper ends everything that it has started, so no program outlives the
//! service.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::program::{Confinement, Program};

/// Path of this executable; it stays valid when the file is replaced.
pub const OWN_FILE: &str = "/proc/self/exe";
/// First argument of the outer helper.
pub const SUPERVISE: &str = "__supervise";
/// First argument of the inner helper.
pub const INIT: &str = "__init";
/// First argument of the process that executes the program.
pub const CONFINE: &str = "__confine";
/// Second argument of a helper whose program gets a new process namespace.
pub const ISOLATED: &str = "isolated";
/// Second argument of a helper whose program sees all processes.
pub const SHARED: &str = "shared";
/// Maximum size of a launch request, in bytes.
const MAX_REQUEST: u64 = 64 * 1024 * 1024;

/// A request to run a program: one line of JSON, followed by the input.
#[derive(Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The program, without its input.
    #[serde(flatten)]
    pub program: Program,
    /// Size of the input that follows, in bytes.
    pub input_bytes: usize,
}

/// The report of the helper on the end of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The way in which the program ended.
    pub end: ExitKind,
    /// The restrictions that were enforced, for people.
    #[serde(default)]
    pub sandbox: Map<String, Value>,
}

/// The way in which a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    /// Exited with this code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// Terminated on request, and killed if it did not exit in time.
    Stopped,
    /// Killed because it exceeded this number of processes.
    TooManyProcesses(u64),
    /// Not started, for this reason.
    Refused(String),
}

impl Default for ExitKind {
    fn default() -> Self {
        Self::Exited(0)
    }
}

impl ExitKind {
    /// Returns the message and the details of a failed run; `None` if the program succeeded.
    #[must_use]
    pub fn fault(&self) -> Option<(String, Value)> {
        Some(match self {
            Self::Exited(0) => return None,
            Self::Exited(code) => (format!("Command exited with code {code}"), json!({"exit_code": code})),
            Self::Killed(signal) => (format!("Command was killed by signal {signal}"), json!({"signal": signal})),
            Self::Stopped => ("Command was stopped".to_owned(), json!({"stopped": true})),
            Self::TooManyProcesses(max) => {
                (format!("Command was killed: it had more than {max} processes"), json!({"processes": max}))
            }
            Self::Refused(reason) => (reason.clone(), json!({"started": false})),
        })
    }
}

/// Reads a launch request. Returns the program with its input.
///
/// # Errors
/// Returns an error if the service has closed the socket or the request is invalid.
pub fn receive(socket: &UnixStream) -> io::Result<Program> {
    let mut service = BufReader::new(socket);
    let mut line = String::new();
    service.by_ref().take(MAX_REQUEST).read_line(&mut line)?;
    let LaunchRequest { mut program, input_bytes } = serde_json::from_str(&line)?;
    program.input = vec![0; input_bytes];
    service.read_exact(&mut program.input)?;
    Ok(program)
}

/// Creates the command of the process that executes the program. `notes` is the path of its status pipe.
///
/// # Errors
/// Returns an error if the restrictions cannot be serialized, which does not happen.
pub fn confine(notes: &str, confinement: &Confinement, argv: &[String]) -> io::Result<Command> {
    let mut command = Command::new(OWN_FILE);
    let confinement = serde_json::to_string(confinement)?;
    command.arg(CONFINE).arg(std::process::id().to_string()).arg(notes).arg(confinement).args(argv);
    command.process_group(0);
    Ok(command)
}

/// Returns the exit code of a helper: that of its program, or 128 plus the signal as in shells.
pub fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
