//! Two nodes on one database: one is killed, or stands still until the other has taken it for lost, and then goes on.

use super::{Scene, times};
use crate::support::{Backend, Database};

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_lost_doubled_or_miscounted_when_one_node_of_two_is_lost() {
    let database = Database::fresh(Backend::Postgres).await;
    let mut scene = Scene::open_at("losses of one node of two", &database.url, 2).await;
    for round in 0..times(4, 24) {
        scene.more(20..40).await;
        tokio::time::sleep(scene.chance.millis(0..30)).await;
        let node = round / 2 % 2;
        scene.watch_from_beside(node).await;
        if round % 2 == 0 {
            // Beyond its lease: it goes on with calls that are no longer its own.
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
