//! An old primary that accepts writes after its standby was promoted.

use super::{DATABASE, is_ready, pair, sql, with};
use crate::chaos::Scene;
use crate::support::postgres::{PgCluster, url_of};

/// Returns numbers that change with every write of a node.
async fn writes(cluster: &PgCluster) -> (i64, i64, i64) {
    const SQL: &str = "SELECT (SELECT COUNT(*) FROM commits), (SELECT COUNT(*) FROM tool_calls), \
        (SELECT SUM(beat)::BIGINT FROM nodes)";
    sqlx::query_as(SQL).fetch_one(&mut sql(cluster).await).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_primary_gets_no_writes_and_no_call_is_lost() {
    requires_postgres!();
    let (old, new) = pair().await;
    let url = url_of(&[&old, &new], DATABASE);
    let mut scene = Scene::open_with("zombies", &url, 2, 16).await;
    scene.more(40..60).await;
    // The old primary is cut off without a word, and its connections stay open.
    with(&old, PgCluster::freeze).await;
    with(&new, PgCluster::promote).await;
    for node in &scene.nodes {
        is_ready(&node.client()).await;
    }
    scene.more(60..61).await;
    // It continues where it was stopped, and then restarts with its old data, without its standby.
    with(&old, |old| {
        old.thaw();
        old.stop_immediate();
        old.write_standbys("");
        old.start_again();
    })
    .await;
    let before = writes(&old).await;
    let accepts = sqlx::query("CREATE TABLE zombie (n INT)").execute(&mut sql(&old).await).await;
    assert!(accepts.is_ok(), "the old primary accepts writes");
    scene.more(60..61).await;
    // A new node sees both servers for the first time.
    scene.kill(0).await;
    scene.start(0).await;
    scene.more(60..61).await;
    // The nodes know the newer timeline, also while its server is down.
    with(&new, PgCluster::stop_immediate).await;
    let node = scene.nodes[1].client();
    crate::support::eventually("an unready node", async || (node.get("/readyz").await.status == 503).then_some(()))
        .await;
    assert!(node.get("/tool-calls").await.status == 503);
    with(&new, PgCluster::start_again).await;
    scene.more(60..61).await;
    assert_eq!(writes(&old).await, before);
    scene.close().await;
}
