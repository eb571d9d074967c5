//! A primary that is lost, and a standby that is promoted in its place: nodes with both hosts in their URL continue on the
//! new primary, and never write to the old one again.

use std::sync::Arc;

use sqlx::{Connection, PgConnection};

use crate::support::postgres::PgCluster;
use crate::support::{Client, eventually};

mod rounds;
mod start;
mod unconfirmed;
mod zombie;

/// Name of the database in each cluster.
const DATABASE: &str = "test_0";

/// Starts a primary with a database, and a standby for which its commits wait.
async fn pair() -> (Arc<PgCluster>, Arc<PgCluster>) {
    let made = tokio::task::spawn_blocking(|| {
        let primary = PgCluster::start();
        primary.create_database();
        let standby = PgCluster::start_standby_of(&primary);
        primary.require_standby(true);
        (Arc::new(primary), Arc::new(standby))
    });
    let (primary, standby) = made.await.unwrap();
    is_synchronous(&primary).await;
    (primary, standby)
}

/// Runs `work` on a blocking thread.
async fn with(cluster: &Arc<PgCluster>, work: impl FnOnce(&PgCluster) + Send + 'static) {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || work(&cluster)).await.unwrap();
}

async fn sql(cluster: &PgCluster) -> PgConnection {
    PgConnection::connect(&cluster.url(DATABASE)).await.unwrap()
}

/// Waits until commits of this server wait for its standby.
async fn is_synchronous(primary: &PgCluster) {
    const SQL: &str = "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    // A connection that was opened later shows that all processes of the server were signalled.
    while setting(primary).await != "*" {
        tokio::task::yield_now().await;
    }
    let mut sql = sql(primary).await;
    // Commits wait only after the checkpointer has read the setting, which it does before its next checkpoint.
    sqlx::query("CHECKPOINT").execute(&mut sql).await.unwrap();
    while sqlx::query_scalar::<_, i64>(SQL).fetch_one(&mut sql).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
}

async fn setting(primary: &PgCluster) -> String {
    let mut sql = sql(primary).await;
    sqlx::query_scalar("SHOW synchronous_standby_names").fetch_one(&mut sql).await.unwrap()
}

/// Waits until the node is ready.
async fn is_ready(node: &Client) {
    let look = async || (node.get("/readyz").await.status == 200).then_some(());
    eventually("a ready node", look).await;
}
