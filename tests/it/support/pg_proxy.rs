//! A proxy between a service and PostgreSQL that disconnects the service while the server keeps running, as a broken
//! network does.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

pub mod loss;
mod slow;
pub mod statements;

use super::network::Network;
use loss::Loss;
use statements::Statements;

/// A proxy that listens on a Unix socket in its own folder and forwards everything.
pub struct PgProxy {
    url: String,
    pipes: Arc<Mutex<Vec<Pipe>>>,
    listening: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

/// A connection. Its server side stays open until the proxy is dropped.
struct Pipe {
    there: JoinHandle<()>,
    back: JoinHandle<()>,
}

impl Drop for PgProxy {
    fn drop(&mut self) {
        self.listening.abort();
        for Pipe { there, back } in self.pipes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            there.abort();
            back.abort();
        }
    }
}

impl PgProxy {
    /// Creates a proxy for the database at `url`, which is in the form of `PgCluster`.
    pub fn before(url: &str) -> Self {
        Self::between(url, |client, server| {
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            let there = tokio::spawn(pass(from_client, to_server, true));
            let back = tokio::spawn(pass(from_server, to_client, false));
            Pipe { there, back }
        })
    }

    /// Creates a proxy that drops acknowledgements as `loss` determines.
    pub fn losing(url: &str, loss: &Arc<Loss>) -> Self {
        let loss = loss.clone();
        Self::between(url, move |client, server| {
            let (there, back) = loss::pass(client, server, loss.clone());
            Pipe { there: tokio::spawn(there), back: tokio::spawn(back) }
        })
    }

    /// Creates a proxy over this network, which the test can interrupt.
    pub fn over(url: &str, network: &Network) -> Self {
        let network = network.clone();
        Self::between(url, move |client, server| {
            let (there, back) = network.pass(client.into_split(), server.into_split());
            Pipe { there: tokio::spawn(there), back: tokio::spawn(back) }
        })
    }

    /// Creates a proxy over which everything takes this long, in each direction.
    pub fn slow(url: &str, delay: Duration) -> Self {
        Self::between(url, move |client, server| {
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            let there = tokio::spawn(slow::pass(from_client, to_server, delay));
            Pipe { there, back: tokio::spawn(slow::pass(from_server, to_client, delay)) }
        })
    }

    /// Creates a proxy that records the statements of the service.
    pub fn recording(url: &str, statements: &Arc<Statements>) -> Self {
        let statements = statements.clone();
        Self::between(url, move |client, server| {
            let (there, back) = statements::pass(client, server, statements.clone());
            Pipe { there: tokio::spawn(there), back: tokio::spawn(back) }
        })
    }

    fn between(url: &str, join: impl Fn(UnixStream, UnixStream) -> Pipe + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (address, host) = url.split_once("?host=").unwrap();
        let server = Path::new(host).join(".s.PGSQL.5432");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let pipes: Arc<Mutex<Vec<Pipe>>> = Arc::default();
        let opened = pipes.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&server).await else { continue };
                opened.lock().unwrap_or_else(PoisonError::into_inner).push(join(client, server));
            }
        });
        Self { url: format!("{address}?host={}", folder.path().display()), pipes, listening, _folder: folder }
    }

    /// Returns the URL that the service connects to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts every connection on the service's side. The server does not notice and finishes its statements.
    pub fn cut(&self) {
        for pipe in self.pipes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Dropping both halves closes the service's side; `there` keeps the server's side open.
            pipe.back.abort();
        }
    }
}

/// Forwards bytes to the end of the stream; `keep` leaves the other side open after that.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, keep: bool) {
    // Either side may close at any time.
    let _ = copy(&mut from, &mut to).await;
    if keep {
        std::future::pending::<()>().await;
    }
    let _ = to.shutdown().await;
}
