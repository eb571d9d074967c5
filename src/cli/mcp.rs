//! `toolpost mcp`: the tools over standard input and output, for a client that starts this program and ends with it.

use tokio_util::sync::CancellationToken;
use toolpost::mcp::{Server, serve_stdio};

use super::Exit;
use super::error::CliError;
use super::options::Options;

/// What only this command is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Add the fixtures of MCP's official conformance suite
    #[arg(long, hide = true)]
    conformance: bool,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let mut config = options.quiet_settings()?;
    config.mcp.conformance |= args.conformance;
    let stop = CancellationToken::new();
    toolpost::lifecycle::on_signals(stop.clone())
        .map_err(|error| CliError::unusable(format!("signals cannot be heard: {error}")))?;
    let conformance = config.mcp.conformance;
    // A server may run on the same database: what it has to see to is left to it.
    let app = super::start_beside(config).await?;
    let served = serve_stdio(Server::of_operator(&app, conformance), stop).await;
    app.stop().await;
    served.map_err(|error| CliError::unusable(format!("the client cannot be served: {error}")))?;
    Ok(Exit::Good)
}
