//! The command line: the commands, their dispatch and the exit codes. Every command is a thin caller of the library.

use std::process::ExitCode;

use crate::app::{App, Builder};
use crate::config::Config;
use crate::mcp::{Server, serve_stdio};
use crate::store::{StoreError, Stores};
use crate::threads;
use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

mod approvals;
mod budgets;
mod call;
mod calls;
mod completions;
mod demo;
mod doctor;
mod error;
mod export;
mod follow;
mod healthcheck;
mod import;
mod keys;
mod moment;
mod options;
mod policies;
mod print;
mod remote;
mod screen;
mod serve;
mod sessions;
mod signals;
mod stats;
mod tenant;
mod tools;
mod watch;

use error::CliError;
use options::Options;

const EXAMPLES: &str = "\
Examples:
  toolpost serve                                        run the service with an SQLite file in your data folder
  toolpost demo                                         try the console with a few tools and a stream of calls
  toolpost serve --listen 127.0.0.1:0 --tools examples/tools
  toolpost call calculate '{\"expression\": \"6 * 7\"}'     run one call without a server
  toolpost call echo --server https://example.com/toolpost    run one call by a running service
  toolpost watch --server http://127.0.0.1:8080         watch its calls, until you press q
  toolpost calls list --status error --since 1h         list calls of the service in TOOLPOST_SERVER
  toolpost tools list
  toolpost mcp                                          serve the tools to an MCP client that starts this program
  toolpost tools validate examples/tools/*.json
  toolpost import openapi petstore.yaml --dry-run       preview the tools of an API description
  toolpost stats --json
  toolpost export --since 2026-01-01 --out calls.ndjson
  toolpost approvals list                               show the calls that wait for a person
  toolpost policies test policy.json --since 7d         try a policy on the calls of the last week
  toolpost keys create --scope call --scope read --expires 30d
  toolpost doctor                                       check the setup

Exit codes:
  0  success
  1  the call ended in ERROR, arguments or a definition are invalid, an operation could not be imported, the doctor
     found a fault, or the service is unhealthy
  2  wrong usage, invalid input, or a request that the service rejected
  3  the service or the database failed or cannot be reached
  130, 143  interrupted by SIGINT, SIGTERM

Flags take precedence over their environment variables, then TOOLPOST__SECTION__KEY, the --config file and the defaults.";

/// Runs the tool calls of LLM agents.
#[derive(Debug, Parser)]
#[command(name = "toolpost", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::Args),
    /// Run a service with a few tools and a stream of calls, to try the console
    Demo(demo::Args),
    /// Run one call, on the database or by a running service
    Call(call::Args),
    /// List, show, follow, cancel and repeat calls of a running service
    Calls(calls::Args),
    /// Show the calls of a running service as they happen
    Watch(watch::Args),
    /// List, show, abort and remove sessions of a running service
    Sessions(sessions::Args),
    /// Serve the tools to an MCP client over standard input and output
    Mcp,
    /// List, show, check, add, remove and try tools
    Tools(tools::Args),
    /// Create tools from an API description
    Import(import::Args),
    /// Show call counts, failures and durations of tools
    Stats(stats::Args),
    /// Write calls as NDJSON: one ToolCall per line, oldest first, also while the service runs
    Export(export::Args),
    /// List calls that wait for approval, and decide about them
    Approvals(approvals::Args),
    /// List policies, and try a policy on stored calls
    Policies(policies::Args),
    /// Show budgets and their use
    Budgets(budgets::Args),
    /// Create, list and revoke API keys; show the signing secret of outgoing requests
    Keys(keys::Args),
    /// Check the setup and suggest fixes
    Doctor(doctor::Args),
    /// Check the health of a running service (for container images without curl)
    Healthcheck(healthcheck::Args),
    /// Print the API description, OpenAPI 3.1
    Openapi,
    /// Print the completions of a shell
    Completions(completions::Args),
}

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Success,
    /// The call ended in `ERROR`, a definition is invalid, an operation cannot be imported, or a check failed.
    Failure,
    /// Wrong usage or invalid input; clap uses the same code.
    Usage,
    /// The service or the database is unavailable.
    Unavailable,
    /// Stopped by a signal: 128 plus its number, as in shells.
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

/// Runs the program: a helper of the process executor, or the command that its arguments name. Errors are printed on standard
/// error. Threads that end call `return_memory`.
#[must_use]
pub fn main(return_memory: fn()) -> ExitCode {
    if let Some(ended) = crate::executor::process::run_helper_if_requested() {
        return ended;
    }
    crate::executor::http::install_crypto_provider();
    threads::return_memory_with(return_memory);
    run_to_end(Cli::parse()).into()
}

fn run_to_end(cli: Cli) -> Exit {
    let runtime = match threads::runtime("toolpost") {
        Ok(runtime) => runtime,
        Err(error) => return print::error(&CliError::unavailable(format!("cannot start threads: {error}"))),
    };
    let ended = runtime.block_on(run(cli));
    // A blocking tool that ignores cancellation must not keep the process running.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| print::error(&error))
}

async fn run(Cli { command, options }: Cli) -> Result<Exit, CliError> {
    match command {
        Command::Serve(args) => serve::run(args, &options).await,
        Command::Demo(args) => demo::run(args, &options).await,
        Command::Call(args) => call::run(args, &options).await,
        Command::Calls(args) => calls::run(args).await,
        Command::Watch(args) => watch::run(args).await,
        Command::Sessions(args) => sessions::run(args).await,
        Command::Mcp => serve_mcp(&options).await,
        Command::Tools(args) => tools::run(args, &options).await,
        Command::Import(args) => import::run(args, &options).await,
        Command::Stats(args) => stats::run(args, &options).await,
        Command::Export(args) => export::run(args, &options).await,
        Command::Approvals(args) => approvals::run(args, &options).await,
        Command::Policies(args) => policies::run(args, &options).await,
        Command::Budgets(args) => budgets::run(args, &options).await,
        Command::Keys(args) => keys::run(args, &options).await,
        Command::Doctor(args) => doctor::run(args, &options).await,
        Command::Healthcheck(args) => healthcheck::run(args, &options).await,
        Command::Openapi => print::json(&crate::http::openapi()).map(|()| Exit::Success),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Serves the tools over standard input and output to a client that starts and stops this program.
async fn serve_mcp(options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    let stop = CancellationToken::new();
    cancel_on_signals(&stop)?;
    // A service may run on the same database; it adopts orphaned calls.
    with_app(config, async |app| {
        let served = serve_stdio(Server::of_operator(app), stop).await;
        served.map_err(|error| CliError::unavailable(format!("cannot serve the client: {error}")))
    })
    .await?;
    Ok(Exit::Success)
}

/// Starts the library with these settings.
async fn start(config: Config, build: impl FnOnce(Config) -> Builder) -> Result<App, CliError> {
    config.log.start();
    let database = config.database_url();
    build(config).start().await.map_err(|error| CliError::start(error, &database))
}

/// Starts the library for a command that may run next to a service, which alone adopts orphaned calls.
async fn start_command_line(config: Config) -> Result<App, CliError> {
    start(config, |config| App::builder(config).command_line()).await
}

/// Runs a command in the started library, and stops the library.
async fn with_app<T>(config: Config, work: impl AsyncFnOnce(&App) -> Result<T, CliError>) -> Result<T, CliError> {
    let app = start_command_line(config).await?;
    let result = work(&app).await;
    app.stop().await;
    result
}

/// Opens the database alone for a query: no tools are loaded, and nothing runs.
async fn query<T>(config: &Config, work: impl AsyncFnOnce(&Stores) -> Result<T, StoreError>) -> Result<T, CliError> {
    config.log.start();
    let database = config.database_url();
    let result = async {
        let stores = Stores::open(&database).await?;
        let result = work(&stores).await;
        stores.close().await;
        result
    };
    result.await.map_err(|error| CliError::store(&error, &database))
}

/// Cancels the token at the first SIGTERM or SIGINT, and ends the process at the second.
fn cancel_on_signals(token: &CancellationToken) -> Result<(), CliError> {
    crate::lifecycle::on_signals(token.clone()).map_err(CliError::signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_valid() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_every_argument_has_a_help_text() {
        use clap::CommandFactory;
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            let arguments = command.get_arguments().filter(|argument| argument.get_help().is_none());
            let arguments: Vec<_> = arguments.map(|argument| argument.get_id().as_str()).collect();
            assert!(arguments.is_empty(), "{}: {arguments:?}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn server_options_are_accepted_before_and_after_the_subcommand() {
        for words in [&["tools", "--server", "http://h", "list"][..], &["tools", "list", "--server", "http://h"]] {
            let cli = Cli::try_parse_from(["toolpost"].iter().chain(words)).unwrap();
            assert!(format!("{cli:?}").contains("http://h"), "{words:?}");
        }
        let cli = Cli::try_parse_from(["toolpost", "watch", "--key", "tp_secret"]).unwrap();
        assert!(!format!("{cli:?}").contains("tp_secret"));
    }

    #[test]
    fn global_options_are_accepted_before_and_after_the_command() {
        for words in [["--config", "a.toml", "tools", "list"], ["tools", "list", "--config", "a.toml"]] {
            let cli = Cli::try_parse_from(["toolpost"].into_iter().chain(words)).unwrap();
            assert!(format!("{cli:?}").contains("a.toml"), "{words:?}");
        }
    }

    #[test]
    fn wrong_usage_has_the_exit_code_of_clap() {
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
