//! Tools that are programs on the server: no shell, JSON on standard input, the result on standard output. Each runs below
//! a helper, this program once more, which confines it and leaves nothing of it behind.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{BoxFuture, Executor, Invocation, Secrets};
use crate::domain::process::{ProcessSpec, ResourceLimits};
use crate::domain::{Failure, ToolOutput};

mod call;
mod confine;
mod exec;
mod init;
mod landlock;
mod namespace;
mod output;
mod plan;
mod privileges;
mod program;
mod protocol;
mod run;
mod seccomp;
mod signals;
mod status_pipe;
mod supervised;
mod supervisor;
mod tail;
mod tree;
mod verdict;
mod workdir;

pub use program::Program;
pub use protocol::{ExitKind, ExitReport, WorkDirSpec};
pub use run::{ProcessEvent, RunningProcess};
pub use supervised::supervised_command;

use plan::Plan;
use protocol::{CONFINE, INIT, ISOLATED, RunAs, SUPERVISE};

/// Whether this program is its own helper: it has asked whether it is to be that.
static IS_HELPER: AtomicBool = AtomicBool::new(false);

/// How this service runs programs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    helper: Option<Arc<Path>>,
    /// Whether `process` tools may be registered over the API.
    pub registration: bool,
    /// What a program may use that declares nothing else.
    pub limits: ResourceLimits,
    secrets: Option<Secrets>,
    user: Option<RunAs>,
}

impl Processes {
    /// With the program `toolpost` as the helper; an empty path is this program itself, if its `main` begins with
    /// [`run_helper_if_asked`].
    #[must_use]
    pub fn new(helper: &str, registration: bool, limits: ResourceLimits, secrets: Secrets) -> Self {
        // This program's own file, by a name that stays good when it is replaced.
        let own = || IS_HELPER.load(Ordering::Relaxed).then_some(exec::OWN_FILE);
        let helper = if helper.is_empty() { own() } else { Some(helper) };
        let helper = helper.map(|helper| Arc::from(Path::new(helper)));
        Self { helper, registration, limits, secrets: Some(secrets), user: None }
    }

    /// Runs programs as this user: its name, or `UID:GID`; empty for the service's own.
    ///
    /// # Errors
    /// Returns a sentence, if there is no such user, it is root, or the service may not run programs as it.
    pub fn as_user(self, user: &str) -> Result<Self, String> {
        Ok(Self { user: privileges::user_named(user)?, ..self })
    }

    /// The program that is the helper.
    ///
    /// # Errors
    /// If there is none.
    fn helper(&self) -> io::Result<&Path> {
        let missing = "this service cannot run programs: the setting `helper` in `[process]` is empty";
        self.helper.as_deref().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
    }
}

/// Runs this process as the helper of another one, if that has started it for it: the first thing that `main` does in a
/// program that is its own helper.
#[must_use]
pub fn run_helper_if_asked() -> Option<ExitCode> {
    IS_HELPER.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    let first = first.to_str().filter(|first| [SUPERVISE, INIT, CONFINE].contains(first))?;
    let rest: Result<Vec<String>, _> = arguments.map(OsString::into_string).collect();
    let done = match (first, rest.as_deref()) {
        (SUPERVISE, Ok([service, namespace, program @ ..])) => {
            supervisor::main(service, namespace == ISOLATED, program)
        }
        (INIT, Ok([holder, namespace, program @ ..])) => init::main(holder, namespace == ISOLATED, program),
        (CONFINE, Ok(rest)) => Ok(confine::main(rest)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    Some(done.unwrap_or_else(|error| {
        eprintln!("toolpost's helper failed: {error}");
        ExitCode::FAILURE
    }))
}

/// Runs calls of one tool by a program each.
#[derive(Debug, Clone)]
pub struct ProcessExecutor {
    plan: Arc<Plan>,
    processes: Processes,
}

impl ProcessExecutor {
    /// Reads and checks a definition's program, so that no call meets one that cannot work.
    ///
    /// # Errors
    /// Every fault: a JSON Pointer within the `executor` object, and a sentence.
    pub fn new(spec: &ProcessSpec, schema: &Value, processes: Processes) -> Result<Self, Vec<(String, String)>> {
        Ok(Self { plan: Arc::new(Plan::new(spec, schema)?), processes })
    }
}

impl Executor for ProcessExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let Self { plan, processes } = self.clone();
        Box::pin(async move { call::run(&plan, &processes, &invocation).await })
    }
}
