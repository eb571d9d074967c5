//! Deletion of a group, and its effect on the group's tools.

use serde_json::json;

use super::{Grouping, grouped, service};
use crate::support::shapes::{failed, names, succeeded};
use crate::support::{App, Backend, Options};

on_both_databases!(
    async fn tools_left_without_a_group_are_deleted_with_it(backend: Backend) {
        let app = service(backend).await;
        app.deactivate("b").await;
        let before = app.get("/tools/in_both").await.ok();
        assert_eq!(app.delete("/tool-groups/a").await.status, 204);
        app.get("/tool-groups/a").await.problem(404);
        app.get("/tools/in_a").await.problem(404);
        failed(&app.call("in_a", json!({})).await, "TOOL_NOT_FOUND");
        let after = app.get("/tools/in_both").await.ok();
        assert_eq!((&after["groups"], &after["active"]), (&json!(["b"]), &json!(false)));
        assert_eq!(after["revision"], before["revision"].as_i64().unwrap() + 1);
        assert_eq!(after["input_schema"], before["input_schema"]);
        assert_eq!(app.listed("").await, ["in_none"]);
        app.delete("/tool-groups/a").await.problem(404);

        let app = app.restart().await;
        assert_eq!(app.active("").await, [("b".to_owned(), false)]);
        assert_eq!(app.delete("/tool-groups/b").await.status, 204);
        assert_eq!(app.listed("?include_inactive=true").await, ["in_none"]);
        assert_eq!(app.active("").await, []);
        app.groups(&["a"]).await;
        assert_eq!(app.get("/tool-groups/a").await.ok()["tools"], json!([]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn hidden_tool_of_a_file_returns() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.json"), grouped("mine", &[]).to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.groups(&["g"]).await;
    app.grouped("mine", &["g"]).await;
    app.deactivate("g").await;
    failed(&app.call("mine", json!({})).await, "TOOL_UNAVAILABLE");
    assert_eq!(app.delete("/tool-groups/g").await.status, 204);
    assert_eq!(app.get("/tools/mine").await.ok()["source"], "file");
    assert_eq!(succeeded(&app.call("mine", json!({})).await), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_named_by_a_file_cannot_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.json"), grouped("mine", &["g"]).to_string()).unwrap();
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.grouped("other", &["g"]).await;
    // A file tool counts even while a stored tool shadows it: it could reappear with its group.
    for hides in [false, true] {
        if hides {
            app.grouped("mine", &[]).await;
        }
        app.deactivate("g").await;
        let problem = app.delete("/tool-groups/g").await.problem(409);
        assert_eq!(problem["code"], "GROUP_DECLARED");
        assert!(problem["detail"].as_str().unwrap().contains("mine"), "{problem:#}");
        assert_eq!(app.active("").await, [("g".to_owned(), false)]);
    }
    let all = app.get("/tools?include_inactive=true").await.ok();
    assert!(names(&all["tools"]).contains(&"other"));
}
