//! Places in which programs may be declared.

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, points_at, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn only_files_declare_programs_by_default() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tool.json"), program("hello", &["printf", "hi"], json!({})).to_string()).unwrap();
    let configure: fn(&mut Config) = |config| config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
    let options =
        Options { tools_dir: Some(folder.path().to_owned()), configure: Some(configure), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    assert_eq!(succeeded(&app.call("hello", json!({})).await), "hi");
    let over_the_api = program("hello", &["printf", "other"], json!({}));
    points_at(&app.post("/tools", &over_the_api).await.problem(422), "/executor/type");
    points_at(&app.put("/tools/hello", &over_the_api).await.problem(422), "/executor/type");
    assert_eq!(succeeded(&app.call("hello", json!({})).await), "hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_works() {
    let configure: fn(&mut Config) = |config| config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
    let folder = crate::support::fixture::project_file("examples/tools");
    let options = Options { tools_dir: Some(folder), configure: Some(configure), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let call = app.call("word_count", json!({"text": "to be or\nnot to be"})).await;
    assert_eq!((succeeded(&call), &call["structured"]["lines"]), (r#"{"words":6,"lines":2}"#, &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_declaration_is_rejected_with_its_pointer() {
    let app = service().await;
    for (executor, pointer) in [
        (json!({"argv": []}), "/executor/argv"),
        (json!({"argv": "ls -l"}), "/executor"),
        (json!({"cwd": "relative"}), "/executor/cwd"),
        (json!({"env": {"A": 5}}), "/executor"),
        (json!({"env": {"A": "{"}}), "/executor/env/A"),
        (json!({"limits": {"memory": 5}}), "/executor"),
        (json!({"sandbox": "none"}), "/executor"),
        (json!({"sandbox": "off", "network": "deny"}), "/executor/network"),
        (json!({"shell": true}), "/executor"),
    ] {
        let definition = program("bad", &["true"], executor);
        points_at(&app.post("/tools", &definition).await.problem(422), pointer);
    }
    app.get("/tools/bad").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_a_helper_names_what_is_missing() {
    let configure: fn(&mut Config) = |config| config.process.registration = true;
    let options = Options { configure: Some(configure), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    app.register(program("hello", &["true"], json!({}))).await;
    let call = app.call("hello", json!({})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("`helper` in `[process]`"));
}
