//! A program to run, and its restrictions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::protocol::{Confinement, LaunchRequest, RunAs, WorkDirSpec};
use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// Search path for programs if the service has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// System paths that every program with a `read` list may read.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix",
    "/proc",
    "/sys",
    "/dev",
    // The target of /etc/resolv.conf.
    "/run/systemd/resolve",
];

/// A program to be run by [`Processes::start`](super::Processes::start).
///
/// ```no_run
/// # async fn example(processes: &toolpost::executor::Processes) -> std::io::Result<()> {
/// use toolpost::executor::process::{ProcessEvent, Program, WorkDirSpec};
///
/// // A script that reads the system's files and those of its folder, and writes only there.
/// let program = Program::new(["bash", "-c", "ls | wc -l"], WorkDirSpec::Folder("/srv/work".into())).confined();
/// let mut running = processes.start(program).await?;
/// let mut output = Vec::new();
/// let report = loop {
///     match running.next().await? {
///         ProcessEvent::Stdout(chunk) | ProcessEvent::Stderr(chunk) => output.extend_from_slice(&chunk),
///         ProcessEvent::Exited(report) => break report,
///     }
/// };
/// // `None` if the program succeeded. The enforced restrictions are in `report.sandbox`.
/// let fault = report.end.fault();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program {
    /// The program and its arguments, executed without a shell.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub place: WorkDirSpec,
    /// The standard input.
    pub input: Vec<u8>,
    /// Resource limits; unset limits default to those of the service.
    pub limits: ResourceLimits,
    /// Sandbox mode.
    pub sandbox: SandboxMode,
    /// Network access.
    pub network: NetworkAccess,
    /// Readable paths in addition to system files and the working directory; `None` means everything.
    pub read: Option<Vec<PathBuf>>,
    /// Writable paths in addition to the working directory; `None` means the directories for temporary files.
    pub write: Option<Vec<PathBuf>>,
}

/// Shows only the program's name, because arguments, environment and input may be secret.
impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Program").field("name", &self.argv.first()).finish_non_exhaustive()
    }
}

impl Program {
    /// Creates a program with an empty input and an environment that has only `PATH`. It may read everything, use the
    /// network, and write temporary files and its working directory.
    pub fn new<A: Into<String>>(argv: impl IntoIterator<Item = A>, place: WorkDirSpec) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::from([("PATH".to_owned(), path())]),
            place,
            input: Vec::new(),
            limits: ResourceLimits::default(),
            sandbox: SandboxMode::BestEffort,
            network: NetworkAccess::Allow,
            read: None,
            write: None,
        }
    }

    /// Restricts the program to reading system files, and reading and writing its working directory.
    #[must_use]
    pub fn confined(self) -> Self {
        Self { read: Some(Vec::new()), write: Some(Vec::new()), ..self }
    }

    /// Creates the request for the helper.
    pub(super) fn order(&self, defaults: &ResourceLimits, user: Option<RunAs>) -> LaunchRequest {
        let read = match &self.read {
            Some(own) => SYSTEM.iter().map(PathBuf::from).chain(own.iter().cloned()).collect(),
            None => vec![PathBuf::from("/")],
        };
        let temporary = || vec![std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        LaunchRequest {
            argv: self.argv.clone(),
            env: self.env.clone(),
            place: self.place.clone(),
            input_bytes: self.input.len(),
            confinement: Confinement {
                limits: self.limits.effective(defaults),
                mode: self.sandbox,
                network: self.network,
                read,
                write: self.write.clone().unwrap_or_else(temporary),
                user,
                drop_capabilities: true,
            },
        }
    }
}

/// Returns the search path for programs.
fn path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned())
}
