//! Programs that live long and are talked to by somebody else, as servers of the Model Context Protocol are.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::Processes;
use super::protocol::{SHARED, SUPERVISE};

/// A command that runs `argv` below a helper, with exactly this environment; standard input, output and errors are piped and
/// are the program's own. The process that it starts is the helper, which ends as the program did.
///
/// Whatever ends first, nothing of it is left: the program, this service, even by `kill -9`, or the helper. SIGTERM to the
/// helper, as `kill -9`, is SIGTERM for the program and all below it, and SIGKILL after a second. Dropping the child kills
/// the helper. No limits hold for the program, and nothing confines it.
///
/// # Errors
/// If this service has no helper.
///
/// ```no_run
/// # async fn example(processes: &toolpost::executor::Processes) -> std::io::Result<()> {
/// use toolpost::executor::process::supervised_command;
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
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start"));
    }
    let mut command = Command::new(processes.helper()?);
    command.arg(SUPERVISE).arg(std::process::id().to_string()).arg(SHARED).args(argv);
    command.env_clear().envs(env).current_dir(cwd.unwrap_or(Path::new("/"))).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}
