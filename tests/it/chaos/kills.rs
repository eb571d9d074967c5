//! `kill -9` of the service at any moment.

use super::{Scene, times};
use crate::support::Backend;

on_both_databases!(
    async fn no_call_is_lost_doubled_or_miscounted_when_the_service_is_killed(backend: Backend) {
        let (mut scene, _database) = Scene::open(&format!("kills on {backend:?}"), backend).await;
        for _ in 0..times(6, 40) {
            // Some come while the last death is still being recovered from.
            if !scene.chance.one_in(4) {
                let requests = scene.chance.within(5..40);
                scene.more(usize::try_from(requests).unwrap()).await;
            }
            tokio::time::sleep(scene.chance.millis(0..30)).await;
            scene.kill_and_start().await;
        }
        scene.more(50).await;
        scene.close().await;
    }
);
