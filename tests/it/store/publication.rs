//! The time at which subscribers receive a commit.

use std::sync::Arc;

use futures_util::future::try_join_all;
use sqlx::{Connection, PgConnection};
use toolpost::domain::{Call, IdGenerator, Outcome};
use toolpost::store::journal::{Change, Transitions};

use super::{ACCEPTED, Log, ended, whole};
use crate::support::{Backend, Database, bounded, eventually};

/// Maximum number of calls in a commit.
const FULL: usize = 512;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_a_commit_while_the_next_one_waits() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut holder = PgConnection::connect(&database.url).await.unwrap();
    let log = Log::on(database, IdGenerator::counted()).await;
    let slow = log.call("slow");
    log.write(&slow, ACCEPTED).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM tool_calls WHERE id = $1 FOR UPDATE").bind(slow.id);
    lock.execute(&mut *holding).await.unwrap();
    log.hold_writer().await;
    let mut receipts = Vec::new();
    let quick: Vec<Call> = (0..FULL).map(|_| ended(&log.call("quick"), Outcome::text("x"), 1)).collect();
    for call in &quick {
        receipts.push(log.journal.enqueue(whole(call)).await.unwrap());
    }
    let end = ended(&slow, Outcome::text("x"), 1);
    let ends = Transitions { started: true, settled: true, ..Transitions::default() };
    let locked = log.journal.enqueue(Change::new(Arc::new(end), ends)).await.unwrap();
    log.door.0.open();
    bounded("the full commit", try_join_all(receipts)).await.unwrap();
    let is_published = |call: &Call, kind: &str| {
        let id = call.id.to_string();
        log.published
            .lock()
            .unwrap()
            .iter()
            .any(|(_, _, published_kind, data)| *published_kind == kind && data.contains(&id))
    };
    let last = &quick[FULL - 1];
    eventually("the word of the full commit", || async { is_published(last, "tool_result").then_some(()) }).await;
    assert!(!is_published(&slow, "tool_result"), "its commit waits");
    holding.commit().await.unwrap();
    bounded("the locked commit", locked).await.unwrap().unwrap();
    eventually("the word of the locked commit", || async { is_published(&slow, "tool_result").then_some(()) }).await;
}
