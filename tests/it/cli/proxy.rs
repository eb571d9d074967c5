//! A proxy in front of a service that can cut all its connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::support::Client;

/// A running proxy. Stopped on drop.
pub struct Proxy {
    address: SocketAddr,
    pipes: Arc<Mutex<Vec<AbortOnDropHandle<()>>>>,
    _listening: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of a service.
    pub async fn before(service: &Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = service.url("").trim_start_matches("http://").to_owned();
        let pipes = Arc::new(Mutex::new(Vec::new()));
        let opened = pipes.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let pipe = AbortOnDropHandle::new(tokio::spawn(forward(client, target.clone())));
                opened.lock().unwrap_or_else(PoisonError::into_inner).push(pipe);
            }
        });
        Self { address, pipes, _listening: AbortOnDropHandle::new(listening) }
    }

    /// Returns the URL of the service through the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts all connections. New ones are accepted.
    pub fn cut(&self) {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn forward(mut client: TcpStream, target: String) {
    if let Ok(mut service) = TcpStream::connect(target).await {
        let _ = copy_bidirectional(&mut client, &mut service).await;
    }
}
