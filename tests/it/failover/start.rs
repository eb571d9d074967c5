//! The start of a node while some of its hosts cannot be used.

use std::net::TcpListener;

use serde_json::json;

use super::{DATABASE, pair, sql, with};
use crate::cli::program::Home;
use crate::support::postgres::{PgCluster, shared, url_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Options};
use toolpost::store::Stores;

/// Starts a node and makes a call, which needs a server that accepts writes.
async fn works_at(url: &str) -> App {
    let app = App::start_at(url.to_owned(), Options::default()).await;
    succeeded(&app.call("echo", json!({})).await);
    app
}

/// Returns the URL with two hosts in front: one refuses connections, the other accepts them and never answers.
fn behind_dead_hosts(url: &str, silent: &TcpListener) -> String {
    let port = silent.local_addr().unwrap().port();
    let url =
        url.replace("?host=", "?host=127.0.0.1,127.0.0.1,").replace("port=5432", &format!("port=1,{port},5432,5432"));
    format!("{url}&connect_timeout=1")
}

#[tokio::test(flavor = "multi_thread")]
async fn node_finds_the_primary_at_any_position_of_the_url() {
    requires_postgres!();
    let (primary, standby) = pair().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    works_at(&behind_dead_hosts(&url_of(&[&primary, &standby], DATABASE), &silent)).await;
    works_at(&url_of(&[&standby, &primary], DATABASE)).await;
    works_at(&format!("{}&target_session_attrs=primary", url_of(&[&standby, &primary], DATABASE))).await;
    let refused = async |url: String| Stores::open(&url).await.unwrap_err().to_string();
    let error = refused(url_of(&[&standby, &standby], DATABASE)).await;
    assert!(error.contains("it is a standby; "), "{error}");

    // Both servers accept writes now, and only the promoted one is right.
    with(&primary, |primary| primary.require_standby(false)).await;
    with(&standby, PgCluster::promote).await;
    let calls = async |cluster: &PgCluster| {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM tool_calls");
        count.fetch_one(&mut sql(cluster).await).await.unwrap()
    };
    let (old, new): (i64, i64) = (calls(&primary).await, calls(&standby).await);
    works_at(&url_of(&[&primary, &standby], DATABASE)).await;
    works_at(&url_of(&[&standby, &primary], DATABASE)).await;
    assert_eq!((calls(&primary).await, calls(&standby).await), (old, new + 2));

    // A server of another cluster in the list is a mistake.
    let stranger = tokio::task::spawn_blocking(|| {
        // The first database has the name that the URL has.
        shared().create_database();
        shared()
    });
    let error = refused(url_of(&[&standby, stranger.await.unwrap()], DATABASE)).await;
    assert!(error.contains("it belongs to another cluster"), "{error}");
}

#[test]
fn invalid_url_is_reported_without_its_password() {
    for (url, part) in [
        ("postgres://u:hunter2@a:x,b/d", "the port of host `a` is not a number"),
        ("postgres://u:hunter2@a,b/d?target_session_attrs=standby", "`target_session_attrs=standby` is not supported"),
        ("postgres://u@a,b/d?password=hunter2&colour=red", "unknown parameter `colour`"),
    ] {
        for command in [vec!["serve", "--database-url", url], vec!["doctor", "--database-url", url]] {
            let ended = Home::new().run(&command);
            let text = format!("{}{}", ended.out, ended.err);
            assert!(ended.code != Some(0) && text.contains(part) && !text.contains("hunter2"), "{text}");
        }
    }
}
