//! Several nodes on one PostgreSQL: a change on one node reaches the others by a signal. In these tests, nodes poll for
//! changes only every 10 minutes, so a change that arrives was signalled.

use sqlx::{Connection, PgConnection};
use toolpost::config::Config;

use crate::support::{App, Backend, Client, Options, eventually};

mod acknowledged;
mod adoption;
mod calls;
mod changes;
mod commits;
mod lost;
mod pauses;
#[cfg(feature = "fault-points")]
mod poison;
mod sessions;

const NEVER_MS: u64 = 600_000;

/// Lets a node read what others have changed only when it is signalled.
pub fn never_poll(config: &mut Config) {
    (config.node.poll_ms, config.node.heartbeat_ms, config.node.lease_ms) = (NEVER_MS, NEVER_MS, 6 * NEVER_MS);
}

/// Starts two nodes on one database that do not poll.
pub async fn pair() -> (App, App) {
    let egress_allow = vec!["127.0.0.1".into()];
    let options = Options { egress_allow, configure: Some(never_poll), ..Options::default() };
    let one = App::start_with(Backend::Postgres, options).await;
    let other = one.second().await;
    eventually("both nodes to listen", || async { (listeners(&one).await == 2).then_some(()) }).await;
    (one, other)
}

/// Returns the number of nodes that listen for signals.
async fn listeners(node: &App) -> i64 {
    const SQL: &str = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'toolpost-signals' \
        AND datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    let mut database = PgConnection::connect(&node.database_url()).await.unwrap();
    sqlx::query_scalar(SQL).fetch_one(&mut database).await.unwrap()
}

/// Returns a counter of a node.
async fn count(node: &Client, series: &str) -> f64 {
    let text = node.get("/metrics").await.text();
    let sample = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    sample.unwrap_or_else(|| panic!("no {series} in\n{text}"))
}

async fn received(node: &Client, kind: &str) -> f64 {
    count(node, &format!("toolpost_signals_received_total{{kind=\"{kind}\"}}")).await
}

/// Waits until a node has received a signal of this kind.
async fn signalled(node: &Client, kind: &str) {
    eventually("the signal", || async { (received(node, kind).await > 0.0).then_some(()) }).await;
}

/// Waits until a path of a node answers with this status.
async fn answers(node: &Client, path: &str, status: u16) {
    eventually(path, || async { (node.get(path).await.status == status).then_some(()) }).await;
}
