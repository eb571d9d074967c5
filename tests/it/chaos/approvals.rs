//! Crashes at each fault point while approvals are requested, decided and expired.

use serde_json::json;

use super::{Scene, times};
use crate::oracle;
use crate::support::killable::Killable;
use crate::support::{Backend, Client, Database};

/// Callers whose calls need an approval, and approvers.
const CALLERS: usize = 8;
const APPROVERS: usize = 2;

/// The points of a call that waits for an approval, and the maximum number of passes before the crash.
const POINTS: [(&str, u64); 6] = [
    ("BeforeApproval", 30),
    ("AfterApproval", 30),
    ("BeforeRun", 15),
    ("AfterRun", 15),
    ("BeforeSettle", 15),
    ("AfterSettle", 15),
];

/// Maximum number of rounds until some calls have ended in every way.
const ROUNDS: usize = 100;

/// Opens a scene with callers whose calls need an approval.
async fn open(name: &str, database: &Database, nodes: usize) -> Scene {
    let mut scene = Scene::open_at(name, &database.url, nodes).await;
    let doors: Vec<Client> = scene.nodes.iter().map(Killable::client).collect();
    oracle::register_gated(&doors, &scene.counter).await;
    scene.load.also_gated(CALLERS, APPROVERS, &mut scene.chance);
    scene
}

/// Continues until some approvals were granted, rejected and expired, and runs the oracle.
async fn close(mut scene: Scene) {
    let client = scene.nodes[0].client();
    for _ in 0..ROUNDS {
        scene.more(10..11).await;
        let mut has_all = true;
        for status in ["approved", "rejected", "expired"] {
            let page = client.get(&format!("/approvals?status={status}&limit=1")).await.ok();
            has_all &= page["approvals"] != json!([]);
        }
        if has_all {
            break;
        }
    }
    let world = scene.close().await;
    for status in ["approved", "rejected", "expired"] {
        let count = world.calls.iter().filter(|call| call["approval"]["status"] == status).count();
        println!("{count} calls are {status}");
        assert!(count > 0, "no approval is {status}");
    }
}

on_both_databases!(
    async fn decisions_survive_a_service_that_dies_between_its_writes(backend: Backend) {
        let database = Database::fresh(backend).await;
        let mut scene = open(&format!("approvals on {backend:?}"), &database, 1).await;
        scene.more(20..21).await;
        scene.kill(0).await;
        for _ in 0..times(2, 20) {
            for (point, passes) in POINTS {
                let passes = scene.chance.within(1..passes);
                scene.nodes[0].start_to_die_at(&format!("{point}:{passes}")).await;
                scene.figures.deaths += 1;
            }
        }
        scene.start(0).await;
        close(scene).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn decisions_stay_in_force_when_nodes_are_lost() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut scene = open("approvals and lost nodes", &database, 2).await;
    for round in 0..times(4, 30) {
        scene.more(20..40).await;
        scene.kill(round % 2).await;
        scene.more(10..20).await;
        scene.start(round % 2).await;
    }
    close(scene).await;
}
