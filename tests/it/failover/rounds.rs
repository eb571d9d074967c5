//! Fail-overs under load, one after the other. Each lost primary returns as a standby of the new one.

use std::time::{Duration, Instant};

use super::{DATABASE, is_ready, is_synchronous, pair, with};
use crate::chaos::{Scene, times};
use crate::support::postgres::{PgCluster, url_of};

const CALLERS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_promotions_of_standbys() {
    requires_postgres!();
    let (mut primary, mut standby) = pair().await;
    let url = url_of(&[&primary, &standby], DATABASE);
    let mut scene = Scene::open_with("fail-overs", &url, 2, CALLERS).await;
    let mut longest = Duration::ZERO;
    for _ in 0..times(3, 10) {
        scene.more(60..120).await;
        // The standby takes over some time after the loss.
        let pause = scene.chance.millis(0..500);
        with(&primary, PgCluster::kill).await;
        tokio::time::sleep(pause).await;
        with(&standby, PgCluster::promote).await;
        let promoted = Instant::now();
        for node in &scene.nodes {
            is_ready(&node.client()).await;
        }
        longest = longest.max(promoted.elapsed());
        scene.figures.failures += 1;
        scene.more(60..120).await;
        let new = standby.clone();
        with(&primary, move |old| {
            old.become_standby_of(&new);
            new.require_standby(true);
        })
        .await;
        is_synchronous(&standby).await;
        std::mem::swap(&mut primary, &mut standby);
    }
    scene.more(50..51).await;
    scene.figures.line("longest time until all nodes are ready after a promotion", format!("{longest:.1?}"));
    scene.close().await;
}
