//! Tools that are programs on the server: no shell, JSON on standard input, the result on standard output. Each program
//! runs below a helper process of the same executable, which confines the program and removes everything it leaves
//! behind.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{BoxFuture, Executor, Invocation, Secrets};
use toolpost_core::domain::process::{ProcessSpec, ResourceLimits};
use toolpost_core::domain::{Failure, ToolOutput};

mod call;
mod confine;
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
mod supervisor;
mod tail;
mod tree;
mod workdir;

pub use program::{Confinement, Program, WorkDirSpec};
pub use protocol::{ExitKind, ExitReport};
pub use run::RunningProcess;
pub use run::{ProcessEvent, supervised_command};

use plan::Plan;
use program::RunAs;
use protocol::{CONFINE, INIT, ISOLATED, OWN_FILE, SUPERVISE};

/// Whether this executable can act as its own helper, because its `main` calls [`run_helper_if_requested`].
static IS_HELPER: AtomicBool = AtomicBool::new(false);

/// Settings for running programs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    helper: Option<Arc<Path>>,
    /// Whether `process` tools may be registered over the API.
    pub registration: bool,
    /// Default limits for programs.
    pub limits: ResourceLimits,
    secrets: Option<Secrets>,
    user: Option<RunAs>,
}

impl Processes {
    /// Creates settings with the path of the helper, the program `toolpost`. An empty path selects this executable if
    /// its `main` begins with [`run_helper_if_requested`].
    #[must_use]
    pub fn new(helper: &str, registration: bool, limits: ResourceLimits, secrets: Secrets) -> Self {
        // This path stays valid when the file of the executable is replaced.
        let own = || IS_HELPER.load(Ordering::Relaxed).then_some(OWN_FILE);
        let helper = if helper.is_empty() { own() } else { Some(helper) };
        let helper = helper.map(|helper| Arc::from(Path::new(helper)));
        Self { helper, registration, limits, secrets: Some(secrets), user: None }
    }

    /// Runs programs as this user, given as a name or `UID:GID`. Empty means the user of the service.
    ///
    /// # Errors
    /// Returns a message if the user is unknown or root, or if the service must not run programs as this user.
    pub fn with_user(self, user: &str) -> Result<Self, String> {
        Ok(Self { user: privileges::user_named(user)?, ..self })
    }

    /// Returns the path of the helper.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::NotFound`] if no helper is configured.
    fn helper(&self) -> io::Result<&Path> {
        let missing = "this service cannot run programs: the setting `helper` in `[process]` is empty";
        self.helper.as_deref().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))
    }
}

/// Runs this process as a helper if it was started as one. Call this first in `main` of a program that is its own
/// helper.
#[must_use]
pub fn run_helper_if_requested() -> Option<ExitCode> {
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

/// An executor that runs each call of one tool as a program.
#[derive(Debug, Clone)]
pub struct ProcessExecutor {
    plan: Arc<Plan>,
    processes: Processes,
}

impl ProcessExecutor {
    /// Compiles the program of a definition, so that invalid definitions are rejected before any call.
    ///
    /// # Errors
    /// Returns every fault as a JSON Pointer within the `executor` object and a message.
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
