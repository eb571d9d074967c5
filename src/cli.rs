//! The command line: every command is a thin caller of the library. Here are the commands, their order of events, and
//! the exit codes.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use toolpost::app::{App, Builder};
use toolpost::config::Config;

mod call;
mod doctor;
mod error;
mod export;
mod healthcheck;
mod import;
mod keys;
mod mcp;
mod openapi;
mod options;
mod print;
mod serve;
mod stats;
mod tenant;
mod tools;

use error::CliError;
use options::Options;

const EXAMPLES: &str = "\
Examples:
  toolpost serve                                        the service, with an SQLite file in your data folder
  toolpost serve --listen 127.0.0.1:0 --tools examples/tools
  toolpost call calculate '{\"expression\": \"6 * 7\"}'     one call, without a server
  toolpost tools list
  toolpost mcp                                          the tools for a client of MCP that starts this program
  toolpost tools validate examples/tools/*.json
  toolpost import openapi petstore.yaml --dry-run       what would become of an API's description
  toolpost stats --json
  toolpost export --since 2026-01-01 --out calls.ndjson
  toolpost keys create --scope call --scope read --expires 30d
  toolpost doctor                                       what is wrong with the set-up, if anything is

Exit codes:
  0  all went well
  1  the call ended in ERROR, a definition is not valid, an operation cannot be imported, the doctor found a fault, or
     the service is not healthy
  2  wrong usage or bad input
  3  the service or the database could not be used
  130, 143  interrupted by SIGINT, SIGTERM

A flag comes before its environment variable, then TOOLPOST__SECTION__KEY, the --config file, the defaults.";

/// Runs the tool calls of LLM agents.
#[derive(Debug, Parser)]
#[command(name = "toolpost", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::Args),
    /// Run one call without a server, on the same database
    Call(call::Args),
    /// Serve the tools to a client of the Model Context Protocol over standard input and output
    Mcp,
    /// List, show and check tools
    Tools(tools::Args),
    /// Make tools of an API's description
    Import(import::Args),
    /// Show how often, how well and how fast tools ran
    Stats(stats::Args),
    /// Write calls as NDJSON: one ToolCall a line, oldest first, also beside a running service
    Export(export::Args),
    /// Make, list and revoke API keys; show what outgoing requests are signed with
    Keys(keys::Args),
    /// Check the set-up and say what is wrong with it
    Doctor(doctor::Args),
    /// Ask a running service whether it lives, for containers that have no other program
    Healthcheck(healthcheck::Args),
    /// Print the API's description, OpenAPI 3.1
    Openapi,
}

/// How a command ended, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Success,
    /// The call ended in `ERROR`, a definition is not valid, an operation cannot be imported, or something is not well.
    Failure,
    /// Wrong usage or bad input; clap's own code.
    Usage,
    /// The service or the database could not be used.
    Unavailable,
    /// Stopped by a signal: 128 and its number, as shells have it.
    Signal(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
            Exit::Signal(number) => 128 + number,
        })
    }
}

/// Runs a command to its end; what went wrong is told on standard error.
pub fn main(cli: Cli) -> Exit {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return print::error(&CliError::unusable(format!("no threads can be started: {error}"))),
    };
    let ended = runtime.block_on(run(cli));
    // A tool that blocks and hears no cancellation must not hold the process.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| print::error(&error))
}

async fn run(Cli { command, options }: Cli) -> Result<Exit, CliError> {
    match command {
        Command::Serve(args) => serve::run(args, &options).await,
        Command::Call(args) => call::run(args, &options).await,
        Command::Mcp => mcp::run(&options).await,
        Command::Tools(args) => tools::run(args, &options).await,
        Command::Import(args) => import::run(args, &options).await,
        Command::Stats(args) => stats::run(args, &options).await,
        Command::Export(args) => export::run(args, &options).await,
        Command::Keys(args) => keys::run(args, &options).await,
        Command::Doctor(args) => doctor::run(args, &options).await,
        Command::Healthcheck(args) => healthcheck::run(args, &options).await,
        Command::Openapi => openapi::run(),
    }
}

/// The library with these settings, for a command that is not the service.
async fn start(config: Config) -> Result<App, CliError> {
    finish(config, App::builder).await
}

/// The same without a server: what others have left behind is left to one.
async fn start_beside(config: Config) -> Result<App, CliError> {
    finish(config, |config| App::builder(config).command_line()).await
}

async fn finish(config: Config, build: impl FnOnce(Config) -> Builder) -> Result<App, CliError> {
    toolpost::telemetry::start(&config.log);
    let database = config.database_url();
    build(config).start().await.map_err(|error| CliError::start(error, &database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for words in [["--config", "a.toml", "tools", "list"], ["tools", "list", "--config", "a.toml"]] {
            let cli = Cli::try_parse_from(["toolpost"].into_iter().chain(words)).unwrap();
            assert!(format!("{cli:?}").contains("a.toml"), "{words:?}");
        }
    }

    #[test]
    fn wrong_usage_is_refused_with_clap_s_own_code() {
        for words in [
            &["toolpost"][..],
            &["toolpost", "launch"],
            &["toolpost", "call"],
            &["toolpost", "call", "wait", "--timeout-ms", "0"],
            &["toolpost", "stats", "--listen", "127.0.0.1:1"],
            &["toolpost", "serve", "--database-url", ""],
            &["toolpost", "tools", "validate"],
        ] {
            assert_eq!(Cli::try_parse_from(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }
}
