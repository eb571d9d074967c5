//! One run: starts the helpers, sends the launch request, and reads the output and the exit report.

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

use super::protocol::{ExitReport, ISOLATED, SHARED, SUPERVISE, WorkDirSpec};
use super::{Processes, Program, workdir};
use crate::domain::process::SandboxMode;

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
    pipes: Pipes,
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
    pub async fn start(&self, program: Program) -> io::Result<RunningProcess> {
        let request = program.order(&self.limits, self.user);
        let isolated = program.sandbox != SandboxMode::Off;
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        let helper = self.helper()?;
        let broken =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot run the helper of programs: {error}"));
        let (child, socket) = spawn(helper, isolated).map_err(broken)?;
        let mut running = RunningProcess::of(child, socket, &request.place);
        running.socket.write_all(&line).await.map_err(broken)?;
        running.socket.write_all(&program.input).await.map_err(broken)?;
        Ok(running)
    }
}

/// Starts the helper with an empty environment.
fn spawn(helper: &Path, isolated: bool) -> io::Result<(Child, UnixStream)> {
    let (own, its) = StdUnixStream::pair()?;
    own.set_nonblocking(true)?;
    let mut command = Command::new(helper);
    command.arg(SUPERVISE).arg(std::process::id().to_string()).arg(if isolated { ISOLATED } else { SHARED });
    command.env_clear().current_dir("/");
    command.stdin(Stdio::from(OwnedFd::from(its))).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    Ok((child, UnixStream::from_std(own)?))
}

impl RunningProcess {
    fn of(mut child: Child, socket: UnixStream, place: &WorkDirSpec) -> Self {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let fresh = match place {
            WorkDirSpec::Temporary(path) => Some(path.clone()),
            WorkDirSpec::Folder(_) => None,
        };
        let pipes = Pipes { child: Some(child), stdout, stderr, fresh };
        let [out, err, report] = Default::default();
        Self { socket, pipes, out, err, report, ended: None }
    }

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
            if self.pipes.stdout.is_none()
                && self.pipes.stderr.is_none()
                && let Some(ended) = self.ended.clone()
            {
                return Ok(ProcessEvent::Exited(ended));
            }
            let has_ended = self.ended.is_some();
            tokio::select! {
                read = read(&mut self.pipes.stdout, &mut self.out) => match read? {
                    0 => self.pipes.stdout = None,
                    _ => return Ok(ProcessEvent::Stdout(self.out.split().freeze())),
                },
                read = read(&mut self.pipes.stderr, &mut self.err) => match read? {
                    0 => self.pipes.stderr = None,
                    _ => return Ok(ProcessEvent::Stderr(self.err.split().freeze())),
                },
                read = self.socket.read_buf(&mut self.report), if !has_ended => {
                    if read? == 0 {
                        self.ended = Some(serde_json::from_slice(&self.report)?);
                        // The helper has removed the directory.
                        self.pipes.fresh = None;
                    } else if self.report.len() > MAX_REPORT {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                // A process that still holds a pipe is not a descendant of the program, so its output is not awaited.
                () = tokio::time::sleep(MAX_SILENCE), if has_ended => {
                    (self.pipes.stdout, self.pipes.stderr) = (None, None);
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

/// The helper and the output pipes of the program. A program that was asked to end may still write, and a closed pipe
/// would kill it. So the pipes are read until the helper has ended.
struct Pipes {
    child: Option<Child>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The directory to remove if the helper fails to do so.
    fresh: Option<PathBuf>,
}

impl Drop for Pipes {
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
