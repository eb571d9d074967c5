//! `toolpost completions`: prints the completions of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::error::CliError;
use super::{Cli, Exit, print};

/// Arguments of `toolpost completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bash  toolpost completions bash > ~/.local/share/bash-completion/completions/toolpost
  zsh   toolpost completions zsh > \"${fpath[1]}/_toolpost\"
  fish  toolpost completions fish > ~/.config/fish/completions/toolpost.fish")]
pub struct Args {
    /// Shell that loads the completions
    shell: Shell,
}

pub fn run(Args { shell }: &Args) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut Cli::command(), "toolpost", &mut script);
    print::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
