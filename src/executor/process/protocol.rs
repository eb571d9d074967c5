//! What the service and its helper tell each other over one socket: an order with the program's input, and how it ended.
//! When the socket closes, the helper ends everything that it has started; so nothing outlives the service.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// First argument of the helper.
pub const SUPERVISE: &str = "__supervise";
/// First argument of the process that becomes the program.
pub const CONFINE: &str = "__confine";

/// What is to be run: one line of JSON, and then the input.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs, if not in a folder of its own.
    pub cwd: Option<PathBuf>,
    /// Where a folder of its own is made, and under what name.
    pub fresh: PathBuf,
    /// How many bytes of input follow.
    pub input_bytes: usize,
    /// What it may do.
    pub confinement: Confinement,
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
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// What the end was.
    pub end: End,
    /// What was enforced.
    #[serde(default)]
    pub sandbox: Map<String, Value>,
}

/// The end of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It ended by itself.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// It had more processes than it may have.
    TooManyProcesses(u64),
    /// It did not start.
    Refused(String),
}
