//! Events missing on the bus of a node: another node wrote them, or this node had lost the database.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolpost::domain::call::CallRecord;
use toolpost::domain::call::StatusUpdate;
use toolpost::domain::event::{EventKind, Reported};
use toolpost::domain::{Call, Clock, Cursor, IdGenerator, Outcome, Shard, Time};
use toolpost::events::follow::Followers;
use toolpost::events::frame::HEARTBEAT;
use toolpost::events::{Bus, render, stream};
use toolpost::store::journal::{Change, CommittedEvents, Transitions};
use toolpost::store::{Db, Journal, Store};

use crate::support::calls::{gated, idempotent};
use crate::support::client::send;
use crate::support::{Backend, Database, Event, EventStream, Node, bounded, eventually};

/// A journal whose commits reach the bus of this node, except the events attributed to another node.
struct Desk {
    store: Store,
    journal: Journal,
    bus: Bus,
    /// Sequence numbers of events that only the other node has published.
    elsewhere: Arc<Mutex<BTreeSet<u32>>>,
    _database: Database,
}

impl Desk {
    async fn open(backend: Backend) -> Self {
        let database = Database::fresh(backend).await;
        let store = Store::open(&database.url).await.unwrap();
        let (bus, elsewhere) = (Bus::default(), Arc::<Mutex<BTreeSet<u32>>>::default());
        let (published, hidden) = (bus.clone(), elsewhere.clone());
        let sink = Arc::new(move |committed: &CommittedEvents| {
            let hidden = hidden.lock().unwrap();
            if !committed.events().iter().any(|event| hidden.contains(&event.seq)) {
                published.publish(committed);
            }
        });
        let (journal, _) =
            Journal::start(store.db().clone(), Clock::manual(Time(0)), IdGenerator::counted(), Shard::default(), sink);
        Self { store, journal, bus, elsewhere, _database: database }
    }

    async fn write(&self, change: Change) {
        bounded("a change", self.journal.write(change)).await.unwrap();
    }

    /// Writes a running call and returns it as its node knows it.
    async fn running(&self) -> Call {
        let mut call = Call::from(CallRecord::accepted(
            IdGenerator::random().next_call(Shard::default()),
            "job".into(),
            None,
            Arc::default(),
            Time(0),
            "node".into(),
        ));
        call.start(Time(1)).unwrap();
        self.write(Change::new(Arc::new(call.clone()), Transitions { accepted: true, started: true, settled: false }))
            .await;
        call
    }

    /// Writes the next event of the call.
    async fn step(&self, call: &mut Call) {
        call.update(StatusUpdate { tip: Some(format!("{}", call.last_seq)), ..StatusUpdate::default() }).unwrap();
        let reported =
            Reported { seq: call.last_seq, kind: EventKind::Status, data: render::status_update(call, Time(0)) };
        self.write(Change::reported(Arc::new(call.clone()), Arc::new(reported))).await;
    }

    /// Writes the next event of the call as the other node.
    async fn step_elsewhere(&self, call: &mut Call) {
        self.elsewhere.lock().unwrap().insert(call.last_seq + 1);
        self.step(call).await;
    }

    async fn settle(&self, call: &mut Call) {
        call.settle(Outcome::text("done"), Time(2)).unwrap();
        self.write(Change::new(Arc::new(call.clone()), Transitions { settled: true, ..Transitions::default() })).await;
    }

    async fn pieces(&self, call: &Call) -> BoxStream<'static, Bytes> {
        let stream = stream::of_call(&self.store, &self.bus, call.id, &Cursor::default(), CancellationToken::new())
            .await
            .unwrap();
        stream.expect("the call exists").map(Result::unwrap).boxed()
    }

    async fn stream(&self, call: &Call) -> EventStream {
        EventStream::new(self.pieces(call).await.map(Ok))
    }

    async fn execute(&self, sql: &'static str) {
        match self.store.db() {
            Db::Sqlite(pools) => drop(sqlx::raw_sql(sql).execute(&pools.writer.pool()).await.unwrap()),
            Db::Postgres(pools) => drop(sqlx::raw_sql(sql).execute(&pools.writer.pool()).await.unwrap()),
        }
    }
}

fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect()
}

on_both_databases!(
    async fn events_of_another_node_precede_later_ones(backend: Backend) {
        let desk = Desk::open(backend).await;
        let mut call = desk.running().await;
        let mut stream = desk.stream(&call).await;
        let mut events = stream.until(|event| event.is_status("DOING")).await;
        for _ in 0..2 {
            // A gap may follow another gap.
            for _ in 0..3 {
                desk.step_elsewhere(&mut call).await;
            }
            desk.step(&mut call).await;
            let later = u64::from(call.last_seq);
            events.extend(stream.until(|event| event.data["seq"] == later).await);
        }
        desk.step_elsewhere(&mut call).await;
        desk.settle(&mut call).await;
        events.extend(stream.rest().await);
        assert_eq!(seqs(&events), (1..=14).collect::<Vec<_>>());
        assert_eq!(events, desk.stream(&call).await.rest().await, "as they are read back");
    }
);

on_both_databases!(
    async fn unreadable_gap_holds_back_later_events(backend: Backend) {
        let desk = Desk::open(backend).await;
        let mut call = desk.running().await;
        let mut pieces = desk.pieces(&call).await;
        let mut before = Vec::new();
        for _ in 0..4 {
            before.extend(bounded("a piece", pieces.next()).await);
        }
        assert!(std::str::from_utf8(&before[3]).unwrap().contains("DOING"), "the opening and three events");
        desk.step_elsewhere(&mut call).await;
        desk.settle(&mut call).await;
        desk.execute("ALTER TABLE call_events RENAME TO away").await;
        assert_eq!(bounded("a piece", pieces.next()).await, Some(HEARTBEAT), "and no later event");
        desk.execute("ALTER TABLE away RENAME TO call_events").await;
        let rest = EventStream::new(pieces.map(Ok)).rest().await;
        assert_eq!(seqs(&rest), [4, 5, 6]);
    }
);

on_both_databases!(
    async fn streamed_answer_sends_events_of_another_node_before_later_ones(backend: Backend) {
        let desk = Desk::open(backend).await;
        let mut call = desk.running().await;
        let mut reader = desk.bus.subscribe(vec![call.id]);
        let (mut followers, mut sent) = (Followers::default(), Vec::new());
        desk.step(&mut call).await;
        desk.step_elsewhere(&mut call).await;
        desk.settle(&mut call).await;
        let mut frames = Vec::new();
        while sent.last() != Some(&7) {
            let event = bounded("an event", reader.events.recv()).await.unwrap();
            let piece = followers.frames_of(&desk.store, &event, |event| sent.push(event.seq)).await;
            frames.extend_from_slice(&piece.expect("it can be read"));
        }
        assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7], "each once, in order");
        let read_back: Vec<Bytes> = desk.pieces(&call).await.collect().await;
        assert_eq!(frames, read_back[1..].concat(), "all but the opening");
    }
);

on_both_databases!(
    async fn streamed_answer_sends_no_event_after_an_unreadable_gap(backend: Backend) {
        let desk = Desk::open(backend).await;
        let mut call = desk.running().await;
        let mut reader = desk.bus.subscribe(vec![call.id]);
        desk.settle(&mut call).await;
        let event = loop {
            let event = bounded("an event", reader.events.recv()).await.unwrap();
            if event.event.seq > 1 {
                break event;
            }
        };
        desk.execute("ALTER TABLE call_events RENAME TO away").await;
        let sent = |event: &toolpost::domain::event::Event| panic!("event {} was sent", event.seq);
        assert_eq!(Followers::default().frames_of(&desk.store, &event, sent).await, None);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn watcher_loses_no_event_when_the_node_of_the_call_is_lost() {
    requires_postgres!();
    let mut lost = Node::start(Backend::Postgres, &[]).await;
    let heir = lost.second().await;
    let server = gated("done").await;
    lost.tool("job", &server, json!({"async": true, "annotations": idempotent()})).await;
    let id = lost.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    lost.in_phase(&id, "running").await;
    let path = format!("/tool-calls/{id}/events");
    let mut watcher = heir.events(&path).await;
    let mut events = watcher.until(|event| event.is_status("DOING")).await;
    // The bus of the adopting node did not carry these events.
    let token = server.request().json()["token"].clone();
    for step in 1..=3 {
        let tip = format!("step {step}");
        let request = lost.request(Method::POST, &format!("/tool-calls/{id}/progress"));
        let answer = send(request.bearer_auth(token.as_str().unwrap()).json(&json!({"tip": tip}))).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let is_stored = || async { (lost.stored(&id).await["tip"] == tip.as_str()).then_some(()) };
        eventually("the report to be stored", is_stored).await;
    }
    lost.kill().await;
    server.open();
    events.extend(watcher.rest().await);
    assert_eq!(seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    let tips: Vec<&str> = events.iter().filter_map(|event| event.data["tip"].as_str()).collect();
    assert!(tips.starts_with(&["step 1", "step 2", "step 3"]), "{tips:?}");
    assert_eq!(events, heir.events(&path).await.rest().await);
}
