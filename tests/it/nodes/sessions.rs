//! Changes of sessions.

use std::sync::Arc;

use serde_json::json;
use toolpost::domain::{SessionState, Time};
use toolpost::store::Store;
use toolpost::tool::{NoArgs, async_tool_fn};

use super::{answers, never_poll, pair, signalled};
use crate::groups::Grouping;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options, bounded};

#[tokio::test(flavor = "multi_thread")]
async fn stream_on_another_node_shows_the_abort() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.post("/sessions", &json!({"id": "s"})).await;
    let mut stream = other.events("/sessions/s/events").await;
    assert_eq!(stream.next().await.unwrap().data["state"], "ACTIVE");
    assert_eq!(one.post_empty("/sessions/s/abort").await.status, 202);
    assert_eq!(stream.next().await.unwrap().data["state"], "ABORTED");
    signalled(&other, "session").await;
    one.delete("/sessions/s").await;
    stream.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_ends_a_call_on_another_node_without_a_message_to_the_call() {
    requires_postgres!();
    let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let hold = async_tool_fn("hold", "Never ends.", move |_: NoArgs, _| {
        let started = started.clone();
        async move {
            started.send(()).unwrap();
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let options = Options { extra: vec![hold], configure: Some(never_poll), ..Options::default() };
    let node = App::start_with(Backend::Postgres, options).await;
    let call = node.posted(json!({"name": "hold", "session": "s"}));
    let kept = node.posted(json!({"name": "hold", "session": "other", "id": "kept"}));
    for _ in 0..2 {
        bounded("the start", begun.recv()).await;
    }
    // A node that changes only the state of the session.
    let store = Store::open(&node.database_url()).await.unwrap();
    store.signals().start(store.db(), Arc::from("another"));
    store.end_session("s", SessionState::Aborted, None, Time(1)).await.unwrap();
    failed(&bounded("the end", call).await.unwrap().ok(), "CANCELLED");
    assert!(!kept.is_finished());
    kept.abort();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_switch_of_a_session_holds_on_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    one.groups(&["g"]).await;
    one.grouped("t", &["g"]).await;
    answers(&other, "/tools/t", 200).await;
    one.post("/sessions", &json!({"id": "s"})).await;
    let call = || other.call_with(json!({"name": "t", "session": "s"}));
    succeeded(&call().await);
    one.patch("/tool-groups?session=s", json!({"deactivate": ["g"]})).await.ok();
    failed(&call().await, "TOOL_UNAVAILABLE");
    one.patch("/tool-groups?session=s", json!({"activate": ["g"]})).await.ok();
    succeeded(&call().await);
}
