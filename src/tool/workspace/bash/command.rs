//! The program that runs a command. Only this file and the loop of `bash` depend on the process executor.

use std::collections::BTreeMap;

use super::Shell;
use crate::domain::process::ResourceLimits;
use crate::executor::process::{Program, WorkDirSpec};
use crate::tool::Run;
use crate::tool::workspace::Workspace;

/// Paths where bash may be installed.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
/// The fallback if bash is not installed.
const POOR_SHELL: &str = "/bin/sh";

/// The script that starts a command. It starts in a temporary folder, which is deleted afterwards, and changes to the
/// workspace. Standard error is merged into standard output, so that the order of the output is kept.
const BEGINNING: &str = r#"exec </dev/null 2>&1
export HOME="$PWD" TMPDIR="$PWD"
cd -- "$1" && unset OLDPWD && exec "$0" -c "$2" bash"#;

/// Creates the program for a command.
pub fn program(workspace: &Workspace, shell: &Shell, command: &str, run: &Run) -> Program {
    let program = SHELLS.iter().find(|path| std::path::Path::new(path).exists()).unwrap_or(&POOR_SHELL);
    let folder = workspace.path();
    let argv = [program, "-c", BEGINNING, program, &folder.to_string_lossy(), command];
    let own = std::env::temp_dir().join(format!("toolpost-{}-{}", run.id(), run.attempt()));
    let bare = Program::new(argv, WorkDirSpec::Temporary(own));
    let more = [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];
    let mut env: BTreeMap<String, String> = bare.env.clone();
    env.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Program {
        env,
        limits: ResourceLimits::default(),
        sandbox: shell.sandbox,
        network: shell.network,
        read: Some(shell.read.clone()),
        write: Some(vec![folder.to_owned()]),
        ..bare
    }
}
