//! Three nodes on one database, each over a network of its own. Nodes are killed, paused, drained and cut off from the
//! database, and sometimes two of them at once.

use std::ops::Range;

use super::{CALLERS, Scene, times};
use crate::support::network::{Network, NetworkState};
use crate::support::pg_proxy::PgProxy;
use crate::support::{Backend, Database};

const NODES: usize = 3;
/// Durations below and above the lease, in milliseconds. Above it, the other nodes have also adopted the calls.
const SHORT: Range<u64> = 100..900;
const LONG: Range<u64> = 2_200..3_200;

#[derive(Debug, Clone, Copy)]
enum Failure {
    Kill,
    Pause,
    Drain,
    Cut(NetworkState),
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_losing_or_cutting_off_nodes_of_three() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let networks = [(); NODES].map(|()| Network::whole());
    let proxies = networks.each_ref().map(|network| PgProxy::over(&database.url, network));
    let mut scene = Scene::open_on("losses of nodes of three", &proxies.each_ref().map(PgProxy::url), CALLERS).await;
    let mut failures = [
        (Failure::Kill, SHORT),
        (Failure::Pause, LONG),
        (Failure::Drain, SHORT),
        (Failure::Cut(NetworkState::Silent), SHORT),
        (Failure::Cut(NetworkState::Silent), LONG),
        (Failure::Cut(NetworkState::Broken), SHORT),
        (Failure::Cut(NetworkState::Broken), LONG),
    ];
    for _ in 0..times(1, 8) {
        scene.chance.shuffle(&mut failures);
        for (failure, lasts) in &failures {
            scene.more(5..20).await;
            let node = usize::try_from(scene.chance.within(0..NODES as u64)).unwrap();
            scene.watch_from_beside(node).await;
            let mut failing = vec![(node, *failure)];
            if scene.chance.one_in(3) {
                // The watchers' node stays whole.
                failing.push(((node + 2) % NODES, scene.chance.pick(&failures.each_ref().map(|(other, _)| *other))));
            }
            for &(node, failure) in &failing {
                begin(&mut scene, node, failure, &networks[node]).await;
            }
            tokio::time::sleep(scene.chance.millis(lasts.clone())).await;
            for &(node, failure) in &failing {
                end(&mut scene, node, failure, &networks[node]).await;
            }
        }
    }
    scene.more(50..51).await;
    scene.close().await;
}

async fn begin(scene: &mut Scene, node: usize, failure: Failure, network: &Network) {
    match failure {
        Failure::Kill => scene.kill(node).await,
        Failure::Pause => scene.nodes[node].signal("STOP"),
        Failure::Drain => scene.nodes[node].terminate().await,
        Failure::Cut(state) => {
            network.set(state);
            scene.figures.failures += 1;
        }
    }
}

async fn end(scene: &mut Scene, node: usize, failure: Failure, network: &Network) {
    match failure {
        Failure::Kill | Failure::Drain => scene.start(node).await,
        Failure::Pause => scene.nodes[node].signal("CONT"),
        Failure::Cut(_) => network.set(NetworkState::Whole),
    }
}
