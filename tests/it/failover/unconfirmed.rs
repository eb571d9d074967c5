//! A commit that only the primary has: it is lost with the primary, so it must not be acknowledged.

use serde_json::json;

use super::{DATABASE, pair, sql, with};
use crate::support::postgres::{PgCluster, url_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Options, bounded, eventually};

/// Waits until a statement that contains this waits for the standby.
async fn waits_for_standby(primary: &PgCluster, part: &str) {
    const SQL: &str =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%' || $1 || '%'";
    eventually("a commit that waits for the standby", async || {
        let mut sql = sql(primary).await;
        let found: i64 = sqlx::query_scalar(SQL).bind(part).fetch_one(&mut sql).await.unwrap();
        (found > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_without_a_standby_is_not_acknowledged() {
    requires_postgres!();
    let (primary, standby) = pair().await;
    let options = Options { patience_ms: Some(60_000), ..Options::default() };
    let app = App::start_at(url_of(&[&primary, &standby], DATABASE), options).await;
    with(&standby, PgCluster::freeze).await;
    let call = async { app.post("/tool-calls", &json!({"name": "echo"})).await.ok() };
    let outage = async {
        waits_for_standby(&primary, "commit").await;
        with(&primary, |primary| {
            primary.stop_immediate();
            primary.start_again();
        })
        .await;
        // The journal has found its commit, and waits until the standby has it as well.
        waits_for_standby(&primary, "pg_logical_emit_message").await;
        with(&standby, PgCluster::thaw).await;
    };
    let (call, ()) = bounded("the call", async { tokio::join!(call, outage) }).await;
    succeeded(&call);
}
