//! Commits with an unknown outcome are verified before they are published. The connection is cut while the server
//! works.

use std::sync::Arc;

use sqlx::{Connection, PgConnection};
use toolpost::domain::{IdGenerator, Outcome};
use toolpost::store::journal::{Change, JournalError};

use super::{ACCEPTED, Log, STARTED, WHOLE, ended, life};
use crate::support::pg_proxy::PgProxy;
use crate::support::{Backend, Database, eventually};

/// A journal behind a connection that can be cut, and a direct connection that holds the lock of commits.
struct CutJournal {
    log: Arc<Log>,
    proxy: PgProxy,
    holder: PgConnection,
}

impl CutJournal {
    async fn open() -> Self {
        let database = Database::fresh(Backend::Postgres).await;
        let proxy = PgProxy::before(&database.url);
        let holder = PgConnection::connect(&database.url).await.unwrap();
        let through = Database::at(proxy.url().to_owned());
        Self { log: Arc::new(Log::on(through, IdGenerator::counted()).await), proxy, holder }
    }

    /// Writes the changes in a commit whose acknowledgement is lost; the retry of the commit waits behind it.
    async fn write_with_a_lost_answer(&mut self, changes: Vec<Change>) -> Vec<Result<(), JournalError>> {
        let mut holding = self.holder.begin().await.unwrap();
        let log = self.log.clone();
        log.hold_writer().await;
        let mut receipts = Vec::new();
        for change in changes {
            receipts.push(log.journal.enqueue(change).await.unwrap());
        }
        // PostgreSQL grants a row lock in request order, so the attempt that lost its acknowledgement gets it first.
        sqlx::query("SELECT pos FROM event_clock FOR UPDATE").execute(&mut *holding).await.unwrap();
        log.door.0.open();
        waiting(&mut holding, 1).await;
        self.proxy.cut();
        waiting(&mut holding, 2).await;
        holding.commit().await.unwrap();
        let mut ends = Vec::new();
        for receipt in receipts {
            ends.push(crate::support::bounded("a commit", receipt).await.unwrap());
        }
        ends
    }
}

/// Waits until `count` commits wait for the lock.
async fn waiting(connection: &mut PgConnection, count: i64) {
    const SQL: &str =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    // A transaction keeps its first view of the activity until the view is cleared.
    const AGAIN: &str = "SELECT pg_stat_clear_snapshot()";
    let connection = tokio::sync::Mutex::new(connection);
    eventually("commits that wait", || async {
        let mut connection = connection.lock().await;
        sqlx::query(AGAIN).execute(&mut **connection).await.unwrap();
        let waiting: i64 = sqlx::query_scalar(SQL).fetch_one(&mut **connection).await.unwrap();
        (waiting == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_with_a_lost_acknowledgement_is_counted_and_published_once() {
    requires_postgres!();
    let mut cut = CutJournal::open().await;
    let call = ended(&cut.log.call("echo"), Outcome::text("x"), 5);
    let ends = cut.write_with_a_lost_answer(vec![super::whole(&call)]).await;
    assert_eq!(ends, [Ok(())]);
    let log = cut.log.clone();
    assert_eq!((log.counts("echo").await, log.commits().await), ((1, 1, 0), 2));
    let stored = log.read_back(0, 10).await;
    eventually("the events", || async { (*log.published.lock().unwrap() == stored).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_with_a_lost_acknowledgement_are_made_once() {
    requires_postgres!();
    let mut cut = CutJournal::open().await;
    let log = cut.log.clone();
    let mut started = log.call("started");
    log.write(&started, ACCEPTED).await.unwrap();
    started.start(started.created_at).unwrap();
    let (mut changes, lived) = life(&log.call("lived"));
    changes.push(Change::new(Arc::new(log.call("accepted")), ACCEPTED));
    changes.push(Change::new(Arc::new(started.clone()), STARTED));
    let ends = cut.write_with_a_lost_answer(changes).await;
    assert_eq!(ends, vec![Ok(()); 6]);
    assert_eq!((log.counts("lived").await, log.events_of(&lived).await.len()), ((1, 1, 0), 6));
    assert_eq!((log.events_of(&started).await.len(), log.commits().await), (3, 3));
    let stored = log.read_back(0, 10).await;
    eventually("the events", || async { (*log.published.lock().unwrap() == stored).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_end_with_a_lost_acknowledgement_is_rejected() {
    requires_postgres!();
    let mut cut = CutJournal::open().await;
    let log = cut.log.clone();
    let running = log.call("echo");
    log.write(&ended(&running, Outcome::text("first"), 1), WHOLE).await.unwrap();
    let second = Change::new(Arc::new(ended(&running, Outcome::text("second"), 1)), super::SETTLED);
    let neighbour = ended(&log.call("echo"), Outcome::text("x"), 1);
    let ends = cut.write_with_a_lost_answer(vec![second, super::whole(&neighbour)]).await;
    assert_eq!(ends, [Err(JournalError::Fenced), Ok(())]);
    assert_eq!(log.counts("echo").await, (2, 2, 0));
    assert_eq!(log.stored(&running).await.outcome.as_ref().unwrap().output, "first");
}
