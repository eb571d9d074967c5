//! Refreshing expired definitions from a URL.

use serde_json::json;

use super::{Library, document, once, own};
use crate::support::shapes::{succeeded, violation};
use crate::support::{Answer, App, Backend, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn change_is_followed_in_lists_etags_and_calls() {
    let app = App::with_egress(Backend::Sqlite).await;
    let library = Library::of(document("one", "a")).await;
    app.register(library.definition("t", json!({}))).await;
    let (list, tool) = (app.get("/tools").await.etag().to_owned(), app.get("/tools/t").await.etag().to_owned());
    library.answers(Answer::json(&document("two", "b")));
    once(&app, "t", |tool| tool["description"] == "two").await;
    assert_ne!(app.get("/tools").await.etag(), list);
    assert_ne!(app.get("/tools/t").await.etag(), tool);
    assert_eq!(violation(&app.call("t", json!({"a": "x"})).await)["property"], "b");
    succeeded(&app.call("t", json!({"b": "x"})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_answer_keeps_the_etag() {
    let app = App::with_egress(Backend::Sqlite).await;
    let library = Library::of(document("one", "a")).await;
    app.register(library.definition("t", json!({}))).await;
    let list = app.get("/tools").await.etag().to_owned();
    library.server.received(4).await;
    assert_eq!(app.get("/tools").await.etag(), list);
}

on_both_databases!(
    async fn invalid_answer_keeps_the_last_valid_one_and_flags_the_tool(backend: Backend) {
        let app = App::with_egress(backend).await;
        let library = Library::of(document("good", "a")).await;
        app.register(library.definition("t", own())).await;
        for (answer, expected) in [
            (Answer::status(503, "text/plain", ""), "HTTP 503"),
            (Answer::json(&json!({"input_schema": {"type": "array"}})), "cannot be used"),
            (Answer::CutOff, "before the response was complete"),
            (Answer::json(&json!({"description": ["lies"]})), "is invalid"),
        ] {
            library.answers(answer);
            let tool = once(&app, "t", |tool| {
                tool["definition_error"]["message"].as_str().is_some_and(|m| m.contains(expected))
            })
            .await;
            assert_eq!((&tool["description"], &tool["input_schema"]["required"]), (&json!("good"), &json!(["a"])));
            succeeded(&app.call("t", json!({"a": "x"})).await);
        }
        library.answers(Answer::json(&document("good again", "a")));
        let tool = once(&app, "t", |tool| tool.get("definition_error").is_none()).await;
        assert_eq!(tool["description"], "good again");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn hanging_url_delays_no_calls_lists_or_other_definitions() {
    let app = App::with_egress(Backend::Sqlite).await;
    let (hanging, other) = (Library::of(document("one", "a")).await, Library::of(document("one", "a")).await);
    app.register(hanging.definition("t", json!({}))).await;
    app.register(other.definition("other", json!({}))).await;
    hanging.answers(Answer::Never);
    let fetches = hanging.server.requests().len();
    // The last of these requests gets no response.
    hanging.server.received(fetches + 2).await;
    other.answers(Answer::json(&document("two", "a")));
    once(&app, "other", |tool| tool["description"] == "two").await;
    assert_eq!(app.get("/tools/t").await.ok()["description"], "one");
    succeeded(&app.call("t", json!({"a": "x"})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_one_url_share_its_answer_until_the_last_is_deleted() {
    let app = App::with_egress(Backend::Sqlite).await;
    let library = Library::of(document("one", "a")).await;
    for name in ["t", "u"] {
        app.register(library.definition(name, json!({}))).await;
    }
    library.answers(Answer::json(&document("two", "a")));
    for name in ["t", "u"] {
        once(&app, name, |tool| tool["description"] == "two").await;
    }
    app.put("/tools/t", &crate::support::app::echo_tool("t", json!({"type": "object"}))).await.ok();
    assert_eq!(app.get("/tools/t").await.ok()["description"], "Answers with its arguments.");
    library.answers(Answer::json(&document("three", "a")));
    once(&app, "u", |tool| tool["description"] == "three").await;
    assert_eq!(app.get("/tools/t").await.ok()["description"], "Answers with its arguments.");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_can_name_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::of(document("fetched", "a")).await;
    let definition = library.definition("t", own());
    std::fs::write(folder.path().join("t.json"), definition.to_string()).unwrap();
    let options = crate::support::Options {
        tools_dir: Some(folder.path().to_path_buf()),
        egress_allow: vec!["127.0.0.1".into()],
        ..Default::default()
    };
    let app = App::start_with(Backend::Sqlite, options).await;
    once(&app, "t", |tool| tool["description"] == "fetched").await;
    eventually("the schema to be asked for", || async {
        (app.call("t", json!({})).await["status"] == "ERROR").then_some(())
    })
    .await;
}
