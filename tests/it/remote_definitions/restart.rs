//! Definitions from a URL after a restart and on other nodes.

use serde_json::json;

use super::{Library, document, once};
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend};

on_both_databases!(
    async fn definition_fetched_at_registration_survives_a_restart(backend: Backend) {
        let app = App::with_egress(backend).await;
        let library = Library::of(document("good", "a")).await;
        app.register(library.definition("t", json!({}))).await;
        library.answers(Answer::status(500, "text/plain", ""));
        let app = app.restart().await;
        succeeded(&app.call("t", json!({"a": "x"})).await);
        let tool = once(&app, "t", |tool| tool["definition_error"].is_object()).await;
        assert_eq!((&tool["description"], &tool["input_schema"]["required"]), (&json!("good"), &json!(["a"])));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn every_node_refreshes_independently() {
    requires_postgres!();
    let app = App::with_egress(Backend::Postgres).await;
    let second = app.second().await;
    let library = Library::of(document("one", "a")).await;
    app.register(library.definition("t", json!({}))).await;
    library.answers(Answer::json(&document("two", "a")));
    for node in [&app, &second] {
        crate::support::eventually("the node to follow", || async {
            let tool = node.get("/tools/t").await;
            (tool.status == 200 && tool.json["description"] == "two").then_some(())
        })
        .await;
    }
}
