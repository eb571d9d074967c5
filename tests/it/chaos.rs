//! Crash and failure tests: under load, while the service is killed and its database fails, each accepted call ends
//! exactly once and is counted once, and its tool runs twice only if that is allowed. The oracle checks this.
//!
//! The short form is part of every test run. `TOOLPOST_CHAOS=long` (`just chaos`) does more of everything, with another
//! seed each time, and prints its figures. `TOOLPOST_CHAOS_SEED` repeats the choices of a run, but not its timing.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::Instant;

use crate::oracle;
use crate::support::counter::{Counter, Run};
use crate::support::killable::Killable;
use crate::support::seeded::Seeded;
use crate::support::{Backend, Client, Database, LIMIT};

#[cfg(feature = "fault-points")]
mod approvals;
mod approvers;
mod backlog;
mod client;
mod cuts;
mod decisions;
#[cfg(feature = "fault-points")]
mod fault_points;
mod figures;
mod judged;
mod kills;
mod listener;
mod load;
mod loops;
mod nodes;
mod posted;
mod server;
mod unfinished;
mod watchers;
mod workers;

use figures::Figures;
use listener::Listener;
use load::Load;
use watchers::Watchers;
use workers::crew::Crew;

/// Number of concurrent clients.
const CALLERS: usize = 16;
/// Seed of the short form.
const SEED: u64 = 20_260_101;
/// Maximum number of violations that a failed test shows.
const SHOWN: usize = 20;

/// Settings of the service: a lost node is noticed soon, and callers do not wait long for an unavailable database, and a
/// policy soon exceeds its bounds.
const SETTINGS: [(&str, &str); 5] = [
    ("TOOLPOST__NODE__HEARTBEAT_MS", "300"),
    ("TOOLPOST__NODE__LEASE_MS", "1500"),
    ("TOOLPOST__STORE__PATIENCE_MS", "1000"),
    ("TOOLPOST__LOG__FILTER", "warn,toolpost=info"),
    ("TOOLPOST__EXPRESSIONS__MAX_STEPS", "20000"),
];

/// Returns `true` in the long form.
pub fn is_long() -> bool {
    env::var("TOOLPOST_CHAOS").is_ok_and(|form| form == "long")
}

/// Returns the number for the current form.
pub fn times(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

fn seed() -> u64 {
    if let Ok(text) = env::var("TOOLPOST_CHAOS_SEED") {
        return text.parse().expect("TOOLPOST_CHAOS_SEED is a number");
    }
    if is_long() { RandomState::new().hash_one(SEED) } else { SEED }
}

/// A service under load, with everything that the oracle needs.
pub struct Scene {
    /// The nodes, all on one database. Most scenes have one node.
    pub nodes: Vec<Killable>,
    counter: Counter,
    /// The workers, if they run the tools instead of the counter.
    crew: Option<Crew>,
    load: Load,
    listener: Listener,
    /// Watchers on another node, one group for each lost node.
    watchers: Watchers,
    pub chance: Seeded,
    pub figures: Figures,
}

impl Scene {
    /// Opens a scene with one node on a fresh database.
    async fn open(name: &str, backend: Backend) -> (Self, Database) {
        let database = Database::fresh(backend).await;
        (Self::open_at(name, &database.url, 1).await, database)
    }

    /// Opens a scene with the given number of nodes on an existing database.
    async fn open_at(name: &str, database_url: &str, nodes: usize) -> Self {
        Self::open_with(name, database_url, nodes, CALLERS).await
    }

    /// Opens a scene with the given numbers of nodes and callers on an existing database.
    pub async fn open_with(name: &str, database_url: &str, nodes: usize, callers: usize) -> Self {
        Self::open_on(name, &vec![database_url; nodes], callers).await
    }

    /// Opens a scene with a node for each of these URLs, which lead to one database.
    async fn open_on(name: &str, database_urls: &[&str], callers: usize) -> Self {
        Self::open_with_workers(name, database_urls, callers, 0).await
    }

    /// Opens a scene on these nodes. Its tools are run by the given number of workers, or by the counter if it is 0.
    async fn open_with_workers(name: &str, database_urls: &[&str], callers: usize, workers: usize) -> Self {
        let seed = seed();
        println!("{name}: TOOLPOST_CHAOS_SEED={seed}");
        let mut chance = Seeded::new(seed);
        let counter = Counter::start();
        let mut figures = Figures::of(name);
        let mut nodes: Vec<Killable> = database_urls.iter().map(|url| service(url)).collect();
        for (index, node) in nodes.iter_mut().enumerate() {
            figures.started(node.start().await);
            if index == 0 {
                let tool = if workers == 0 { counter.tool() } else { workers::tool() };
                oracle::register(&node.client(), &tool).await;
            }
        }
        let crew = if workers == 0 { None } else { Some(Crew::start(&nodes, workers).await) };
        let doors: Vec<Client> = nodes.iter().map(Killable::client).collect();
        let listener = Listener::start(doors.clone());
        let load = Load::start(doors, callers, &mut chance);
        Self { nodes, counter, crew, load, listener, watchers: Watchers::default(), chance, figures }
    }

    /// Starts calls on a node that is about to be lost, and watches them from the next node.
    async fn watch_from_beside(&mut self, node: usize) {
        let other = self.nodes[(node + 1) % self.nodes.len()].client();
        self.watchers.attach(&mut self.load, node, &other).await;
    }

    /// Kills a node.
    pub async fn kill(&mut self, node: usize) {
        self.nodes[node].kill().await;
        self.figures.deaths += 1;
    }

    /// Starts a killed node.
    pub async fn start(&mut self, node: usize) {
        self.figures.started(self.nodes[node].start().await);
    }

    /// Waits until a random number of further requests have finished.
    pub async fn more(&mut self, requests: Range<u64>) {
        let requests = self.chance.within(requests);
        self.load.more(usize::try_from(requests).unwrap()).await;
    }

    /// Waits until every call has ended, and runs the oracle. Returns the stored state.
    pub async fn close(mut self) -> oracle::World {
        let settling = Instant::now();
        let observations = tokio::time::timeout(LIMIT, self.load.finish()).await;
        let Ok(observations) = observations else {
            panic!("these requests are not over: {}", self.load.open_requests().join(", "))
        };
        assert!(self.nodes.iter_mut().all(Killable::is_running), "the service has ended by itself");
        self.figures.add_observations(&observations, settling.elapsed());
        let watched = self.watchers.finish().await;
        let streams = Streams { listener: Some(self.listener), watched };
        if self.crew.is_some() {
            workers::queue_is_empty(&self.nodes[0].client()).await;
        }
        let noted = match self.crew {
            Some(crew) => crew.finish(),
            None => WorkNotes { runs: self.counter.runs(), posted: Vec::new() },
        };
        let world = judge(&self.nodes[0].client(), observations, streams, noted, &mut self.figures).await;
        self.figures.print();
        world
    }
}

/// The events that were received during the scene.
#[derive(Default)]
struct Streams {
    listener: Option<Listener>,
    watched: Vec<oracle::WatchedStream>,
}

/// The work of the tools' server or of the workers, by their own notes.
struct WorkNotes {
    runs: Vec<Run>,
    posted: Vec<oracle::PostedResult>,
}

/// Reads all stored calls and runs the oracle.
async fn judge(
    client: &Client,
    observations: load::Observations,
    streams: Streams,
    noted: WorkNotes,
    figures: &mut Figures,
) -> oracle::World {
    let world = oracle::World::read(client).await;
    let Streams { listener, watched } = streams;
    let heard = match listener {
        Some(listener) => Some(listener.finish(world.histories.keys()).await),
        None => None,
    };
    figures.world(&world);
    let load::Observations { key_histories, odd, decided, .. } = observations;
    let WorkNotes { runs, posted } = noted;
    let evidence =
        oracle::Evidence { key_histories, heard, watched, decided, runs, posted, receipts: Vec::new(), world };
    let mut violations = odd;
    violations.extend(evidence.violations());
    let count = violations.len();
    violations.truncate(SHOWN);
    assert!(count == 0, "{count} violations:\n{}", violations.join("\n"));
    for name in [oracle::ONCE, oracle::AGAIN, oracle::READ] {
        let went_well = |call: &&serde_json::Value| call["name"] == name && call["status"] == "SUCCESS";
        assert!(evidence.world.calls.iter().any(|call| went_well(&call)), "no call of {name} went well");
    }
    evidence.world
}

/// Creates a service on this database, not yet running.
fn service(database_url: &str) -> Killable {
    Killable::new(database_url, SETTINGS.map(|(name, value)| (name, value.to_owned())).to_vec())
}
