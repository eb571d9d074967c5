//! A program that is to be run, and what it may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::protocol::{Confinement, LaunchRequest, RunAs, WorkDirSpec};
use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// Where programs are looked for if the service itself does not know.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What every program may read where it is said what it may: that of the system.
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
    // Where /etc/resolv.conf leads to.
    "/run/systemd/resolve",
];

/// A program to be run by [`Processes::start`](super::Processes::start).
///
/// ```no_run
/// # async fn example(processes: &toolpost::executor::Processes) -> std::io::Result<()> {
/// use toolpost::executor::process::{Place, Program, Said};
///
/// // A script that reads the system's files and those of its folder, and writes only there.
/// let program = Program::new(["bash", "-c", "ls | wc -l"], Place::Folder("/srv/work".into())).confined();
/// let mut running = processes.start(program).await?;
/// let mut output = Vec::new();
/// let ended = loop {
///     match running.next().await? {
///         Said::Out(piece) | Said::Err(piece) => output.extend_from_slice(&piece),
///         Said::Ended(ended) => break ended,
///     }
/// };
/// // None if it was a good end; what was enforced is in `ended.sandbox`.
/// let fault = ended.end.fault();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program {
    /// The program and its arguments, as they are: there is no shell.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs: here, or in a fresh folder.
    pub place: WorkDirSpec,
    /// Its standard input.
    pub input: Vec<u8>,
    /// What it may use; where they say nothing, those of the service hold.
    pub limits: ResourceLimits,
    /// How it is confined.
    pub sandbox: SandboxMode,
    /// Whether it may use the network.
    pub network: NetworkAccess,
    /// What it may read beside the system's files and where it runs; everything if `None`.
    pub read: Option<Vec<PathBuf>>,
    /// What it may write beside where it runs; the folders for temporary files if `None`.
    pub write: Option<Vec<PathBuf>>,
}

/// Neither arguments, nor environment, nor input is anybody's business.
impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Program").field("name", &self.argv.first()).finish_non_exhaustive()
    }
}

impl Program {
    /// With nothing in its environment but `PATH`, and nothing on its input. It may read everything, use the network, and
    /// write temporary files and where it runs.
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

    /// The same with no other files than those of the system, which it can only read, and those where it runs.
    #[must_use]
    pub fn confined(self) -> Self {
        Self { read: Some(Vec::new()), write: Some(Vec::new()), ..self }
    }

    /// What the helper is told.
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

/// Where programs are looked for.
fn path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned())
}
