//! The store and the journal without a service, on both databases.

use std::sync::{Arc, Condvar, Mutex};

use sqlx::AssertSqlSafe;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolpost::domain::call::CallRecord;
use toolpost::domain::event::{Event, EventKind, Reported};
use toolpost::domain::{Call, Clock, Cursor, Failure, IdGenerator, Outcome, Shard, Time};
use toolpost::events::render;
use toolpost::store::journal::{Change, CommittedEvents, JournalError, Transitions};
use toolpost::store::{Db, Journal, Store};
use uuid::Uuid;

use crate::support::{Backend, Database, bounded};

mod callbacks;
mod commits;
mod distributed;
mod export;
mod folding;
mod frozen_connections;
mod groups;
mod inbox;
mod leases;
mod many_rows;
mod mcp_sessions;
mod mixed_commits;
mod offers;
mod one_version;
mod pages;
mod partitions;
mod publication;
mod refusals;
mod retention;
mod round_trip;
mod sequences;
mod sessions;
mod settings;
mod shards;
mod tenants;
mod tools;
mod uncertain_commits;
mod versions;

/// The transitions of a change.
const ACCEPTED: Transitions = Transitions { accepted: true, started: false, settled: false };
const STARTED: Transitions = Transitions { accepted: false, started: true, settled: false };
const SETTLED: Transitions = Transitions { accepted: false, started: false, settled: true };
const WHOLE: Transitions = Transitions { accepted: true, started: true, settled: true };
const REJECTED: Transitions = Transitions { accepted: true, started: false, settled: true };

/// The time at which the tests' calls are accepted, in microseconds.
const ACCEPTED_AT: i64 = 1_700_000_000_000_000;

/// An event in comparable form: position, number, name, data.
type PublishedEvent = (i64, u32, &'static str, String);

/// A database with a journal and the events that the journal has published.
struct Log {
    store: Store,
    journal: Journal,
    ids: IdGenerator,
    published: Arc<Mutex<Vec<PublishedEvent>>>,
    door: DoorKeeper,
    writer: JoinHandle<()>,
    database: Database,
}

impl Log {
    async fn open(backend: Backend) -> Self {
        Self::on(Database::fresh(backend).await, IdGenerator::counted()).await
    }

    /// Starts a journal on a database that other journals may use.
    async fn on(database: Database, ids: IdGenerator) -> Self {
        Self::on_shard(database, ids, Shard::default()).await
    }

    /// Starts a journal that writes new calls to this shard.
    async fn on_shard(database: Database, ids: IdGenerator, shard: Shard) -> Self {
        let store = Store::open(&database.url).await.unwrap();
        let (published, door) = (Arc::<Mutex<Vec<PublishedEvent>>>::default(), Arc::<Door>::default());
        let (heard, passed) = (published.clone(), door.clone());
        let sink = Arc::new(move |committed: &CommittedEvents| {
            heard.lock().unwrap().extend(committed.events().iter().map(published_event));
            passed.pass(committed.events().first().map(|event| event.call.id));
        });
        let (journal, writer) =
            Journal::start(store.db().clone(), Clock::manual(Time(ACCEPTED_AT)), ids.clone(), shard, sink);
        let door = DoorKeeper(door);
        Self { store, journal, ids, published, door, writer, database }
    }

    /// Builds a newly accepted call.
    fn call(&self, name: &str) -> Call {
        Call::from(CallRecord::accepted(
            self.ids.next_call(self.journal.shard_of_new_calls()),
            name.into(),
            None,
            Arc::default(),
            Time(ACCEPTED_AT),
            "node".into(),
        ))
    }

    async fn write(&self, call: &Call, news: Transitions) -> Result<(), JournalError> {
        bounded("a change", self.journal.write(Change::new(Arc::new(call.clone()), news))).await
    }

    /// Holds the writer at the end of a commit until the door is opened.
    async fn hold_writer(&self) {
        let before = ended(&self.call("before"), Outcome::default(), 0);
        self.door.0.shut(before.id);
        self.write(&before, WHOLE).await.unwrap();
        bounded("the writer at the door", self.door.0.reached()).await;
    }

    /// Writes the changes in one commit: they are enqueued while the writer is held.
    async fn together(&self, changes: Vec<Change>) -> Vec<Result<(), JournalError>> {
        self.hold_writer().await;
        let mut receipts = Vec::new();
        for change in changes {
            receipts.push(self.journal.enqueue(change).await.unwrap());
        }
        self.door.0.open();
        let mut ends = Vec::new();
        for receipt in receipts {
            ends.push(bounded("a commit", receipt).await.unwrap());
        }
        ends
    }

    async fn stored(&self, call: &Call) -> Call {
        self.store.call(call.id).await.unwrap().expect("a stored call")
    }

    /// Returns all events after position `after`, read in pages of `commits` commits.
    async fn read_back(&self, after: i64, commits: u32) -> Vec<PublishedEvent> {
        let (mut all, mut after) = (Vec::new(), Cursor::at([after]));
        loop {
            let (events, until) = self.store.events_after(&after, commits).await.unwrap();
            all.extend(events.iter().map(published_event));
            if until == after {
                return all;
            }
            after = until;
        }
    }

    /// Returns the position of the newest event.
    async fn newest(&self) -> i64 {
        self.store.newest().await.unwrap().position_in(Shard::default())
    }

    /// Returns the stored events of one call.
    async fn events_of(&self, call: &Call) -> Vec<PublishedEvent> {
        self.store.events_of(call.id).await.unwrap().unwrap().iter().map(published_event).collect()
    }

    /// Closes the journal and returns all published events.
    async fn take_published(&mut self) -> Vec<PublishedEvent> {
        self.journal.close();
        bounded("the end of the journal", &mut self.writer).await.unwrap();
        std::mem::take(&mut *self.published.lock().unwrap())
    }

    /// Returns the counts of a tool: executed, succeeded, rejected.
    async fn counts(&self, name: &str) -> (u64, u64, u64) {
        let stats = self.store.stats(Some(name)).await.unwrap().pop().unwrap_or_default();
        (stats.execution_count, stats.success_count, stats.rejected_count)
    }

    /// Returns the number of stored commits.
    async fn commits(&self) -> i64 {
        const SQL: &str = "SELECT COUNT(*) FROM commits";
        match self.store.db() {
            Db::Sqlite(pools) => sqlx::query_scalar(SQL).fetch_one(&pools.reader.pool()).await.unwrap(),
            Db::Postgres(pools) => sqlx::query_scalar(SQL).fetch_one(&pools.reader.pool()).await.unwrap(),
        }
    }

    /// Runs SQL outside the journal.
    async fn sql(&self, text: &str) {
        let text = AssertSqlSafe(text.to_owned());
        match self.store.db() {
            Db::Sqlite(pools) => drop(sqlx::raw_sql(text).execute(&pools.writer.pool()).await.unwrap()),
            Db::Postgres(pools) => drop(sqlx::raw_sql(text).execute(&pools.reader.pool()).await.unwrap()),
        }
    }
}

/// A guard that opens the door when the test ends or panics.
struct DoorKeeper(Arc<Door>);

impl Drop for DoorKeeper {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A gate that holds the writer at the commit whose first event belongs to a given call.
#[derive(Default)]
struct Door {
    shut_for: Mutex<Option<Uuid>>,
    opened: Condvar,
    /// The call of the first event of the last commit.
    last: watch::Sender<Option<Uuid>>,
}

impl Door {
    fn shut(&self, call: Uuid) {
        *self.shut_for.lock().unwrap() = Some(call);
    }

    fn open(&self) {
        *self.shut_for.lock().unwrap() = None;
        self.opened.notify_all();
    }

    /// Waits until the commit that the door is shut for is here.
    async fn reached(&self) {
        let shut_for = *self.shut_for.lock().unwrap();
        self.last.subscribe().wait_for(|last| *last == shut_for).await.unwrap();
    }

    fn pass(&self, call: Option<Uuid>) {
        self.last.send_replace(call);
        let shut = |shut_for: &mut Option<Uuid>| shut_for.is_some() && *shut_for == call;
        // The runtime moves its other work to other threads.
        tokio::task::block_in_place(|| {
            drop(self.opened.wait_while(self.shut_for.lock().unwrap(), shut).unwrap());
        });
    }
}

fn published_event(event: &Event) -> PublishedEvent {
    (event.pos, event.seq, event.kind().as_str(), render::data(event))
}

/// Returns the call after a run of `duration_ms` milliseconds.
fn ended(call: &Call, outcome: Outcome, duration_ms: i64) -> Call {
    let mut call = call.clone();
    if call.started_at.is_none() {
        call.start(call.created_at).unwrap();
    }
    call.settle(outcome, Time(call.created_at.0 + duration_ms * 1000)).unwrap();
    call
}

/// Returns the call after it was rejected.
fn rejected(call: &Call, failure: Failure) -> Call {
    let mut call = call.clone();
    call.settle(failure.into(), call.created_at).unwrap();
    call
}

fn whole(call: &Call) -> Change {
    Change::new(Arc::new(call.clone()), WHOLE)
}

/// Returns the four changes of a call that reports once, and the ended call.
fn life(call: &Call) -> (Vec<Change>, Call) {
    let mut call = call.clone();
    let mut changes = vec![Change::new(Arc::new(call.clone()), ACCEPTED)];
    call.start(Time(ACCEPTED_AT + 2_000)).unwrap();
    changes.push(Change::new(Arc::new(call.clone()), STARTED));
    call.update(toolpost::domain::call::StatusUpdate { tip: Some("half".into()), ..Default::default() }).unwrap();
    let reported =
        Reported { seq: call.last_seq, kind: EventKind::Status, data: render::status_update(&call, Time(0)) };
    changes.push(Change::reported(Arc::new(call.clone()), Arc::new(reported)));
    call.settle(Outcome::text("done"), Time(ACCEPTED_AT + 9_000)).unwrap();
    changes.push(Change::new(Arc::new(call.clone()), SETTLED));
    (changes, call)
}
