//! A program to run, and its restrictions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use toolpost_core::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

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
/// # async fn example(processes: &toolpost_tool::executor::Processes) -> std::io::Result<()> {
/// use toolpost_tool::executor::process::{Confinement, ProcessEvent, Program, WorkDirSpec};
///
/// // A script that reads the system's files and those of its folder, and writes only there.
/// let mut program = Program::new(["bash", "-c", "ls | wc -l"], WorkDirSpec::Folder("/srv/work".into()));
/// program.confinement.read = Confinement::system_and::<&str>([]);
/// program.confinement.write.clear();
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
#[derive(Clone, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments, executed without a shell.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub work_dir: WorkDirSpec,
    /// The standard input.
    #[serde(skip)]
    pub input: Vec<u8>,
    /// The restrictions.
    pub confinement: Confinement,
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
    pub fn new<A: Into<String>>(argv: impl IntoIterator<Item = A>, work_dir: WorkDirSpec) -> Self {
        let path = std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned());
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::from([("PATH".to_owned(), path)]),
            work_dir,
            input: Vec::new(),
            confinement: Confinement {
                read: vec!["/".into()],
                write: vec![std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()],
                drop_capabilities: true,
                ..Confinement::default()
            },
        }
    }
}

/// The working directory of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkDirSpec {
    /// An existing directory.
    Folder(PathBuf),
    /// A new directory with this path, removed after the run.
    #[serde(rename = "fresh")]
    Temporary(PathBuf),
}

/// The restrictions of a program. They are visible to all users in the list of processes, so they contain no secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confinement {
    /// Resource limits; unset limits default to those of the service.
    pub limits: ResourceLimits,
    /// Sandbox mode.
    pub mode: SandboxMode,
    /// Network access.
    pub network: NetworkAccess,
    /// Readable paths, in addition to the working directory.
    pub read: Vec<PathBuf>,
    /// Writable paths, in addition to the working directory.
    pub write: Vec<PathBuf>,
    /// The user of the program; `None` means the user of the service.
    #[serde(default)]
    pub user: Option<RunAs>,
    /// Whether to drop all capabilities.
    #[serde(default)]
    pub drop_capabilities: bool,
}

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Confinement {
    /// Returns the readable paths of a program that may read only system files and these paths.
    pub fn system_and<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Vec<PathBuf> {
        SYSTEM.iter().map(PathBuf::from).chain(paths.into_iter().map(Into::into)).collect()
    }

    /// Allows the program to read and write its working directory.
    #[must_use]
    pub fn with(mut self, folder: &Path) -> Self {
        self.read.push(folder.to_owned());
        self.write.push(folder.to_owned());
        self
    }
}
