//! `toolpost mcp`: serves the tools over standard input and output to a client that starts and stops this program.

use crate::mcp::{Server, serve_stdio};
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::error::CliError;
use super::options::Options;

pub async fn run(options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    let stop = CancellationToken::new();
    crate::lifecycle::on_signals(stop.clone())
        .map_err(|error| CliError::unavailable(format!("cannot install signal handlers: {error}")))?;
    // A service may run on the same database; it adopts orphaned calls.
    let app = super::start_command_line(config).await?;
    let served = serve_stdio(Server::of_operator(&app), stop).await;
    app.stop().await;
    served.map_err(|error| CliError::unavailable(format!("cannot serve the client: {error}")))?;
    Ok(Exit::Success)
}
