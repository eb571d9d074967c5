//! A TCP proxy between a client and a service, over a network that a test interrupts.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::network::Network;

/// A proxy that listens on a port of its own. Its connections end on drop.
pub struct TcpProxy {
    address: SocketAddr,
    _listening: AbortOnDropHandle<()>,
}

impl TcpProxy {
    /// Creates a proxy for the service at `server`, whose port may be closed at times.
    pub async fn over(server: SocketAddr, network: &Network) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = network.clone();
        let listening = tokio::spawn(async move {
            let mut directions = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while directions.try_join_next().is_some() {}
                let Ok(server) = TcpStream::connect(server).await else { continue };
                // An option of a connection that has ended.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (there, back) = network.pass(client.into_split(), server.into_split());
                directions.spawn(there);
                directions.spawn(back);
            }
        });
        Self { address, _listening: AbortOnDropHandle::new(listening) }
    }

    /// Returns the address that clients connect to, as `HOST:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}
