//! Failures of the database server: crashes, pauses and lost responses.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Scene, times};
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::loss::Loss;
use crate::support::postgres::PgCluster;
use crate::support::{Backend, Database};

/// Opens a scene on a cluster of its own.
async fn scene(name: &str) -> (Scene, Arc<PgCluster>) {
    let made = tokio::task::spawn_blocking(|| {
        let cluster = PgCluster::start();
        let url = cluster.create_database();
        (Arc::new(cluster), url)
    });
    let (cluster, url) = made.await.unwrap();
    (Scene::open_at(name, &url, 1).await, cluster)
}

/// Runs blocking work on the cluster, outside the runtime's worker threads.
async fn with(cluster: &Arc<PgCluster>, work: impl FnOnce(&PgCluster) + Send + 'static) {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || work(&cluster)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_crashes_of_the_database_server() {
    requires_postgres!();
    let (mut scene, cluster) = scene("crashes of the server").await;
    for _ in 0..times(2, 10) {
        scene.more(20..60).await;
        let away = scene.chance.millis(0..1500);
        with(&cluster, move |cluster| {
            cluster.stop_immediate();
            thread::sleep(away);
            cluster.start_again();
        })
        .await;
        scene.figures.failures += 1;
    }
    scene.more(50..51).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_freezes_of_the_database_server() {
    requires_postgres!();
    let (mut scene, cluster) = scene("freezes of the server").await;
    let still = Duration::from_secs(times(3, 10) as u64);
    for _ in 0..times(1, 5) {
        scene.more(40..41).await;
        with(&cluster, move |cluster| {
            cluster.freeze();
            thread::sleep(still);
            cluster.thaw();
        })
        .await;
        scene.figures.failures += 1;
    }
    scene.more(50..51).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_a_service_that_dies_before_a_frozen_server() {
    requires_postgres!();
    let (mut scene, cluster) = scene("kills before a server that stands still").await;
    for _ in 0..times(3, 20) {
        scene.more(20..40).await;
        with(&cluster, PgCluster::freeze).await;
        // When the server resumes, it executes the last statements of the killed service during or after the next
        // start.
        tokio::time::sleep(scene.chance.millis(20..200)).await;
        scene.kill(0).await;
        with(&cluster, PgCluster::thaw).await;
        scene.figures.failures += 1;
        scene.start(0).await;
    }
    scene.more(50..51).await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_survive_lost_acknowledgements_of_the_database() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    // The long form loses one response in a hundred; the short form loses more, because it has fewer commits.
    let loss = Loss::new(super::seed(), times(15, 100) as u64);
    let proxy = PgProxy::losing(&database.url, &loss);
    let mut scene = Scene::open_at("lost answers of the server", proxy.url(), 1).await;
    loss.switch(true);
    for _ in 0..times(2, 20) {
        scene.more(60..90).await;
        // Each round also kills the service, which then forgets its commits with an unknown end.
        loss.switch(false);
        scene.kill(0).await;
        scene.start(0).await;
        loss.switch(true);
    }
    scene.more(50..51).await;
    scene.figures.failures = loss.count();
    assert!(loss.count() > 0, "no answer was lost");
    // Reading the statistics may write to the database, and the check concerns only the counts.
    loss.switch(false);
    scene.close().await;
}
