//! The statistics of many commits are folded in few statements, so that a node far from its database keeps up.

use std::sync::Arc;

use toolpost::domain::Outcome;
use toolpost::store::Store;
use toolpost::store::journal::Change;

use super::{Log, WHOLE, ended};
use crate::support::Backend;
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::statements::Statements;

const TOOLS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_many_tools_are_folded_in_few_statements() {
    requires_postgres!();
    let log = Log::open(Backend::Postgres).await;
    for round in 1..=2 {
        let calls = (0..TOOLS).map(|tool| ended(&log.call(&format!("t{tool}")), Outcome::text("done"), 1));
        let changes = calls.map(|call| Change::new(Arc::new(call), WHOLE)).collect();
        log.together(changes).await.into_iter().for_each(|end| end.unwrap());
        let statements = Statements::new();
        let proxy = PgProxy::recording(&log.database.url, &statements);
        let far = Store::open(proxy.url()).await.unwrap();
        far.fold_stats().await.unwrap();
        let added = statements.texts().iter().filter(|text| text.contains("INSERT INTO tool_stats")).count();
        // Each tool has a row for its minute and one for all minutes.
        assert_eq!(added, 2);
        for tool in [0, TOOLS - 1] {
            assert_eq!(log.counts(&format!("t{tool}")).await, (round, round, 0));
        }
        far.close().await;
    }
}
