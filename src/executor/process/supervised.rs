//! Long-lived programs with their own protocol, such as MCP servers.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::Processes;
use super::protocol::{SHARED, SUPERVISE};

/// Creates a command that runs `argv` below a helper, with exactly this environment. Standard input, output and error
/// are piped to the program. The started process is the helper, which exits with the code of the program.
///
/// When the program, this service (even by `kill -9`) or the helper ends, all descendants of the program end, too.
/// SIGTERM or `kill -9` to the helper sends SIGTERM to the program and its descendants, and SIGKILL after a second.
/// Dropping the child kills the helper. The program has no limits and no sandbox.
///
/// # Errors
/// Returns an error if `argv` is empty or no helper is configured.
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
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of the program is missing"));
    }
    let mut command = Command::new(processes.helper()?);
    command.arg(SUPERVISE).arg(std::process::id().to_string()).arg(SHARED).args(argv);
    command.env_clear().envs(env).current_dir(cwd.unwrap_or(Path::new("/"))).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}
