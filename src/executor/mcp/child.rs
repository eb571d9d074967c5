//! The program of a server: how it is started so that nothing of it outlives its connection or the service, and how it ends.
//! The one place that knows by which helper.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::domain::json;
use crate::executor::Processes;
use crate::executor::process::supervised_command;

/// How long a program has to end by itself, once its pipe is closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long the helper may then take to end it, with all that it has started.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long the last line of standard error is waited for once a program has ended: what it has started may keep the pipe.
const LAST_LINE: Duration = Duration::from_secs(1);
/// Longest last line that is repeated, in characters.
const LONGEST_LINE: usize = 300;

/// A running program below its helper. Dropped, it is ended in the background.
#[derive(Debug)]
pub struct ChildGuard {
    child: Option<Child>,
    /// Reads standard error to its end, and gives the last line.
    last_line: Option<JoinHandle<Option<String>>>,
}

/// The pipes of a program.
pub struct Pipes {
    /// Its standard input; when it is closed, the program is to end.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

/// Starts a program below a helper, in a group of its own and with this environment only.
///
/// # Errors
/// Why it cannot be started.
pub fn start(
    processes: &Processes,
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&str>,
) -> Result<(ChildGuard, Pipes), String> {
    let own = std::env::current_dir().ok();
    let cwd = cwd.map(Path::new).or(own.as_deref());
    let command = supervised_command(processes, argv, env, cwd);
    let mut command = command.map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("its program cannot be started: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    match (stdin, stdout, stderr) {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            Ok((ChildGuard { child: Some(child), last_line: None }, Pipes { stdin, stdout, stderr }))
        }
        _ => Err("its program has no pipes".to_owned()),
    }
}

impl ChildGuard {
    /// The id of the process that keeps it.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Lets its end be told with the last line of its standard error, which this task reads.
    pub fn with_last_line(self, last_line: JoinHandle<Option<String>>) -> Self {
        let mut running = self;
        running.last_line = Some(last_line);
        running
    }

    /// Waits for the end, which the closed pipe brings about; a helper that hangs is killed. Says how it ended.
    pub async fn end(mut self) -> Option<String> {
        let told = ended(self.child.take()?).await.map(told)?;
        let Some(reading) = self.last_line.take() else { return Some(told) };
        match tokio::time::timeout(LAST_LINE, reading).await {
            Ok(Ok(Some(line))) => {
                let line = line.trim().replace(char::is_control, " ");
                Some(format!("{told}; the last line of its standard error: {}", json::shorten(&line, LONGEST_LINE)))
            }
            _ => Some(told),
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // Without a runtime, `kill_on_drop` is all that is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(ended(child));
        }
    }
}

async fn ended(mut child: Child) -> Option<ExitStatus> {
    drop(child.stdin.take());
    if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
        return status.ok();
    }
    let helper = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
    if let Some(helper) = helper {
        // It passes this on, and kills what does not heed it.
        let _ = rustix::process::kill_process(helper, rustix::process::Signal::TERM);
    }
    if let Ok(status) = tokio::time::timeout(PATIENCE, child.wait()).await {
        return status.ok();
    }
    let _ = child.start_kill();
    child.wait().await.ok()
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code > 128 => format!("its program was killed by signal {}", code - 128),
        (Some(code), _) => format!("its program has ended with code {code}"),
        (None, Some(signal)) => format!("its program was killed by signal {signal}"),
        (None, None) => "its program has ended".to_owned(),
    }
}
