//! Workers that are killed, frozen past their leases and cut off, while callers load all nodes. A call that may not be
//! repeated is run at most once, and what a worker posts after it has lost a call is ignored.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Ask;
use super::{Scene, times};
use crate::oracle::{AGAIN, ONCE, READ};
use crate::support::calls::has_ended;
use crate::support::network::{Network, NetworkState};
use crate::support::pg_proxy::PgProxy;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Client, Database, LIMIT, eventually};
use crew::HeldCall;

pub mod crew;

/// Workers, and callers of their tools.
const WORKERS: usize = 9;
const CALLERS: usize = 12;
/// How long a worker has a call without a heartbeat.
const LEASE_MS: u64 = 1_500;
/// The limits of a call: longer than any failure.
const LIMIT_MS: u64 = 600_000;

/// Returns the part of a definition that lets workers run the tool.
pub fn tool() -> Value {
    json!({
        "executor": {"type": "worker", "queue": "chaos", "lease_ms": LEASE_MS},
        "limits": {"timeout_ms": LIMIT_MS, "queue_timeout_ms": LIMIT_MS},
    })
}

/// Waits until no call waits for a worker, and no worker has one.
pub async fn queue_is_empty(client: &Client) {
    eventually("an empty queue", || async {
        let queue = client.get("/workers").await.ok()["queues"][0].clone();
        (queue["waiting"] == 0 && queue["running"] == 0).then_some(())
    })
    .await;
}

/// The failure of a worker that has a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Failure {
    Kill,
    Stop,
    Cut(NetworkState),
}

/// A failed worker and the call that it had.
struct Loss {
    failure: Failure,
    tool: &'static str,
    held: HeldCall,
}

impl Scene {
    /// Waits for a fact about the callers or the workers.
    async fn fact<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut pulse = tokio::time::interval(Duration::from_millis(20));
        let found = async {
            loop {
                pulse.tick().await;
                if let Some(found) = look(self) {
                    return found;
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    fn crew(&mut self) -> &mut crew::Crew {
        self.crew.as_mut().expect("the tools are run by workers")
    }

    /// Makes a call that its worker keeps. `node` accepts it.
    async fn held(&mut self, tool: &str, node: usize) -> HeldCall {
        loop {
            let key = format!("held/{}", self.chance.within(0..u64::MAX));
            self.load.also(Ask::accepted(key.clone(), tool, "hold"), node);
            let crew = |scene: &Self| scene.crew.as_ref()?.held(&key);
            let found = self.fact("a worker to have the call", |scene| match crew(scene) {
                Some(held) => Some(Some(held)),
                // It was given to a worker that had just failed.
                None => scene.load.end_of(&key).map(|_| None),
            });
            if let Some(held) = found.await {
                return held;
            }
        }
    }

    /// Lets a worker fail while it has a call of this tool.
    async fn lose(&mut self, tool: &'static str, failure: Failure) -> Loss {
        let node = self.any_node();
        let held = self.held(tool, node).await;
        match failure {
            Failure::Kill => self.crew().kill(held.worker),
            Failure::Stop => self.crew().signal(held.worker, "STOP"),
            Failure::Cut(state) => self.crew().connect(held.worker, state),
        }
        Loss { failure, tool, held }
    }

    fn any_node(&mut self) -> usize {
        usize::try_from(self.chance.within(0..self.nodes.len() as u64)).unwrap()
    }

    /// Lets workers fail in all ways, each with a repeatable call and with another call, and kills a node meanwhile.
    async fn lose_workers(&mut self) {
        let mut failures = Vec::new();
        for failure in [Failure::Kill, Failure::Stop, Failure::Cut(NetworkState::Silent)] {
            let cut = Failure::Cut(self.chance.pick(&[NetworkState::Silent, NetworkState::Broken]));
            let failure = if failure == Failure::Cut(NetworkState::Silent) { cut } else { failure };
            failures.extend([(ONCE, failure), (self.chance.pick(&[AGAIN, READ]), failure)]);
        }
        self.chance.shuffle(&mut failures);
        self.crew().hold();
        let mut losses = Vec::new();
        for (tool, failure) in failures {
            losses.push(self.lose(tool, failure).await);
        }
        let node = self.any_node();
        self.kill(node).await;
        self.start(node).await;
        for loss in &losses {
            self.ends(loss).await;
        }
        for Loss { failure, held, .. } in &losses {
            match failure {
                Failure::Kill => self.crew().launch(held.worker),
                Failure::Stop => self.crew().signal(held.worker, "CONT"),
                Failure::Cut(_) => self.crew().connect(held.worker, NetworkState::Whole),
            }
        }
        self.crew().release();
        for Loss { held, .. } in losses.iter().filter(|loss| loss.failure != Failure::Kill) {
            let response = |scene: &Self| scene.crew.as_ref()?.was_ignored(held.number);
            assert!(self.fact("the response to a late result", response).await, "the result of {held:?} counted");
        }
    }

    /// Checks the end of a call whose worker has failed.
    async fn ends(&self, Loss { tool, held, failure }: &Loss) {
        let end = self.fact("the end of a lost call", |scene| scene.load.end_of(&held.key)).await;
        if *tool == ONCE {
            failed(&end, "OUTCOME_UNKNOWN");
            assert_eq!(end["attempts"], 1, "{failure:?}: {end:#}");
        } else {
            assert_ne!(succeeded(&end), format!("run {}", held.number), "{failure:?}: {end:#}");
            assert!(end["attempts"].as_u64() > Some(1), "{failure:?}: {end:#}");
        }
    }

    /// Lets a worker fail at a random moment, for a short time.
    async fn disturb(&mut self) {
        self.more(5..15).await;
        let (worker, node) = (usize::try_from(self.chance.within(0..WORKERS as u64)).unwrap(), self.any_node());
        match self.chance.within(0..4) {
            0 | 1 => {
                self.crew().kill(worker);
                self.crew().launch(worker);
            }
            2 => {
                self.crew().signal(worker, "STOP");
                tokio::time::sleep(self.chance.millis(20..300)).await;
                self.crew().signal(worker, "CONT");
            }
            _ => {
                let state = self.chance.pick(&[NetworkState::Silent, NetworkState::Broken]);
                self.crew().connect_to(worker, node, state);
                self.more(3..8).await;
                self.crew().connect_to(worker, node, NetworkState::Whole);
            }
        }
    }

    /// Cuts the node of a call that a worker has off from the database, until the other node has adopted the call.
    async fn cut_off(&mut self, networks: &[Network; 2]) {
        self.crew().hold();
        let node = self.any_node();
        let id = self.held(ONCE, node).await.id;
        let [one, other] = [0, 1].map(|node: usize| self.nodes[node].client());
        let owner = one.stored(&id).await["node"].clone();
        let is_of_one = one.get("/system").await.ok()["node"] == owner;
        let (network, rest) = if is_of_one { (&networks[0], other) } else { (&networks[1], one) };
        network.set(self.chance.pick(&[NetworkState::Silent, NetworkState::Broken]));
        eventually("the other node to adopt a call", || async {
            let call = rest.stored(&id).await;
            // The worker may have lost the call before.
            (call["node"] != owner || has_ended(&call)).then_some(())
        })
        .await;
        network.set(NetworkState::Whole);
        self.crew().release();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_losing_workers_of_one_node() {
    let database = Database::fresh(Backend::Sqlite).await;
    let mut scene = Scene::open_with_workers("losses of workers on Sqlite", &[&database.url], CALLERS, WORKERS).await;
    for _ in 0..times(1, 8) {
        for _ in 0..times(6, 10) {
            scene.disturb().await;
        }
        scene.lose_workers().await;
    }
    scene.more(50..51).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_losing_workers_of_two_nodes() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let networks = [(); 2].map(|()| Network::whole());
    let proxies = networks.each_ref().map(|network| PgProxy::over(&database.url, network));
    let urls = proxies.each_ref().map(PgProxy::url);
    let mut scene = Scene::open_with_workers("losses of workers on Postgres", &urls, CALLERS, WORKERS).await;
    for _ in 0..times(1, 8) {
        for _ in 0..times(6, 10) {
            scene.disturb().await;
        }
        scene.lose_workers().await;
        scene.cut_off(&networks).await;
    }
    scene.more(50..51).await;
    scene.close().await;
}
