//! A network that a test interrupts and repairs: between a service and PostgreSQL, or between a client and a service.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// Size of the buffer of each direction, in bytes.
const BUFFER: usize = 16 * 1024;

/// The state of a network. Cheap to clone: clones have the same state.
#[derive(Clone)]
pub struct Network(Arc<watch::Sender<NetworkState>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkState {
    /// Everything passes.
    Whole,
    /// Connections stay open, but nothing passes, and nothing answers new connections. Everything that was sent
    /// meanwhile arrives after the repair, as TCP sends it again.
    Silent,
    /// The client's side of all connections is closed, of new ones immediately. The server notices it after the repair.
    Broken,
}

impl Network {
    pub fn whole() -> Self {
        Self(Arc::new(watch::channel(NetworkState::Whole).0))
    }

    pub fn set(&self, state: NetworkState) {
        self.0.send_replace(state);
    }

    /// Returns the tasks for the two directions of one connection, whose sides are given as their owned halves.
    pub fn pass<R, W>(
        &self,
        (from_client, to_client): (R, W),
        (from_server, to_server): (R, W),
    ) -> (impl Future<Output = ()> + use<R, W>, impl Future<Output = ()> + use<R, W>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (there, back) = (self.0.subscribe(), self.0.subscribe());
        let there = async move {
            let open = one_way(from_client, to_server, there.clone()).await;
            // The server's side stays open until the repair.
            reached(there, |state| state == NetworkState::Whole).await;
            drop(open);
        };
        let back = async move { drop(one_way(from_server, to_client, back).await) };
        (there, back)
    }
}

/// Forwards bytes until the stream ends or the network breaks. Returns the other side, which is still open in the second
/// case.
async fn one_way<R, W>(from: R, mut to: W, network: watch::Receiver<NetworkState>) -> W
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let broken = reached(network.clone(), |state| state == NetworkState::Broken);
    tokio::select! {
        biased;
        () = broken => {}
        // Either side may close at any time.
        _ = forward(from, &mut to, network) => {}
    }
    to
}

async fn forward<R, W>(mut from: R, to: &mut W, network: watch::Receiver<NetworkState>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        reached(network.clone(), |state| state != NetworkState::Silent).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// Waits until the network is in such a state.
async fn reached(mut network: watch::Receiver<NetworkState>, is_such: impl Fn(NetworkState) -> bool) {
    if network.wait_for(|state| is_such(*state)).await.is_err() {
        // The proxy was dropped, and ends this task.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::support::pg_proxy::PgProxy;
    use crate::support::{Backend, Database, bounded};

    const SILENCE: Duration = Duration::from_millis(300);

    async fn ask(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
        bounded("an answer of the database", sqlx::query_scalar("SELECT 1").fetch_one(connection)).await
    }

    #[tokio::test]
    async fn bytes_sent_during_a_cut_arrive_after_the_repair() {
        requires_postgres!();
        let database = Database::fresh(Backend::Postgres).await;
        let network = Network::whole();
        let proxy = PgProxy::over(&database.url, &network);
        let mut open = PgConnection::connect(proxy.url()).await.unwrap();
        network.set(NetworkState::Silent);
        let mut reply = Box::pin(ask(&mut open));
        let mut connecting = Box::pin(PgConnection::connect(proxy.url()));
        assert!(tokio::time::timeout(SILENCE, &mut reply).await.is_err(), "nothing answers");
        assert!(tokio::time::timeout(SILENCE, &mut connecting).await.is_err(), "nothing answers");
        network.set(NetworkState::Whole);
        assert_eq!(reply.await.unwrap(), 1);
        let mut connected = bounded("a connection", connecting).await.unwrap();
        assert_eq!(ask(&mut connected).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn broken_network_closes_connections_until_the_repair() {
        requires_postgres!();
        let database = Database::fresh(Backend::Postgres).await;
        let network = Network::whole();
        let proxy = PgProxy::over(&database.url, &network);
        let mut open = PgConnection::connect(proxy.url()).await.unwrap();
        network.set(NetworkState::Broken);
        ask(&mut open).await.unwrap_err();
        bounded("a refusal", PgConnection::connect(proxy.url())).await.unwrap_err();
        network.set(NetworkState::Whole);
        let mut again = PgConnection::connect(proxy.url()).await.unwrap();
        assert_eq!(ask(&mut again).await.unwrap(), 1);
    }
}
