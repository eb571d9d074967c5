//! Single backend processes of PostgreSQL are frozen, as behind a network that drops all packets: their queries time
//! out, later queries use other connections, and a stale query that continues changes nothing.

use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use sqlx::{Connection, PgConnection};
use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Cursor, IdGenerator, IdempotencyKey, KeyClaim, Outcome, Time};
use toolpost::store::StoreError;
use toolpost::store::callbacks::{AttemptRecord, CallbackRow, ExcludedTargets, RecordedOutcome};
use toolpost::store::calls::CallFilter;
use toolpost::store::inbox::Message;
use toolpost::store::journal::{Change, JournalError};
use toolpost::store::tools::Precondition;

use super::{ACCEPTED, ACCEPTED_AT, Log, SETTLED, STARTED, WHOLE, ended, life, whole};
use crate::support::postgres::PgCluster;
use crate::support::{Database, bounded, eventually};

/// A journal on its own cluster, with a separate connection.
struct Scene {
    log: Log,
    beside: PgConnection,
    stopped: StoppedProcesses,
    cluster: PgCluster,
}

/// Stopped processes, which continue when the test ends or panics.
#[derive(Default)]
struct StoppedProcesses(Vec<i32>);

impl StoppedProcesses {
    fn stop(&mut self, processes: Vec<i32>) {
        signal("STOP", &processes);
        self.0.extend(processes);
    }

    /// Resumes the processes and returns their ids.
    fn go_on(&mut self) -> Vec<i32> {
        let processes = std::mem::take(&mut self.0);
        if !processes.is_empty() {
            signal("CONT", &processes);
        }
        processes
    }
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        self.go_on();
    }
}

fn signal(name: &str, processes: &[i32]) {
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"kill -s "$@""#, "kill", name]).args(processes.iter().map(i32::to_string)).status().unwrap();
}

impl Scene {
    async fn open() -> Self {
        let (cluster, url) = tokio::task::spawn_blocking(|| {
            let cluster = PgCluster::start();
            let url = cluster.create_database();
            (cluster, url)
        })
        .await
        .unwrap();
        let beside = PgConnection::connect(&url).await.unwrap();
        let log = Log::on(Database::at(url), IdGenerator::counted()).await;
        Self { log, beside, stopped: StoppedProcesses::default(), cluster }
    }

    /// Stops the backend processes of this journal and its store.
    async fn stop_all(&mut self) {
        const SQL: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'toolpost'";
        let found: Vec<i32> = sqlx::query_scalar(SQL).fetch_all(&mut self.beside).await.unwrap();
        self.stopped.stop(found);
    }

    /// Resumes the processes, and waits until they have finished their queries and noticed the closed connections.
    async fn go_on(&mut self) {
        const SQL: &str = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ANY($1)";
        let processes = self.stopped.go_on();
        let beside = tokio::sync::Mutex::new(&mut self.beside);
        eventually("the end of the processes", || async {
            let count = sqlx::query_scalar::<_, i64>(SQL).bind(&processes);
            (count.fetch_one(&mut **beside.lock().await).await.unwrap() == 0).then_some(())
        })
        .await;
    }

    /// Writes units in one commit through a stopped process. Writes similar units first, so that the process has
    /// prepared the statement and has received all of it when the writer abandons the connection.
    async fn write_through_a_stopped_process(
        &mut self,
        alike: Vec<Vec<Change>>,
        units: Vec<Vec<Change>>,
    ) -> Vec<Result<(), JournalError>> {
        self.write_in_one_commit(alike, false).await;
        self.write_in_one_commit(units, true).await
    }

    /// Enqueues the units while the writer is held, so that they share a commit.
    async fn write_in_one_commit(
        &mut self,
        units: Vec<Vec<Change>>,
        is_stopped: bool,
    ) -> Vec<Result<(), JournalError>> {
        const SQL: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'toolpost' AND query LIKE 'SELECT journal_commit%'";
        self.log.hold_writer().await;
        let mut writing: Vec<_> =
            units.into_iter().map(|changes| Box::pin(self.log.journal.write_atomic(changes))).collect();
        for unit in &mut writing {
            assert_eq!(unit.now_or_never(), None, "it is handed over");
        }
        if is_stopped {
            let journals = sqlx::query_scalar(SQL).fetch_one(&mut self.beside).await.unwrap();
            self.stopped.stop(vec![journals]);
        }
        self.log.door.0.open();
        bounded("the commit", join_all(writing)).await
    }

    /// Returns all data that a stale attempt could change.
    async fn state(&self, calls: &[&Call]) -> String {
        let log = &self.log;
        let (mut rows, mut callbacks) = (Vec::new(), Vec::new());
        for call in calls {
            rows.push(log.store.call(call.id).await.unwrap());
            callbacks.push(log.store.callback_state(call.id).await.unwrap());
        }
        let stats = log.store.stats(None).await.unwrap();
        format!("{:#?}", (log.read_back(0, 10).await, stats, log.commits().await, rows, callbacks))
    }
}

fn claiming(call: &Call, key: &str, calls: &[&Call]) -> Change {
    let once = IdempotencyKey::of_request(key, &serde_json::Value::Null);
    let claim = KeyClaim { once, batch_id: None, calls: calls.iter().map(|call| call.id).collect() };
    Change::new(Arc::new(call.clone()), ACCEPTED).with_claims(vec![claim])
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_accepted_again_by_a_stale_try_exist_once() {
    requires_postgres!();
    let mut scene = Scene::open().await;
    let (one, other, alone) = (scene.log.call("one"), scene.log.call("other"), scene.log.call("alone"));
    let callback_url = Some("http://127.0.0.1:9/".into());
    let one = Call::from(CallRecord { callback_url, ..one.into_record() });
    let alone = ended(&alone, Outcome::text("x"), 5);
    let units = |key: &str, one: &Call, other: &Call, alone: &Call| {
        let first = claiming(one, key, &[one, other]).with_callback(scene.log.ids.next());
        vec![vec![first, Change::new(Arc::new(other.clone()), ACCEPTED)], vec![whole(alone)]]
    };
    let [like_one, like_other, like_alone] = ["a", "b", "c"].map(|name| scene.log.call(name));
    let alike = units("another key", &like_one, &like_other, &ended(&like_alone, Outcome::text("x"), 5));
    let units = units("key", &one, &other, &alone);
    let ends = scene.write_through_a_stopped_process(alike, units).await;
    assert_eq!(ends, [Ok(()), Ok(())]);
    // The calls have changed since.
    let end = ended(&one, Outcome::text("done"), 7);
    scene.log.write(&started(&one), STARTED).await.unwrap();
    scene.log.write(&end, SETTLED).await.unwrap();
    let before = scene.state(&[&one, &other, &alone]).await;
    scene.go_on().await;
    assert_eq!(scene.state(&[&one, &other, &alone]).await, before);
    let key = IdempotencyKey::of_request("key", &serde_json::Value::Null).key;
    let claim = scene.log.store.claim(&key, Time(ACCEPTED_AT)).await.unwrap().unwrap();
    assert_eq!(claim.calls, [one.id, other.id]);
    assert_eq!((scene.log.counts("one").await, scene.log.counts("alone").await), ((1, 1, 0), (1, 1, 0)));
    let stored = scene.log.read_back(0, 10).await;
    assert_eq!(scene.log.take_published().await, stored);
}

fn started(call: &Call) -> Call {
    let mut call = call.clone();
    call.start(call.created_at).unwrap();
    call
}

/// Starts two calls. Returns their next changes and the calls after them.
async fn under_way(log: &Log, lived: &str, unfinished: &str) -> (Vec<Vec<Change>>, Call, Call) {
    let (mut changes, lived) = life(&log.call(lived));
    let rest = changes.split_off(2);
    for change in changes {
        bounded("a change", log.journal.write(change)).await.unwrap();
    }
    let (start, begun) = a_start(log, unfinished).await;
    (rest.into_iter().chain([start]).map(|change| vec![change]).collect(), lived, begun)
}

/// Writes an accepted call. Returns its start and the started call.
async fn a_start(log: &Log, name: &str) -> (Change, Call) {
    let call = log.call(name);
    log.write(&call, ACCEPTED).await.unwrap();
    let begun = started(&call);
    (Change::new(Arc::new(begun.clone()), STARTED), begun)
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_repeated_by_a_stale_try_are_made_once() {
    requires_postgres!();
    let mut scene = Scene::open().await;
    let (alike, ..) = under_way(&scene.log, "a", "b").await;
    let (units, lived, begun) = under_way(&scene.log, "lived", "unfinished").await;
    let ends = scene.write_through_a_stopped_process(alike, units).await;
    assert_eq!(ends, vec![Ok(()); 3]);
    let before = scene.state(&[&lived, &begun]).await;
    scene.go_on().await;
    assert_eq!(scene.state(&[&lived, &begun]).await, before);
    scene.log.write(&ended(&begun, Outcome::text("done"), 7), SETTLED).await.unwrap();
    assert_eq!((scene.log.counts("lived").await, scene.log.counts("unfinished").await), ((1, 1, 0), (1, 1, 0)));
    let stored = scene.log.read_back(0, 10).await;
    assert_eq!(scene.log.take_published().await, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_repeated_by_a_stale_try_is_made_once() {
    requires_postgres!();
    let mut scene = Scene::open().await;
    let (alike, _) = a_start(&scene.log, "a").await;
    // Of this commit, the database can recognize only the number of the call's last event.
    let (start, begun) = a_start(&scene.log, "echo").await;
    assert_eq!(scene.write_through_a_stopped_process(vec![vec![alike]], vec![vec![start]]).await, [Ok(())]);
    let before = scene.state(&[&begun]).await;
    scene.go_on().await;
    assert_eq!(scene.state(&[&begun]).await, before);
    let stored = scene.log.read_back(0, 10).await;
    assert_eq!(scene.log.take_published().await, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_next_to_a_stale_try_stays_a_rejection() {
    requires_postgres!();
    let mut scene = Scene::open().await;
    let log = &scene.log;
    let (gone, taker) = (log.call("gone"), log.call("taker"));
    let end = ended(&gone, Outcome::text("first"), 5);
    log.write(&end, WHOLE).await.unwrap();
    bounded("a claim", log.journal.write(claiming(&taker, "taken", &[&taker]))).await.unwrap();
    let (late, beside, neighbour) = (log.call("late"), log.call("beside"), log.call("neighbour"));
    let neighbour = ended(&neighbour, Outcome::text("x"), 1);
    let units = |neighbour: &Call| {
        let second = Change::new(Arc::new(ended(&gone, Outcome::text("second"), 9)), SETTLED);
        vec![
            vec![second, Change::new(Arc::new(beside.clone()), ACCEPTED)],
            vec![claiming(&late, "taken", &[&late])],
            vec![whole(neighbour)],
        ]
    };
    let alike = units(&ended(&log.call("a"), Outcome::text("x"), 1));
    let units = units(&neighbour);
    let ends = scene.write_through_a_stopped_process(alike, units).await;
    assert_eq!(ends, [Err(JournalError::Fenced), Err(JournalError::Claimed), Ok(())]);
    let calls = [&end, &taker, &late, &beside, &neighbour];
    let before = scene.state(&calls).await;
    scene.go_on().await;
    assert_eq!(scene.state(&calls).await, before);
    for refused in [&late, &beside] {
        assert!(scene.log.store.call(refused.id).await.unwrap().is_none(), "{}", refused.name);
    }
    assert_eq!(scene.log.stored(&end).await.outcome.as_ref().unwrap().output, "first");
    let stored = scene.log.read_back(0, 10).await;
    assert_eq!(scene.log.take_published().await, stored);
}

type Question<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// Returns every query of a store.
fn questions<'a>(log: &'a Log, call: &'a Call, filter: &'a CallFilter) -> Vec<(&'static str, Question<'a>)> {
    const NOW: Time = Time(ACCEPTED_AT);
    const LEASE: Duration = Duration::from_secs(10);
    let store = &log.store;
    macro_rules! questions {
        ($($name:literal: $question:expr),* $(,)?) => {
            vec![$(($name, Box::pin(async move { $question.await.map(drop) }) as Question<'a>)),*]
        };
    }
    questions![
        "ping": store.ping(),
        "call": store.call(call.id),
        "calls": store.calls(filter),
        "calls_of": async { store.calls_of(&[call.id]).await },
        "events_of": store.events_of(call.id),
        "events_after": store.events_after(&Cursor::default(), 10),
        "newest": store.newest(),
        "stats": store.stats(None),
        "stats_since": store.stats_since("echo", NOW, 1),
        "tools": store.tools(),
        "claim": async { store.claim(&[0; 32], NOW).await },
        "callback_state": store.callback_state(call.id),
        "call_of_callback": store.call_of_callback(call.id),
        "due_callbacks": async { store.due_callbacks(NOW, &ExcludedTargets::default(), 1).await },
        "nodes": store.nodes(LEASE),
        "has_messages": store.has_messages(),
        "put_tool": store.put_tool("t", "{}", Precondition::Anything, NOW),
        "delete_tool": store.delete_tool("t", None),
        "reset_stats": store.reset_stats(Some("t")),
        "beat": store.beat("node", LEASE),
        "adopt": async { store.adopt("node", 10).await.1 },
        "strike_off": store.expire_node("other", 1),
        "strike_off_servers": store.strike_off_servers("node"),
        "sign_off": store.deregister("other"),
        "forget_keys": store.forget_keys(NOW),
        "signing_secret": store.signing_secret("made"),
        "insert_callbacks": async {
            let row = CallbackRow { call_id: call.id, url: "http://h/".into(), event_id: call.id };
            store.insert_callbacks(&[row]).await
        },
        "claim_callbacks": async {
            let due = store.due_callbacks(NOW, &ExcludedTargets::default(), 1).await?;
            store.claim_callbacks(due, NOW, NOW).await
        },
        "note_callbacks": async {
            let note = AttemptRecord { call_id: call.id, attempt: 1, noted: RecordedOutcome::Interrupted };
            store.note_callbacks(&[note]).await
        },
        "leave_message": async {
            let message = Message { call: call.id, kind: "cancel".into(), body: "{}".into() };
            store.leave_message(log.ids.next(), &message).await
        },
        "messages": store.messages("node", call.id),
        "forget_message": store.forget_message(call.id),
        "forget_messages_of_ended": store.forget_messages_of_ended(),
        "chunks": store.chunks("node", call.id),
        "answer_to": store.answer_to(call.id, call.id),
        "notices": store.notices("node"),
        "mcp_session": store.mcp_session("s", Time(0)),
        "under_way": store.under_way("node"),
        "not_of": async { store.not_of("node", &[call.id]).await },
        "messages_of": store.messages_of("node", call.id, call.id),
        "posted_result": store.posted_result(call.id),
        "leave_cancels": async { store.leave_cancels(&[(log.ids.next(), call.id)], "{}").await },
        "refuse_results": async {
            let end = Message { call: call.id, kind: "result".into(), body: "{}".into() };
            store.refuse_results(log.ids.next(), &end, "node").await
        },
    ]
}

/// Runs all queries concurrently.
async fn ask(log: &Log, call: &Call) -> Vec<(&'static str, Result<(), StoreError>)> {
    let filter = CallFilter { limit: 10, ..CallFilter::default() };
    let questions = questions(log, call, &filter);
    join_all(questions.into_iter().map(|(name, question)| async move { (name, bounded(name, question).await) })).await
}

/// Runs all queries and checks that they succeed.
async fn ask_well(log: &Log, call: &Call) {
    for (name, answer) in ask(log, call).await {
        answer.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_to_a_frozen_server_times_out_and_works_after_the_thaw() {
    requires_postgres!();
    let scene = Scene::open().await;
    let call = ended(&scene.log.call("echo"), Outcome::text("x"), 5);
    scene.log.write(&call, WHOLE).await.unwrap();
    ask_well(&scene.log, &call).await;
    tokio::task::block_in_place(|| scene.cluster.freeze());
    for (name, answer) in ask(&scene.log, &call).await {
        assert!(matches!(answer, Err(StoreError::Database(_))), "{name}: {answer:?}");
    }
    tokio::task::block_in_place(|| scene.cluster.thaw());
    ask_well(&scene.log, &call).await;
    scene.log.write(&ended(&scene.log.call("echo"), Outcome::text("y"), 5), WHOLE).await.unwrap();
    assert_eq!(scene.log.counts("echo").await, (2, 2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_replaced_while_still_silent() {
    requires_postgres!();
    let mut scene = Scene::open().await;
    let call = ended(&scene.log.call("echo"), Outcome::text("x"), 5);
    scene.log.write(&call, WHOLE).await.unwrap();
    // Concurrent queries open the maximum number of connections.
    ask_well(&scene.log, &call).await;
    scene.stop_all().await;
    let silent = ask(&scene.log, &call).await;
    assert!(silent.iter().any(|(_, answer)| answer.is_err()), "none of them was asked");
    ask_well(&scene.log, &call).await;
    scene.log.write(&ended(&scene.log.call("echo"), Outcome::text("y"), 5), WHOLE).await.unwrap();
    assert_eq!(scene.log.counts("echo").await, (2, 2, 0));
}
