//! `bash`: runs a command, confined to the workspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::Workspace;
use crate::executor::Processes;
use crate::executor::process::{Confinement, ExitKind, ExitReport, ProcessEvent, Program, WorkDirSpec};
use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};
use toolpost_core::domain::limits::Truncate;
use toolpost_core::domain::process::{NetworkAccess, SandboxMode};
use toolpost_core::domain::{Failure, LimitsSpec, Outcome};

mod output_buffer;

use output_buffer::OutputBuffer;

/// Default and maximum duration of a command, in milliseconds.
const DEFAULT_MS: u64 = 120_000;
const MAX_MS: u64 = 600_000;
/// Margin between the maximum duration and the tool's timeout: a stopped command may still write output.
const GRACE_MS: u64 = 10_000;
/// Maximum length of a command, in bytes: the kernel rejects arguments above 128 KiB.
const MAX_COMMAND_BYTES: usize = 120 * 1024;

/// Paths where bash may be installed.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
/// The fallback if bash is not installed.
const POOR_SHELL: &str = "/bin/sh";

/// The script that starts a command. It starts in a temporary folder, which is deleted afterwards, and changes to the
/// workspace. Standard error is merged into standard output, so that the order of the output is kept.
const BEGINNING: &str = r#"exec </dev/null 2>&1
export HOME="$PWD" TMPDIR="$PWD"
cd -- "$1" && unset OLDPWD && exec "$0" -c "$2" bash"#;

/// Settings for running commands.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Access to the network.
    pub network: NetworkAccess,
    /// Whether commands run where the sandbox cannot be enforced.
    pub sandbox: SandboxMode,
    /// Paths that commands may read in addition to the workspace and the system.
    pub read: Vec<PathBuf>,
}

/// The tool `bash`.
#[derive(Debug, Clone)]
pub struct Bash {
    /// The workspace in which commands run.
    pub workspace: Workspace,
    /// The settings of commands.
    pub shell: Shell,
    /// The runner of programs.
    pub processes: Processes,
}

/// Runs a command with bash in the workspace and returns its output and errors. It can change files in the workspace
/// only, and each command starts a new shell: set variables and `cd` within the command that needs them. Standard input
/// is empty. Long output is truncated to its end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The command, like "cargo test 2>&1 | tail -20".
    #[schemars(length(min = 1, max = 100_000))]
    pub command: String,
    /// Stop the command and all its child processes after this number of milliseconds.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    DEFAULT_MS
}

impl Tool for Bash {
    const NAME: &'static str = "bash";
    type Args = BashArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        let limits =
            LimitsSpec { timeout_ms: Some(MAX_MS + GRACE_MS), truncate: Some(Truncate::Tail), ..LimitsSpec::default() };
        let about = about
            .title("Run a command")
            .category(super::CATEGORY)
            .tag("shell")
            .example(json!({"command": "ls src | wc -l"}), "12\n")
            .example(json!({"command": "make test", "timeout_ms": 300_000}), "…\nok\n")
            .limits(limits);
        match self.shell.network {
            NetworkAccess::Deny => about.closed_world(),
            NetworkAccess::Allow => about,
        }
    }

    fn validate(&self, args: &BashArgs) -> Result<(), Vec<InvalidArgument>> {
        let fault = if args.command.contains('\0') {
            "must not contain U+0000".to_owned()
        } else if args.command.len() > MAX_COMMAND_BYTES {
            format!("is longer than {MAX_COMMAND_BYTES} bytes; write it to a file and run the file")
        } else {
            return Ok(());
        };
        Err(vec![InvalidArgument::at("/command", fault)])
    }

    async fn call(&self, args: BashArgs, run: Run) -> Result<Outcome, ToolError> {
        let program = program(&self.workspace, &self.shell, &args.command, &run);
        let mut running = self.processes.start(program).await?;
        let timeout = Duration::from_millis(args.timeout_ms.min(run.timeout_ms()));
        let (deadline, mut is_late) = (Instant::now() + timeout, false);
        let mut output = OutputBuffer::new(&run);
        let ended = loop {
            tokio::select! {
                event = running.next() => match event {
                    Ok(ProcessEvent::Stdout(piece) | ProcessEvent::Stderr(piece)) => output.push(&piece),
                    Ok(ProcessEvent::Exited(ended)) => break ended,
                    Err(error) => {
                        tracing::warn!(id = %run.id(), %error, "the helper of a command is broken");
                        return Err(ToolError::new("the command's helper has ended unexpectedly"));
                    }
                },
                () = sleep_until(deadline), if !is_late => {
                    is_late = true;
                    // Output that the command writes while it stops is still collected.
                    running.stop().await;
                }
                () = output.due() => output.show(&run).await,
            }
        };
        output.show(&run).await;
        Ok(outcome(run.name(), output.text(), ended, is_late.then_some(args.timeout_ms)))
    }
}

/// Creates the program for a command.
fn program(workspace: &Workspace, shell: &Shell, command: &str, run: &Run) -> Program {
    let bash = SHELLS.iter().find(|path| Path::new(path).exists()).unwrap_or(&POOR_SHELL);
    let folder = workspace.path();
    let argv = [bash, "-c", BEGINNING, bash, &folder.to_string_lossy(), command];
    let own = std::env::temp_dir().join(format!("toolpost-{}-{}", run.id(), run.attempt()));
    let mut program = Program::new(argv, WorkDirSpec::Temporary(own));
    let more = [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];
    program.env.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let confinement = &mut program.confinement;
    (confinement.mode, confinement.network) = (shell.sandbox, shell.network);
    confinement.read = Confinement::system_and(&shell.read);
    confinement.write = vec![folder.to_owned()];
    program
}

/// Creates the outcome of a command. `late` is the timeout that it exceeded.
fn outcome(name: &str, text: String, ended: ExitReport, late: Option<u64>) -> Outcome {
    let mut details = object([("sandbox", ended.sandbox)]);
    if let ExitKind::Exited(code) = ended.end {
        details.insert("exit_code".to_owned(), code.into());
    }
    let fault = match late {
        Some(ms) => Some((format!("Command timed out after {ms} ms and was stopped"), json!({"timeout_ms": ms}))),
        None => ended.end.fault(),
    };
    let Some((fault, facts)) = fault else {
        let text = if text.is_empty() { "Done".to_owned() } else { text };
        return Outcome { details, ..Outcome::text(text) };
    };
    let whole = match text.trim_end() {
        "" => fault.clone(),
        text => format!("{text}\n\n{fault}"),
    };
    // The text for the model has the output, which is truncated as default_timeout_ms; the message of the failure is one line.
    let failure = Failure { text: Failure::execution(name, whole).text, ..Failure::execution(name, fault) };
    Outcome { details, ..Outcome::failed(failure.with_details(facts)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_with(text: &str, end: ExitKind, late: Option<u64>) -> Outcome {
        outcome("bash", text.to_owned(), ExitReport { end, ..ExitReport::default() }, late)
    }

    #[test]
    fn success_returns_the_output_unchanged() {
        let good = outcome_with("a\n", ExitKind::Exited(0), None);
        assert_eq!((good.output.as_str(), good.is_error(), &good.details["exit_code"]), ("a\n", false, &json!(0)));
        assert_eq!(outcome_with("", ExitKind::Exited(0), None).output, "Done");
    }

    #[test]
    fn failure_returns_the_output_and_the_reason() {
        let bad = outcome_with("oh\n", ExitKind::Exited(3), None);
        assert_eq!(bad.output, "Error executing tool \"bash\": oh\n\nCommand exited with code 3");
        let error = bad.error.unwrap();
        assert_eq!(
            (error.message.as_str(), error.details),
            ("Command exited with code 3", Some(json!({"exit_code": 3})))
        );
        assert_eq!(error.text, bad.output);
        assert!(outcome_with("", ExitKind::Killed(9), None).output.ends_with("\": Command was killed by signal 9"));
        let late = outcome_with("half", ExitKind::Killed(15), Some(500)).output;
        assert!(late.ends_with("half\n\nCommand timed out after 500 ms and was stopped"), "{late}");
    }
}
