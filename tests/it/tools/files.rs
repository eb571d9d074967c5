//! `--tools DIR`: definitions in files, reloaded on change.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::app::echo_tool;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Options, eventually};

fn described(name: &str, description: &str) -> Value {
    let mut tool = echo_tool(name, json!({"type": "object"}));
    tool["description"] = description.into();
    tool
}

fn write(folder: &Path, file: &str, content: impl ToString) {
    std::fs::write(folder.join(file), content.to_string()).unwrap();
}

async fn on_folder(folder: &TempDir) -> App {
    let options = Options { tools_dir: Some(folder.path().to_owned()), ..Options::default() };
    App::start_with(Backend::Sqlite, options).await
}

async fn wait_for_description(app: &App, name: &str, description: &str) {
    let path = format!("/tools/{name}");
    eventually("the reloaded tool", || async {
        let answer = app.get(&path).await;
        (answer.json["description"] == description).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_file_holds_one_definition_or_an_array() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "one.json", described("one", ""));
    write(folder.path(), "more.json", json!([described("two", ""), described("three", "")]));
    let app = on_folder(&folder).await;
    for name in ["one", "two", "three"] {
        assert_eq!(app.get(&format!("/tools/{name}")).await.ok()["source"], "file");
        assert_eq!(succeeded(&app.call(name, json!({"a": 1})).await), r#"{"a":1}"#);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_beyond_64_bits_is_replaced_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str| {
        let schema = json!({"type": "object", "properties": {"a": {"minimum": "BOUND"}}});
        echo_tool(name, schema).to_string().replace("\"BOUND\"", "-9223372036854776000")
    };
    write(folder.path(), "one.json", text("one"));
    write(folder.path(), "list.json", format!("[{}]", text("two")));
    write(folder.path(), "tools.json", format!("{{\"tools\": [{}]}}", text("three")));
    let app = on_folder(&folder).await;
    for name in ["one", "two", "three"] {
        let schema = &app.get(&format!("/tools/{name}")).await.ok()["input_schema"];
        assert_eq!(schema["properties"]["a"]["minimum"], json!(i64::MIN), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn toml_file_holds_a_definition() {
    let folder = tempfile::tempdir().unwrap();
    let toml = r#"
        name = "from_toml"
        description = "d"
        executor = { type = "builtin", name = "echo" }
        [input_schema]
        type = "object"
        required = ["n"]
        properties = { n = { type = "integer" } }
    "#;
    write(folder.path(), "tool.toml", toml);
    let app = on_folder(&folder).await;
    assert_eq!(succeeded(&app.call("from_toml", json!({"n": 1})).await), r#"{"n":1}"#);
    assert_eq!(app.call("from_toml", json!({})).await["error"]["code"], "TOOL_VALIDATION_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_file_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tool.json", described("mine", "one"));
    let app = on_folder(&folder).await;
    assert_eq!(app.get("/tools/mine").await.ok()["description"], "one");
    write(folder.path(), "tool.json", described("mine", "two"));
    wait_for_description(&app, "mine", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_file_adds_its_tool_and_a_removed_one_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let app = on_folder(&folder).await;
    write(folder.path(), "tool.json", described("mine", "one"));
    wait_for_description(&app, "mine", "one").await;
    std::fs::remove_file(folder.path().join("tool.json")).unwrap();
    eventually("the tool to go", || async { (app.get("/tools/mine").await.status == 404).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_file_keeps_its_last_valid_state() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tool.json", described("mine", "one"));
    let app = on_folder(&folder).await;
    write(folder.path(), "tool.json", "{ \"name\": ");
    // The broken file was written first, so the service has seen it when it serves this one.
    write(folder.path(), "witness.json", described("witness", "one"));
    wait_for_description(&app, "witness", "one").await;
    assert_eq!(app.get("/tools/mine").await.ok()["description"], "one");
    write(folder.path(), "tool.json", described("mine", "mended"));
    wait_for_description(&app, "mine", "mended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_with_an_invalid_schema_keeps_its_last_valid_state() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tool.json", described("mine", "one"));
    let app = on_folder(&folder).await;
    let mut bad = described("mine", "two");
    bad["input_schema"] = json!({"type": "nonsense"});
    write(folder.path(), "tool.json", bad);
    write(folder.path(), "witness.json", described("witness", "one"));
    wait_for_description(&app, "witness", "one").await;
    assert_eq!(app.get("/tools/mine").await.ok()["description"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_moved_to_another_file_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "z.json", json!([described("moved", "old"), described("stays", "old")]));
    let app = on_folder(&folder).await;
    write(folder.path(), "a.json", described("moved", "new"));
    write(folder.path(), "z.json", described("stays", "new"));
    wait_for_description(&app, "moved", "new").await;
    wait_for_description(&app, "stays", "new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn name_in_two_files_falls_to_the_remaining_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first.json", described("twice", "first"));
    write(folder.path(), "second.json", described("twice", "second"));
    let app = on_folder(&folder).await;
    wait_for_description(&app, "twice", "first").await;
    std::fs::remove_file(folder.path().join("first.json")).unwrap();
    wait_for_description(&app, "twice", "second").await;
}
