//! A node far from its database adopts many queued calls, each in a session of its own.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::client::{Ask, Notes};
use super::figures::Figures;
use super::{CALLERS, Streams, WorkNotes, is_long, judge, load, times};
use crate::oracle::{self, AGAIN, ONCE, READ};
use crate::support::calls::with;
use crate::support::counter::Counter;
use crate::support::killable::Killable;
use crate::support::pg_proxy::PgProxy;
use crate::support::{Backend, Database, LIMIT, eventually};

/// Time that a message takes between the node and its database, in each direction.
const WAY: Duration = Duration::from_millis(2);

/// Creates a node with the leases of the defaults, so that a busy machine costs none.
fn node(url: &str) -> Killable {
    let settings = [
        ("TOOLPOST__NODE__HEARTBEAT_MS", "2000"),
        ("TOOLPOST__NODE__LEASE_MS", "10000"),
        ("TOOLPOST__QUEUE__MAX_LENGTH", "20000"),
    ];
    Killable::new(url, settings.map(|(name, value)| (name, value.to_owned())).to_vec())
}

/// Returns how often this node was declared lost, as far as the number of its heartbeats shows it: it begins again then.
async fn losses_of(url: &str, node: &str) -> usize {
    let mut sql = PgConnection::connect(url).await.unwrap();
    let (mut last, mut losses) = (0, 0);
    loop {
        const SQL: &str = "SELECT COALESCE(max(beat), 0), (SELECT count(*) FROM tool_calls WHERE status < 2) FROM nodes \
            WHERE node = $1";
        let (beat, open): (i64, i64) = sqlx::query_as(SQL).bind(node).fetch_one(&mut sql).await.unwrap();
        losses += usize::from(beat < last);
        last = beat;
        if open == 0 {
            return losses;
        }
        tokio::time::sleep(WAY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distant_node_keeps_its_lease_while_it_adopts_calls_of_many_sessions() {
    requires_postgres!();
    let (database, counter) = (Database::fresh(Backend::Postgres).await, Counter::start());
    let proxy = PgProxy::slow(&database.url, WAY);
    let (mut lost, mut far) = (node(&database.url), node(proxy.url()));
    lost.start().await;
    // The calls must not end before the kill, however long their acceptance takes.
    let lasting = with(counter.tool(), json!({"limits": {"timeout_ms": 600_000}}));
    oracle::register(&lost.client(), &lasting).await;
    let calls = times(600, 10_000);
    let asks: Vec<Ask> = (0..calls)
        .map(|n| Ask::accepted(format!("request-{n}"), [ONCE, AGAIN, READ][n % 3], "gate").in_session(format!("s{n}")))
        .collect();
    let notes = Notes::default();
    let client = lost.client();
    stream::iter(&asks).for_each_concurrent(CALLERS, |ask| ask.until_accepted(&client, &notes)).await;
    eventually("running tools", || async { (counter.count() >= 16).then_some(()) }).await;
    far.start().await;
    let adopter = far.client().get("/system").await.ok()["node"].as_str().unwrap().to_owned();
    let before = counter.count();
    lost.kill().await;
    counter.open();
    let (killed, doors) = (Instant::now(), [far.client()]);
    let mut figures = Figures::of(&format!("{calls} queued calls in as many sessions"));
    figures.deaths += 1;
    let first = async {
        eventually("a run by the adopter", || async { (counter.count() > before).then_some(()) }).await;
        killed.elapsed()
    };
    let all = async {
        let losses = losses_of(&database.url, &adopter).await;
        (losses, killed.elapsed())
    };
    let (first, (losses, all)) = tokio::time::timeout(LIMIT, async { tokio::join!(first, all) }).await.unwrap();
    figures.line("first run after the kill", format!("{first:.1?}"));
    figures.line("all have ended after the kill", format!("{all:.1?}"));
    println!("{calls} calls: first {first:.1?}, all {all:.1?}, {losses} losses");
    // Only the adoption of many calls takes longer than a lease.
    assert!(losses == 0 || !is_long(), "the adopter lost its lease {losses} times");
    stream::iter(&asks).for_each_concurrent(CALLERS, |ask| ask.until_over(&doors, 0, &notes)).await;
    let observations = load::Observations::of(&notes, all);
    let noted = WorkNotes { runs: counter.runs(), posted: Vec::new() };
    judge(&doors[0], observations, Streams::default(), noted, &mut figures).await;
    figures.print();
}
