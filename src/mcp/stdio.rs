//! The MCP server over standard input and output, for clients that start it as a program. Standard output carries only
//! messages.

use rmcp::service::ServerInitializeError;
use rmcp::transport::IntoTransport;
use rmcp::{RoleServer, ServiceExt, transport};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::listing::Completing;

/// Serves the client on standard input and output until it disconnects or `stop` is cancelled.
///
/// # Errors
/// Returns an error if the client violates the protocol during initialization or the service task panics.
pub async fn serve_stdio(server: Server, stop: CancellationToken) -> std::io::Result<()> {
    let pipes = Completing(IntoTransport::<RoleServer, _, _>::into_transport(transport::stdio_pipes()));
    let running = match server.serve_with_ct(pipes, stop).await {
        Ok(running) => running,
        // The client closed the connection, or a signal arrived, before initialization.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error)),
    };
    running.waiting().await.map(drop).map_err(std::io::Error::other)
}
