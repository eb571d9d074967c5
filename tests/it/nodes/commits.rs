//! Signals of commits.

use std::sync::Arc;

use toolpost::store::Stores;

use crate::support::service::Database;
use crate::support::{Backend, bounded};

/// Opens the database as a node of this name.
async fn node(database: &Database, name: &str) -> Stores {
    let stores = Stores::open(&database.url).await.unwrap();
    stores.signals().start(stores.db(), Arc::from(name));
    stores
}

fn count<'a>(mut counts: impl Iterator<Item = (&'a str, u64)>) -> u64 {
    counts.find(|(kind, _)| *kind == "commits").unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_wakes_the_watchers_of_other_nodes() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let (one, other) = (node(&database, "one").await, node(&database, "other").await);
    let mut watch = other.signals().commits();
    // Wakes that the start of the listener and of the watch cause. If the listener had started before the watch, only a
    // commit causes one.
    one.signals().notify_commits();
    bounded("the first wake", watch.committed()).await;
    for _ in 0..3 {
        let before = count(other.signals().counts().received());
        while count(other.signals().counts().received()) == before {
            one.signals().notify_commits();
            bounded("a wake", watch.committed()).await;
        }
    }
    assert_eq!(count(other.signals().counts().sent()), 0);
    one.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_sends_and_receives_nothing() {
    let database = Database::fresh(Backend::Sqlite).await;
    let stores = node(&database, "one").await;
    let _watch = stores.signals().commits();
    stores.signals().notify_commits();
    stores.signals().notify_tools();
    stores.close().await;
    let counts = stores.signals().counts();
    assert_eq!(counts.sent().chain(counts.received()).map(|(_, count)| count).sum::<u64>(), 0);
}
