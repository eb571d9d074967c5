//! `toolpost mcp`: the tools over standard input and output, for a client that starts this program and ends with it.

use tokio_util::sync::CancellationToken;
use toolpost::mcp::{Server, serve_stdio};

use super::Exit;
use super::error::CliError;
use super::options::Options;

pub async fn run(options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    let stop = CancellationToken::new();
    toolpost::lifecycle::on_signals(stop.clone())
        .map_err(|error| CliError::unusable(format!("signals cannot be heard: {error}")))?;
    // A server may run on the same database: what it has to see to is left to it.
    let app = super::start_beside(config).await?;
    let served = serve_stdio(Server::of_operator(&app), stop).await;
    app.stop().await;
    served.map_err(|error| CliError::unusable(format!("the client cannot be served: {error}")))?;
    Ok(Exit::Success)
}
