//! Groups that definitions name.

use serde_json::json;

use super::{Grouping, grouped};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{App, Backend, Options, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_group_in_a_definition_is_named() {
    let app = App::on_sqlite().await;
    app.groups(&["basic"]).await;
    let problem = app.post("/tools", &grouped("mine", &["basic", "basics"])).await.problem(422);
    points_at(&problem, "/groups/1");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("\"basics\"") && message.contains("did you mean \"basic\""), "{message}");
    app.get("/tools/mine").await.problem(404);

    app.grouped("mine", &["basic"]).await;
    let before = app.get("/tools/mine").await.ok();
    let mut bad = grouped("mine", &["nobody", "a b"]);
    bad["title"] = "x".repeat(300).into();
    let problem = app.put("/tools/mine", &bad).await.problem(422);
    for pointer in ["/groups/0", "/groups/1", "/title"] {
        points_at(&problem, pointer);
    }
    assert_eq!(app.get("/tools/mine").await.ok(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn group_named_by_a_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    std::fs::write(&file, grouped("mine", &["g"]).to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let group = app.get("/tool-groups/g").await.ok();
    assert_eq!((&group["active"], &group["manageable"]), (&json!(true), &json!(false)));
    assert_eq!((&group["tools"], &group["created_at"]), (&json!(["mine"]), &json!(null)));
    assert_eq!(app.post("/tool-groups", &json!({"name": "g"})).await.problem(409)["code"], "GROUP_EXISTS");
    assert_eq!(succeeded(&app.call("mine", json!({})).await), "{}");

    // The group can be referenced, switched and described like any other, and is stored from then on.
    app.grouped("other", &["g"]).await;
    app.deactivate("g").await;
    app.patch("/tool-groups/g", json!({"description": "Mine"})).await.ok();
    failed(&app.call("mine", json!({})).await, "TOOL_UNAVAILABLE");
    let app = app.restart().await;
    failed(&app.call("other", json!({})).await, "TOOL_UNAVAILABLE");
    let group = app.get("/tool-groups/g").await.ok();
    assert_eq!((&group["description"], &group["tools"]), (&json!("Mine"), &json!(["mine", "other"])));
    std::fs::remove_file(file).unwrap();
    eventually("the file's tool to go", || async { (app.get("/tools/mine").await.status == 404).then_some(()) }).await;
    assert_eq!(app.active("").await, [("g".to_owned(), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn group_named_only_by_a_file_disappears_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    std::fs::write(&file, grouped("mine", &["g"]).to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    assert_eq!(app.active("").await, [("g".to_owned(), true)]);
    std::fs::remove_file(file).unwrap();
    eventually("the group to go", || async { app.active("").await.is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_with_an_invalid_group_name_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.json"), grouped("bad", &["a b"]).to_string()).unwrap();
    std::fs::write(folder.path().join("good.json"), grouped("good", &["a.b"]).to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    assert_eq!(app.listed("").await, ["good"]);
    assert_eq!(app.active("").await, [("a.b".to_owned(), true)]);
}
