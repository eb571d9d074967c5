//! The same server over standard input and output, for clients that start it as a program. Nothing but messages is
//! written there.

use rmcp::service::ServerInitializeError;
use rmcp::transport::IntoTransport;
use rmcp::{RoleServer, ServiceExt, transport};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::listing::Completing;

/// Serves the client at the other end of standard input and output until it goes, or `stop` fires.
///
/// # Errors
/// If the client does not speak the protocol, or goes before it has said anything.
pub async fn serve_stdio(server: Server, stop: CancellationToken) -> std::io::Result<()> {
    let pipes = Completing(IntoTransport::<RoleServer, _, _>::into_transport(transport::stdio_pipes()));
    let running = match server.serve_with_ct(pipes, stop).await {
        Ok(running) => running,
        // A client that goes at once, or a signal before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error)),
    };
    running.waiting().await.map(drop).map_err(std::io::Error::other)
}
