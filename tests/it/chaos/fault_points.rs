//! Crashes at each fault point: just before or after a write.

use super::{Scene, times};
use crate::support::Backend;

const POINTS: [&str; 6] = ["BeforeAccept", "AfterAccept", "BeforeRun", "AfterRun", "BeforeSettle", "AfterSettle"];

on_both_databases!(
    async fn calls_survive_a_service_that_dies_between_its_writes(backend: Backend) {
        let (mut scene, _database) = Scene::open(&format!("points on {backend:?}"), backend).await;
        scene.more(20..21).await;
        scene.kill(0).await;
        for _ in 0..times(2, 20) {
            for point in POINTS {
                let passes = scene.chance.within(1..25);
                scene.nodes[0].start_to_die_at(&format!("{point}:{passes}")).await;
                scene.figures.deaths += 1;
            }
        }
        scene.start(0).await;
        scene.more(50..51).await;
        scene.close().await;
    }
);
