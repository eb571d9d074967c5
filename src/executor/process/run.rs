//! One run: starts the helpers, gives them the order, reads what the program writes, and hears how it ended.

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

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How long a pipe may be silent that somebody still holds when a program has ended and all that it left was killed.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Longest word of the helper.
const LONGEST_WORD: usize = 1024 * 1024;

/// A program that runs. Dropping it ends the program and all that it has started: SIGTERM, and SIGKILL after a second.
pub struct RunningProcess {
    socket: UnixStream,
    pipes: Pipes,
    out: BytesMut,
    err: BytesMut,
    word: BytesMut,
    ended: Option<ExitReport>,
}

/// What comes of a program.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessEvent {
    /// A piece of standard output.
    Stdout(Bytes),
    /// A piece of standard error.
    Stderr(Bytes),
    /// It has ended, and nothing of it is left. The last that comes.
    Exited(ExitReport),
}

impl fmt::Debug for RunningProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Processes {
    /// Starts a program.
    ///
    /// # Errors
    /// If this service has no helper, or it cannot run. That the program itself cannot is told as its end.
    pub async fn start(&self, program: Program) -> io::Result<RunningProcess> {
        let order = program.order(&self.limits, self.user);
        let isolated = program.sandbox != SandboxMode::Off;
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        let helper = self.helper()?;
        let broken =
            |error: io::Error| io::Error::new(error.kind(), format!("the helper of programs cannot run: {error}"));
        let (child, socket) = spawn(helper, isolated).map_err(broken)?;
        let mut running = RunningProcess::of(child, socket, &order.place);
        running.socket.write_all(&line).await.map_err(broken)?;
        running.socket.write_all(&program.input).await.map_err(broken)?;
        Ok(running)
    }
}

/// The helper has nothing of the service's environment.
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
        let [out, err, word] = Default::default();
        Self { socket, pipes, out, err, word, ended: None }
    }

    /// What comes next. A program that writes more than is asked for has to wait. May be dropped and asked for again.
    ///
    /// # Errors
    /// If the helper has ended without a word. Nothing of the program is left then either.
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
                read = self.socket.read_buf(&mut self.word), if !has_ended => {
                    if read? == 0 {
                        self.ended = Some(serde_json::from_slice(&self.word)?);
                        // It has been removed.
                        self.pipes.fresh = None;
                    } else if self.word.len() > LONGEST_WORD {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                // Whoever holds a pipe still is no child of the program; what it may say is not waited for.
                () = tokio::time::sleep(LAST_WORDS), if has_ended => {
                    (self.pipes.stdout, self.pipes.stderr) = (None, None);
                }
            }
        }
    }

    /// Asks the program to end, as dropping does, but what it still says can be read.
    pub async fn stop(&mut self) {
        // One that has ended needs not be asked.
        let _ = self.socket.shutdown().await;
    }
}

/// Pends for ever where there is no pipe.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut BytesMut) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            buffer.reserve(PIECE);
            pipe.read_buf(buffer).await
        }
        None => std::future::pending().await,
    }
}

/// The helper and what the program writes to. A program that is asked to end may have something to say yet, and must not die
/// of a pipe that nobody reads: so it is read on until the helper has ended.
struct Pipes {
    child: Option<Child>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// What is left to be removed if the helper cannot.
    fresh: Option<PathBuf>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let (child, stdout, stderr) = (self.child.take(), self.stdout.take(), self.stderr.take());
        let fresh = self.fresh.take();
        // Without a runtime nothing runs any more that could read.
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
