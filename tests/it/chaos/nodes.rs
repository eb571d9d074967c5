//! Two nodes on one database. A node is killed, or paused until the other considers it lost, and then resumed. If the
//! database is paused, neither node is lost.

use std::thread;
use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::{Scene, service, times};
use crate::support::calls::{gated, id_of};
use crate::support::killable::Killable;
use crate::support::postgres::PgCluster;
use crate::support::shapes::succeeded;
use crate::support::{Backend, Database, bounded, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_losing_one_node_of_two() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut scene = Scene::open_at("losses of one node of two", &database.url, 2).await;
    for round in 0..times(4, 24) {
        scene.more(20..40).await;
        tokio::time::sleep(scene.chance.millis(0..30)).await;
        let node = round / 2 % 2;
        scene.watch_from_beside(node).await;
        if round % 2 == 0 {
            // Paused longer than its lease, the node continues with calls that it no longer owns.
            scene.nodes[node].signal("STOP");
            tokio::time::sleep(scene.chance.millis(2_200..3_200)).await;
            scene.nodes[node].signal("CONT");
        } else {
            scene.kill(node).await;
            tokio::time::sleep(scene.chance.millis(0..3_200)).await;
            scene.start(node).await;
        }
    }
    scene.more(50..51).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_cut_off_together_do_not_adopt_each_other() {
    requires_postgres!();
    let made = tokio::task::spawn_blocking(|| {
        let cluster = PgCluster::start();
        let url = cluster.create_database();
        (cluster, url)
    });
    let (cluster, url) = made.await.unwrap();
    let mut nodes: Vec<Killable> = (0..2).map(|_| service(&url)).collect();
    for node in &mut nodes {
        node.start().await;
    }
    let (client, server) = (nodes[0].client(), gated("done").await);
    client.tool("once", &server, json!({"async": true})).await;
    let id = id_of(&client.post("/tool-calls", &json!({"name": "once"})).await.json);
    client.in_phase(&id, "running").await;
    let beats = || async {
        const SQL: &str = "SELECT MIN(beat) FROM nodes";
        let mut connection = PgConnection::connect(&url).await.unwrap();
        sqlx::query_scalar::<_, i64>(SQL).fetch_one(&mut connection).await.unwrap()
    };
    for _ in 0..times(1, 4) {
        let before = beats().await;
        // Twice the lease.
        cluster.freeze();
        tokio::task::spawn_blocking(|| thread::sleep(Duration::from_secs(3))).await.unwrap();
        cluster.thaw();
        // Since then, each node has checked the other's lease several times, for longer than the lease lasts.
        let looked = eventually("heartbeats of both", || async { (beats().await >= before + 10).then_some(()) });
        bounded("heartbeats", looked).await;
    }
    server.open();
    let call = client.ended(&id).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(1)));
}
