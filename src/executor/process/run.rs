//! One run: starts the helper, gives it the order, reads what the program writes, and hears how it ended. Dropping it closes
//! the socket, and the helper ends the program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use uuid::Uuid;

use super::output::Output;
use super::protocol::{Confinement, HOLD, ISOLATED, Order, Told};
use super::tail::Tail;
use super::{Plan, Processes, verdict};
use crate::domain::process::ProcessSpec;
use crate::domain::{Agent, Answer, Failure};
use crate::executor::http::MAX_ANSWER_BYTES;
use crate::executor::{Emitter, Invocation};

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How long the ends of its pipes are waited for when a program has ended and all that it left was killed.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Longest word of the helper.
const LONGEST_WORD: u64 = 1024 * 1024;
/// What every program may read where a definition says what it may: those of the system.
const SYSTEM: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/proc", "/dev"];

/// What a program is given on standard input.
#[derive(Serialize)]
struct Envelope<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Value,
    context: &'a Map<String, Value>,
    agent: Option<&'a Agent>,
    session: Option<&'a str>,
    attempt: u32,
    deadline_ms: u64,
}

/// Runs one call.
pub(super) async fn run(plan: &Plan, processes: &Processes, invocation: &Invocation) -> Result<Answer, Failure> {
    let failed = |message: String| Failure::execution(&invocation.name, message);
    let Some(helper) = &processes.helper else {
        return Err(failed(
            "this service cannot run programs: the setting `helper` in `[process]` is empty".to_owned(),
        ));
    };
    let environment = plan.environment(&invocation.arguments, processes.secrets.as_ref()).map_err(failed)?;
    let input = input(invocation).map_err(|error| failed(error.to_string()))?;
    let order = order(&plan.spec, environment, &input, invocation);
    let (child, socket) =
        start(helper).map_err(|error| failed(format!("the helper {} cannot run: {error}", helper.display())))?;
    talk(child, socket, &order, &input, invocation)
        .await
        .map_err(|error| match error {
            Broken::TooLarge => failed(format!("the output is larger than {MAX_ANSWER_BYTES} bytes (16 MiB)")),
            Broken::Helper(error) => {
                tracing::warn!(id = %invocation.id, %error, "the helper of a program is broken");
                failed("the program's helper has ended without a word".to_owned())
            }
        })
        .map(|(told, output, stderr)| {
            let redaction = invocation.redaction.as_deref();
            verdict::outcome(&invocation.name, told, output, stderr.text(redaction), redaction)
        })
}

fn input(invocation: &Invocation) -> serde_json::Result<Vec<u8>> {
    let mut input = serde_json::to_vec(&Envelope {
        id: invocation.id,
        call_id: &invocation.call_id,
        name: &invocation.name,
        arguments: &invocation.arguments,
        context: &invocation.context,
        agent: invocation.agent.as_deref(),
        session: invocation.session.as_deref(),
        attempt: invocation.attempt,
        deadline_ms: invocation.timeout_ms.saturating_sub(invocation.elapsed_ms),
    })?;
    // For programs that read a line.
    input.push(b'\n');
    Ok(input)
}

fn order(
    spec: &ProcessSpec,
    env: std::collections::BTreeMap<String, String>,
    input: &[u8],
    invocation: &Invocation,
) -> Order {
    let temporary = std::env::temp_dir();
    let paths = |paths: &[String]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let read = match &spec.read {
        Some(own) => SYSTEM.iter().map(PathBuf::from).chain(paths(own)).collect(),
        None => vec![PathBuf::from("/")],
    };
    let write = match &spec.write {
        Some(own) => paths(own),
        None => vec![temporary.clone(), "/tmp".into(), "/var/tmp".into()],
    };
    Order {
        argv: spec.argv.clone(),
        env,
        cwd: spec.cwd.as_ref().map(PathBuf::from),
        fresh: temporary.join(format!("toolpost-{}-{}", invocation.id, invocation.attempt)),
        input_bytes: input.len(),
        confinement: Confinement {
            limits: spec.limits.effective(),
            mode: spec.sandbox,
            network: spec.network,
            read,
            write,
        },
    }
}

/// The helper has a group of its own, so that what ends the service at a terminal does not end it as well, and nothing of
/// the service's environment.
fn start(helper: &Path) -> io::Result<(Child, UnixStream)> {
    let (own, its) = StdUnixStream::pair()?;
    own.set_nonblocking(true)?;
    let mut command = Command::new(helper);
    command.arg(HOLD).arg(std::process::id().to_string()).arg(ISOLATED).env_clear().current_dir("/");
    command.stdin(Stdio::from(OwnedFd::from(its))).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    Ok((child, UnixStream::from_std(own)?))
}

/// Why there is nothing to tell.
enum Broken {
    TooLarge,
    Helper(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Helper(error)
    }
}

/// The helper and what the program writes to. A program that is asked to end may have something to say yet, and must not die
/// of a pipe that nobody reads: so it is read on until the helper has ended.
struct Pipes {
    child: Option<Child>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let (child, stdout, stderr) = (self.child.take(), self.stdout.take(), self.stderr.take());
        // Without a runtime nothing runs any more that could read.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::join!(discard(stdout), discard(stderr));
            if let Some(mut child) = child {
                let _ = child.wait().await;
            }
        });
    }
}

async fn discard(pipe: Option<impl AsyncRead + Unpin>) {
    if let Some(mut pipe) = pipe {
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
}

async fn talk(
    mut child: Child,
    mut socket: UnixStream,
    order: &Order,
    input: &[u8],
    invocation: &Invocation,
) -> Result<(Told, Output, Tail), Broken> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut pipes = Pipes { child: Some(child), stdout, stderr };
    let (Some(stdout), Some(stderr)) = (&mut pipes.stdout, &mut pipes.stderr) else {
        return Err(Broken::Helper(io::ErrorKind::BrokenPipe.into()));
    };
    let mut line = serde_json::to_vec(order).map_err(io::Error::from)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    socket.write_all(input).await?;
    let (mut output, mut tail) = (Output::default(), Tail::default());
    let told = {
        let mut reading = pin!(async {
            let (read, errors) =
                tokio::join!(read_output(stdout, &mut output, &invocation.emitter), read_tail(stderr, &mut tail));
            errors?;
            read
        });
        let mut hearing = pin!(hear(&mut socket));
        tokio::select! {
            read = &mut reading => {
                read?;
                hearing.await?
            }
            told = &mut hearing => {
                let told = told?;
                // Whoever holds a pipe still has escaped; what it may say is not waited for.
                if let Ok(read) = tokio::time::timeout(LAST_WORDS, reading).await {
                    read?;
                }
                told
            }
        }
    };
    if let Some(report) = output.finish() {
        report.tell(&invocation.emitter).await;
    }
    Ok((told, output, tail))
}

/// A program that writes more than is taken has to wait.
async fn read_output(stdout: &mut ChildStdout, output: &mut Output, emitter: &Emitter) -> Result<(), Broken> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = stdout.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        for report in output.take(&piece[..read]).map_err(|_| Broken::TooLarge)? {
            report.tell(emitter).await;
        }
    }
}

async fn read_tail(stderr: &mut (impl AsyncRead + Unpin), tail: &mut Tail) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = stderr.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        tail.take(&piece[..read]);
    }
}

/// The one word of the helper.
async fn hear(socket: &mut UnixStream) -> io::Result<Told> {
    let mut word = Vec::new();
    socket.take(LONGEST_WORD).read_to_end(&mut word).await?;
    Ok(serde_json::from_slice(&word)?)
}
