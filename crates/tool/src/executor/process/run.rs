//! Running programs: starts the helpers, sends the launch request, and reads the output and the exit report.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::program::{Program, WorkDirSpec};
use super::protocol::{ExitReport, ISOLATED, LaunchRequest, SHARED, SUPERVISE};
use super::{Processes, workdir};
use toolpost_core::domain::process::SandboxMode;

/// Read buffer size, in bytes.
const CHUNK: usize = 64 * 1024;
/// Maximum silence on a pipe that is still open after the program has ended and its descendants were killed.
const MAX_SILENCE: Duration = Duration::from_secs(2);
/// Maximum size of an exit report, in bytes.
const MAX_REPORT: usize = 1024 * 1024;

/// A running program. Dropping it ends the program and all its descendants with SIGTERM, and with SIGKILL after a
/// second.
pub struct RunningProcess {
    socket: UnixStream,
    child: Option<Child>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The directory to remove if the helper fails to do so.
    fresh: Option<PathBuf>,
    out: BytesMut,
    err: BytesMut,
    report: BytesMut,
    ended: Option<ExitReport>,
}

/// An event of a running program.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessEvent {
    /// A chunk of standard output.
    Stdout(Bytes),
    /// A chunk of standard error.
    Stderr(Bytes),
    /// The program and all its descendants have ended. This is the last event.
    Exited(ExitReport),
}

impl fmt::Debug for RunningProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunningProcess").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Processes {
    /// Starts a program.
    ///
    /// # Errors
    /// Returns an error if no helper is configured or the helper cannot run. If only the program itself cannot start,
    /// that is reported by [`ExitKind::Refused`](super::ExitKind::Refused).
    pub async fn start(&self, mut program: Program) -> io::Result<RunningProcess> {
        let confinement = &mut program.confinement;
        confinement.limits = confinement.limits.effective(&self.limits);
        confinement.user = self.user;
        let isolated = confinement.mode != SandboxMode::Off;
        let input = std::mem::take(&mut program.input);
        let fresh = match &program.work_dir {
            WorkDirSpec::Temporary(path) => Some(path.clone()),
            WorkDirSpec::Folder(_) => None,
        };
        let request = LaunchRequest { program, input_bytes: input.len() };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        let helper = self.helper()?;
        let broken =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot run the helper of programs: {error}"));
        let (mut child, socket) = spawn(helper, isolated).map_err(broken)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let [out, err, report] = Default::default();
        let mut running =
            RunningProcess { socket, child: Some(child), stdout, stderr, fresh, out, err, report, ended: None };
        running.socket.write_all(&line).await.map_err(broken)?;
        running.socket.write_all(&input).await.map_err(broken)?;
        Ok(running)
    }
}

/// Starts the helper of one run.
fn spawn(helper: &Path, isolated: bool) -> io::Result<(Child, UnixStream)> {
    let (own, its) = StdUnixStream::pair()?;
    own.set_nonblocking(true)?;
    let mut command = helper_command(helper, if isolated { ISOLATED } else { SHARED });
    let child = command.current_dir("/").stdin(Stdio::from(OwnedFd::from(its))).spawn()?;
    Ok((child, UnixStream::from_std(own)?))
}

/// Creates the command of a helper with an empty environment.
fn helper_command(helper: &Path, namespace: &str) -> Command {
    let mut command = Command::new(helper);
    command.arg(SUPERVISE).arg(std::process::id().to_string()).arg(namespace).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Creates the command of a long-lived program with its own protocol, such as an MCP server. It runs `argv` below a
/// helper, with exactly this environment. Standard input, output and error are piped to the program. The started process
/// is the helper, which exits with the code of the program.
///
/// When the program, this service (even by `kill -9`) or the helper ends, all descendants of the program end, too.
/// SIGTERM or `kill -9` to the helper sends SIGTERM to the program and its descendants, and SIGKILL after a second.
/// Dropping the child kills the helper. The program has no limits and no sandbox.
///
/// # Errors
/// Returns an error if `argv` is empty or no helper is configured.
///
/// ```no_run
/// # async fn example(processes: &toolpost_tool::executor::Processes) -> std::io::Result<()> {
/// use toolpost_tool::executor::process::supervised_command;
///
/// let argv = ["mcp-server".to_owned(), "--stdio".to_owned()];
/// let mut child = supervised_command(processes, &argv, &[("PATH".into(), "/usr/bin".into())].into(), None)?.spawn()?;
/// # child.wait().await?;
/// # Ok(())
/// # }
/// ```
pub fn supervised_command(
    processes: &Processes,
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
) -> io::Result<Command> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of the program is missing"));
    }
    let mut command = helper_command(processes.helper()?, SHARED);
    command.args(argv).envs(env).current_dir(cwd.unwrap_or(Path::new("/"))).kill_on_drop(true);
    Ok(command)
}

impl RunningProcess {
    /// Waits for the next event. The program is paused while its output is not read.
    ///
    /// # Cancel safety
    /// This method is cancel safe: no output is lost.
    ///
    /// # Errors
    /// Returns an error if the helper ended without a report. The program and its descendants have ended in that case,
    /// too.
    pub async fn next(&mut self) -> io::Result<ProcessEvent> {
        loop {
            if self.stdout.is_none()
                && self.stderr.is_none()
                && let Some(ended) = self.ended.clone()
            {
                return Ok(ProcessEvent::Exited(ended));
            }
            let has_ended = self.ended.is_some();
            tokio::select! {
                read = read(&mut self.stdout, &mut self.out) => match read? {
                    0 => self.stdout = None,
                    _ => return Ok(ProcessEvent::Stdout(self.out.split().freeze())),
                },
                read = read(&mut self.stderr, &mut self.err) => match read? {
                    0 => self.stderr = None,
                    _ => return Ok(ProcessEvent::Stderr(self.err.split().freeze())),
                },
                read = self.socket.read_buf(&mut self.report), if !has_ended => {
                    if read? == 0 {
                        self.ended = Some(serde_json::from_slice(&self.report)?);
                        // The helper has removed the directory.
                        self.fresh = None;
                    } else if self.report.len() > MAX_REPORT {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                // A process that still holds a pipe is not a descendant of the program, so its output is not awaited.
                () = tokio::time::sleep(MAX_SILENCE), if has_ended => {
                    (self.stdout, self.stderr) = (None, None);
                }
            }
        }
    }

    /// Requests the end of the program as dropping does, but its remaining output can still be read.
    pub async fn stop(&mut self) {
        // Fails only if the helper has already exited.
        let _ = self.socket.shutdown().await;
    }
}

/// Reads from a pipe; never returns if the pipe is closed.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut BytesMut) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            buffer.reserve(CHUNK);
            pipe.read_buf(buffer).await
        }
        None => std::future::pending().await,
    }
}

/// A program that was asked to end may still write, and a closed pipe would kill it. So the pipes are read until the
/// helper has ended.
impl Drop for RunningProcess {
    fn drop(&mut self) {
        let (child, stdout, stderr) = (self.child.take(), self.stdout.take(), self.stderr.take());
        let fresh = self.fresh.take();
        // Without a runtime, no task can read the pipes.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::join!(discard(stdout), discard(stderr));
            if let Some(mut child) = child {
                let _ = child.wait().await;
            }
            if let Some(fresh) = fresh.filter(|fresh| fresh.exists()) {
                let _ = tokio::task::spawn_blocking(move || workdir::remove(&fresh)).await;
            }
        });
    }
}

async fn discard(pipe: Option<impl AsyncRead + Unpin>) {
    if let Some(mut pipe) = pipe {
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
}
