//! The program of a server: starting it below a helper, so that no descendant outlives the connection or the service,
//! and ending it.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::ring::Ring;
use crate::executor::process::supervised_command;
use crate::executor::{Processes, Redaction};
use toolpost_core::domain::json;

/// Maximum time for a program to exit after its standard input was closed.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum time for the helper to end the program and its descendants after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(4);

/// Maximum wait for the last line of standard error after the program has ended. Its descendants may keep the pipe
/// open.
const LAST_LINE: Duration = Duration::from_secs(1);
/// Maximum length of the quoted last line, in characters.
const MAX_LINE: usize = 300;

/// A running program below its helper. Dropping it ends the program in the background.
#[derive(Debug)]
pub struct ChildGuard {
    child: Option<Child>,
    /// A task that reads standard error to its end and returns the last line.
    last_line: Option<JoinHandle<Option<String>>>,
}

/// Starts a program below a helper, in its own process group and with only this environment. Its standard error is
/// collected in `stderr`. Returns also its standard output and input; closing the input asks the program to exit.
///
/// # Errors
/// Returns a message if the program cannot be started.
pub fn start(
    processes: &Processes,
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&str>,
    stderr: &Ring,
    redaction: Option<Arc<Redaction>>,
) -> Result<(ChildGuard, ChildStdout, ChildStdin), String> {
    let own = std::env::current_dir().ok();
    let cwd = cwd.map(Path::new).or(own.as_deref());
    let mut command = supervised_command(processes, argv, env, cwd).map_err(|error| error.to_string())?;
    let mut child = command.spawn().map_err(|error| format!("its program cannot be started: {error}"))?;
    let (Some(stdin), Some(stdout), Some(pipe)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err("its program has no pipes".to_owned());
    };
    let ring = stderr.clone();
    let last_line = tokio::spawn(async move { ring.fill(pipe, redaction.as_deref()).await });
    Ok((ChildGuard { child: Some(child), last_line: Some(last_line) }, stdout, stdin))
}

impl ChildGuard {
    /// Returns the process id of the helper.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Closes standard input, waits for the end of the program, and kills it if it hangs. Returns a message about its
    /// end.
    pub async fn end(mut self) -> Option<String> {
        let message = ended(self.child.take()?).await.map(message)?;
        let Some(reading) = self.last_line.take() else { return Some(message) };
        match tokio::time::timeout(LAST_LINE, reading).await {
            Ok(Ok(Some(line))) => {
                let line = line.trim().replace(char::is_control, " ");
                Some(format!("{message}; the last line of its standard error: {}", json::shorten(&line, MAX_LINE)))
            }
            _ => Some(message),
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // Without a runtime, `kill_on_drop` ends the helper.
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
    if let Some(helper) = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
        // The helper forwards the signal, and kills the processes that ignore it.
        let _ = rustix::process::kill_process(helper, rustix::process::Signal::TERM);
    }
    if let Ok(status) = tokio::time::timeout(TERM_GRACE, child.wait()).await {
        return status.ok();
    }
    let _ = child.start_kill();
    child.wait().await.ok()
}

fn message(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code > 128 => format!("its program was killed by signal {}", code - 128),
        (Some(code), _) => format!("its program exited with code {code}"),
        (None, Some(signal)) => format!("its program was killed by signal {signal}"),
        (None, None) => "its program has ended".to_owned(),
    }
}
