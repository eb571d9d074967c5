//! Shards: independent sequences of commits of several journals on one database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sqlx::{Connection, PgConnection};
use toolpost::domain::{Cursor, IdGenerator, Outcome, Shard, Tenant, Time};
use toolpost::store::journal::{Change, Transitions};
use toolpost::store::retention::RetentionTarget;

use super::{ACCEPTED, Log, PublishedEvent, SETTLED, STARTED, WHOLE, ended, published_event};
use crate::support::{Backend, Database, eventually};

const LEASE: Duration = Duration::from_secs(30);

fn shard(number: u16) -> Shard {
    Shard::new(number).unwrap()
}

/// Starts a journal for each of these numbers of shards on one Postgres database.
async fn logs<const N: usize>(numbers: [u16; N]) -> Vec<Log> {
    let (database, ids) = (Database::fresh(Backend::Postgres).await, IdGenerator::counted());
    let mut logs = Vec::new();
    for number in numbers {
        let log = Log::on_shard(database.clone(), ids.clone(), shard(number)).await;
        log.store.open_shard(shard(number)).await.unwrap();
        logs.push(log);
    }
    logs
}

/// Reads all events from the start in pages of `commits` commits. Between two pages, the cursor is kept as its text.
async fn read_by_text(log: &Log, commits: u32) -> Vec<PublishedEvent> {
    let (mut all, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let (events, until) = log.store.events_after(&after.parse().unwrap(), commits).await.unwrap();
        all.extend(events.iter().map(published_event));
        if until.to_string() == after {
            return all;
        }
        after = until.to_string();
    }
}

/// Checks that the events are those of the calls, each once and in the order of its call.
fn check_complete(events: &[PublishedEvent], expected: &[PublishedEvent]) {
    let positions: BTreeSet<i64> = events.iter().map(|event| event.0).collect();
    assert_eq!((events.len(), positions.len()), (expected.len(), expected.len()));
    assert_eq!(positions, expected.iter().map(|event| event.0).collect());
    let mut last = BTreeMap::<Shard, i64>::new();
    for (pos, ..) in events {
        let before = last.insert(Shard::of_position(*pos), *pos);
        assert!(before.is_none_or(|before| before < *pos), "{before:?} before {pos}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_has_its_own_shards_and_those_of_lost_nodes_are_reused() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let log = Log::on(database, IdGenerator::counted()).await;
    let claim = async |node: &str| log.store.claim_shard(node).await.unwrap().number();
    for node in ["a", "b"] {
        log.store.beat(node, LEASE).await.unwrap();
    }
    assert_eq!((claim("a").await, claim("b").await, claim("a").await), (0, 1, 2));
    log.store.deregister("a").await.unwrap();
    log.store.beat("c", LEASE).await.unwrap();
    assert_eq!((claim("c").await, claim("b").await, claim("c").await), (0, 2, 3));
    log.store.release_shards("b").await.unwrap();
    assert_eq!((claim("c").await, claim("c").await, claim("c").await), (1, 2, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_nodes_claim_different_shards() {
    requires_postgres!();
    let log = Log::on(Database::fresh(Backend::Postgres).await, IdGenerator::counted()).await;
    let nodes: Vec<String> = (0..8).map(|node| format!("node-{node}")).collect();
    for node in &nodes {
        log.store.beat(node, LEASE).await.unwrap();
    }
    let claims = nodes.iter().map(|node| log.store.claim_shard(node));
    let claimed = futures_util::future::try_join_all(claims).await.unwrap();
    assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), 8, "{claimed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_has_one_shard() {
    let log = Log::on(Database::fresh(Backend::Sqlite).await, IdGenerator::counted()).await;
    assert_eq!(log.store.claim_shard("a").await.unwrap(), Shard::default());
    assert_eq!(log.store.claim_shard("b").await.unwrap(), Shard::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_all_shards_are_read_counted_and_deleted() {
    requires_postgres!();
    let logs = logs([0, 3, 7]).await;
    let mut calls = Vec::new();
    for n in 0..12 {
        let log = &logs[n % 3];
        let call = log.call("t");
        assert_eq!(Shard::of_call(call.id), shard([0, 3, 7][n % 3]));
        log.write(&ended(&call, Outcome::text("x"), 1), WHOLE).await.unwrap();
        calls.push(call);
    }
    let mut expected = Vec::new();
    for call in &calls {
        expected.extend(logs[0].events_of(call).await);
    }
    for commits in [1, 2, 100] {
        check_complete(&read_by_text(&logs[0], commits).await, &expected);
    }
    assert_eq!(logs[0].store.newest().await.unwrap().to_string(), "0:20,3:20,7:20");
    assert_eq!(logs[1].counts("t").await, (12, 12, 0));
    let (_, pruned) = logs[2].prune_all(RetentionTarget::Calls, 500).await;
    assert_eq!(pruned.calls, 12);
    assert_eq!(logs[0].store.forgotten_until().await.unwrap().to_string(), "0:20,3:20,7:20");
    assert_eq!(logs[0].counts("t").await, (12, 12, 0), "the statistics stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_call_stays_in_its_shard() {
    requires_postgres!();
    let logs = logs([1, 2]).await;
    let call = logs[0].call("t");
    logs[0].write(&call, ACCEPTED).await.unwrap();
    let (adopted, done) = logs[1].store.adopt("other", 10).await;
    done.unwrap();
    assert_eq!(adopted.iter().map(|call| call.id).collect::<Vec<_>>(), [call.id]);
    let end = ended(&adopted[0], Outcome::text("x"), 1);
    logs[1].write(&end, Transitions { started: true, settled: true, ..Transitions::default() }).await.unwrap();
    let events = logs[0].events_of(&call).await;
    assert_eq!(
        events.iter().map(|event| (Shard::of_position(event.0), event.1)).collect::<Vec<_>>(),
        [(shard(1), 1), (shard(1), 2), (shard(1), 3), (shard(1), 4), (shard(1), 5)]
    );
    assert_eq!(logs[0].store.newest().await.unwrap(), Cursor::at([shard(1).start() + 5]));
    let late = ended(&call, Outcome::text("late"), 1);
    let refused = logs[0].write(&late, Transitions { started: true, settled: true, ..Transitions::default() }).await;
    assert!(refused.is_err(), "the first node has lost the call");
}

/// The caller must look for calls that it has adopted without knowing, because an answer of the database can be lost.
#[tokio::test(flavor = "multi_thread")]
async fn adoption_that_fails_in_one_shard_returns_the_calls_of_the_others() {
    requires_postgres!();
    const FAIL: &str = "CREATE FUNCTION fail() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$; \
        CREATE TRIGGER fails BEFORE UPDATE ON tool_calls FOR EACH ROW WHEN (NEW.shard = 2) EXECUTE FUNCTION fail()";
    let logs = logs([1, 2]).await;
    let calls = [logs[0].call("t"), logs[1].call("t")];
    for (log, call) in logs.iter().zip(&calls) {
        log.write(call, ACCEPTED).await.unwrap();
    }
    let mut database = PgConnection::connect(&logs[1].database.url).await.unwrap();
    sqlx::raw_sql(FAIL).execute(&mut database).await.unwrap();
    let (adopted, done) = logs[1].store.adopt("other", 10).await;
    assert_eq!(adopted.iter().map(|call| call.id).collect::<Vec<_>>(), [calls[0].id]);
    assert!(done.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_an_adopted_call_keep_their_order_when_its_shard_is_claimed() {
    requires_postgres!();
    const WAITING: &str = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%journal%'";
    let logs = logs([1, 2]).await;
    let call = logs[0].call("t");
    logs[0].write(&call, ACCEPTED).await.unwrap();
    let mut adopted = logs[1].store.adopt("other", 10).await.0.remove(0);
    let mut database = PgConnection::connect(&logs[1].database.url).await.unwrap();
    let mut blocking = database.begin().await.unwrap();
    sqlx::query("SELECT pos FROM event_clock WHERE shard = 1 FOR UPDATE").execute(&mut *blocking).await.unwrap();
    adopted.start(Time(1)).unwrap();
    let started = logs[1].journal.enqueue(Change::new(Arc::new(adopted.clone()), STARTED)).await.unwrap();
    let pid = eventually("the first commit", async || {
        let mut look = PgConnection::connect(&logs[1].database.url).await.unwrap();
        sqlx::query_scalar::<_, i32>(WAITING).fetch_optional(&mut look).await.unwrap()
    });
    let pid = pid.await;
    logs[1].journal.add_shard(shard(1));
    adopted.settle(Outcome::text("x"), Time(2)).unwrap();
    let settled = logs[1].journal.enqueue(Change::new(Arc::new(adopted), SETTLED)).await.unwrap();
    // The first commit fails, and is repeated after a pause.
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut *blocking).await.unwrap();
    blocking.rollback().await.unwrap();
    assert_eq!((started.await.unwrap(), settled.await.unwrap()), (Ok(()), Ok(())));
    assert_eq!(logs[0].events_of(&call).await.len(), 5);
}

/// One step of a plan: a whole call in one shard, or a page of events read.
#[derive(Debug, Clone, Copy)]
enum Step {
    Call(usize),
    Page(u32),
}

fn plans() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => (0..3usize).prop_map(Step::Call), 1 => (1..4u32).prop_map(Step::Page)];
    prop::collection::vec(step, 1..20)
}

#[test]
fn any_interleaving_of_commits_and_reads_gives_every_event_once() {
    requires_postgres!();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let logs = runtime.block_on(logs([0, 1, 2]));
    let config =
        ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 50, ..ProptestConfig::default() };
    let followed = TestRunner::new(config).run(&plans(), |plan| {
        runtime.block_on(follow(&logs, &plan));
        Ok(())
    });
    followed.unwrap_or_else(|error| panic!("{error}"));
}

/// Follows the plan, and then reads the rest.
async fn follow(logs: &[Log], plan: &[Step]) {
    let mut cursor = logs[0].store.newest().await.unwrap();
    let (mut read, mut expected) = (Vec::new(), Vec::new());
    for step in plan.iter().chain(&[Step::Page(100); 2]) {
        match *step {
            Step::Call(shard) => {
                let call = logs[shard].call("t");
                logs[shard].write(&ended(&call, Outcome::text("x"), 1), WHOLE).await.unwrap();
                expected.extend(logs[shard].events_of(&call).await);
            }
            Step::Page(commits) => {
                let (events, until) = logs[1].store.events_after(&cursor, commits).await.unwrap();
                read.extend(events.iter().map(published_event));
                cursor = until.to_string().parse().unwrap();
            }
        }
    }
    check_complete(&read, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_has_its_calls_of_every_shard() {
    requires_postgres!();
    let logs = logs([0, 5]).await;
    let store = logs[0].store.stores().for_tenant(&Tenant::default());
    let session = |id: &str| toolpost::domain::Session {
        id: id.into(),
        created_at: Time(1),
        updated_at: Time(1),
        ..toolpost::domain::Session::default()
    };
    let with_session = |log: &Log| {
        let mut record = toolpost::domain::call::CallRecord::accepted(
            log.call("t").id,
            "t".into(),
            None,
            std::sync::Arc::default(),
            Time(1),
            "node".into(),
        );
        record.session = Some("s".into());
        toolpost::domain::Call::from(record)
    };
    for (index, log) in logs.iter().enumerate() {
        log.write(&ended(&with_session(log), Outcome::text("old"), 1), WHOLE).await.unwrap();
        assert_eq!(store.newest().await.unwrap().positions().len(), index + 1);
    }
    assert!(store.make_session(&session("s")).await.unwrap());
    let created = store.session("s").await.unwrap().unwrap();
    assert_eq!(store.session_calls(&created, None, 10).await.unwrap().len(), 0, "they are of an earlier session");
    let mut own = BTreeSet::new();
    for log in &logs {
        let call = with_session(log);
        log.write(&ended(&call, Outcome::text("new"), 1), WHOLE).await.unwrap();
        own.insert(call.id);
    }
    let calls = store.session_calls(&created, None, 10).await.unwrap();
    assert_eq!(calls.iter().map(|call| call.id).collect::<BTreeSet<_>>(), own);
    let newest = store.newest().await.unwrap();
    let positions = store.session_positions(&created, &Cursor::default(), &newest).await.unwrap();
    assert_eq!(positions.len(), 10, "five events of each call");
    let seen: Cursor = "0:8".parse().unwrap();
    let rest = store.session_positions(&created, &seen, &newest).await.unwrap();
    assert_eq!(rest.len(), 7, "two of the first call and all of the other one");
}
