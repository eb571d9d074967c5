//! What the service and its helper tell each other over one socket: an order with the program's input, and how it ended.
//! When the socket closes, the helper ends everything that it has started; so nothing outlives the service.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::exec::OWN_FILE;

use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// First argument of the outer helper.
pub const SUPERVISE: &str = "__supervise";
/// First argument of the inner helper.
pub const INIT: &str = "__init";
/// First argument of the process that becomes the program.
pub const CONFINE: &str = "__confine";
/// Second argument of a helper whose program is to have a process namespace of its own.
pub const ISOLATED: &str = "isolated";
/// The same of one whose program sees all processes.
pub const SHARED: &str = "shared";
/// Longest order.
const LONGEST_ORDER: u64 = 64 * 1024 * 1024;

/// What is to be run: one line of JSON, and then the input.
#[derive(Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub place: WorkDirSpec,
    /// How many bytes of input follow.
    pub input_bytes: usize,
    /// What it may do.
    pub confinement: Confinement,
}

/// Where a program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkDirSpec {
    /// In this folder.
    Folder(PathBuf),
    /// In a fresh one that is made under this path, and removed afterwards.
    #[serde(rename = "fresh")]
    Temporary(PathBuf),
}

/// What a program may do. Known to everybody on the machine who lists processes, so no secret is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confinement {
    /// Effective limits.
    pub limits: ResourceLimits,
    /// Whether it runs without.
    pub mode: SandboxMode,
    /// Whether it may use the network.
    pub network: NetworkAccess,
    /// What it may read.
    pub read: Vec<PathBuf>,
    /// What it may write.
    pub write: Vec<PathBuf>,
    /// The user that it runs as; the service's own unless given.
    #[serde(default)]
    pub user: Option<RunAs>,
    /// Whether it loses all capabilities.
    #[serde(default)]
    pub drop_capabilities: bool,
}

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    /// Its id.
    pub uid: u32,
    /// The id of its group.
    pub gid: u32,
}

impl Confinement {
    /// Of a program that may do whatever the service may.
    pub fn none() -> Self {
        let none = ResourceLimits::default();
        let (mode, network) = (SandboxMode::Off, NetworkAccess::Allow);
        let (read, write) = (Vec::new(), Vec::new());
        Self { limits: none, mode, network, read, write, user: None, drop_capabilities: false }
    }

    /// A program may do what it likes where it runs.
    #[must_use]
    pub fn with(mut self, folder: &Path) -> Self {
        self.read.push(folder.to_owned());
        self.write.push(folder.to_owned());
        self
    }
}

/// The end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExitReport {
    /// How it ended.
    pub end: ExitKind,
    /// What was really enforced, for people.
    #[serde(default)]
    pub sandbox: Map<String, Value>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// It was asked to end, and killed if it did not.
    Stopped,
    /// It was killed since it had more processes than it may have.
    TooManyProcesses(u64),
    /// It did not start.
    Refused(String),
}

impl Default for ExitKind {
    fn default() -> Self {
        Self::Exited(0)
    }
}

impl ExitKind {
    /// What there is to say of a bad end: a sentence, and the same for programs. `None` if it was a good one.
    #[must_use]
    pub fn fault(&self) -> Option<(String, Value)> {
        Some(match self {
            Self::Exited(0) => return None,
            Self::Exited(code) => (format!("Command exited with code {code}"), json!({"exit_code": code})),
            Self::Killed(signal) => (format!("Command was killed by signal {signal}"), json!({"signal": signal})),
            Self::Stopped => ("Command was stopped".to_owned(), json!({"stopped": true})),
            Self::TooManyProcesses(most) => {
                (format!("Command was killed: it had more than {most} processes"), json!({"processes": most}))
            }
            Self::Refused(reason) => (reason.clone(), json!({"started": false})),
        })
    }
}

/// Reads an order and the input behind it.
///
/// # Errors
/// If the service has gone, or says something else.
pub fn receive(socket: &UnixStream) -> io::Result<(LaunchRequest, Vec<u8>)> {
    let mut service = BufReader::new(socket);
    let mut line = String::new();
    service.by_ref().take(LONGEST_ORDER).read_line(&mut line)?;
    let order: LaunchRequest = serde_json::from_str(&line)?;
    let mut input = vec![0; order.input_bytes];
    service.read_exact(&mut input)?;
    Ok((order, input))
}

/// The process that becomes a program; `notes` is the path of the pipe in which it tells how far it came before that.
///
/// # Errors
/// Never: what it may do can be said.
pub fn confine(notes: &str, confinement: &Confinement, argv: &[String]) -> io::Result<Command> {
    let mut command = Command::new(OWN_FILE);
    let confinement = serde_json::to_string(confinement)?;
    command.arg(CONFINE).arg(std::process::id().to_string()).arg(notes).arg(confinement).args(argv);
    command.process_group(0);
    Ok(command)
}

/// The code with which a helper ends whose program ended so: that of the program, or as shells have it.
pub fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
