//! `kill -9` of the service at random moments, and occasionally an orderly stop.

use super::{Scene, times};
use crate::support::Backend;

on_both_databases!(
    async fn calls_survive_kills_of_the_service(backend: Backend) {
        let (mut scene, _database) = Scene::open(&format!("kills on {backend:?}"), backend).await;
        for round in 0..times(6, 40) {
            // Some kills happen while the service still recovers from the previous one.
            if !scene.chance.one_in(4) {
                scene.more(5..40).await;
            }
            tokio::time::sleep(scene.chance.millis(0..30)).await;
            if round % 5 == 4 {
                scene.nodes[0].terminate().await;
            } else {
                scene.kill(0).await;
            }
            scene.start(0).await;
        }
        scene.more(50..51).await;
        scene.close().await;
    }
);
