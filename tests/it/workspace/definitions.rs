//! The tools of a workspace, by setting, and their definitions.

use super::*;
use crate::cli::program::Home;
use crate::support::shapes::{failed, names};

const FILES: [&str; 5] = ["edit", "list", "read", "search", "write"];

#[tokio::test(flavor = "multi_thread")]
async fn service_without_a_workspace_has_no_workspace_tools() {
    let app = App::on_sqlite().await;
    let list = app.get("/tools").await.ok();
    for name in FILES.iter().chain(&["bash", "web_fetch"]) {
        assert!(!names(&list["tools"]).contains(name), "{name}");
    }
    failed(&app.call("read", json!({"path": "x"})).await, "TOOL_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_has_all_tools_with_honest_annotations() {
    let (app, _folder) = service(&[]).await;
    for (name, read_only, destructive, idempotent, truncate) in [
        ("read", true, false, true, json!("head")),
        ("list", true, false, true, Value::Null),
        ("search", true, false, true, Value::Null),
        ("write", false, true, true, Value::Null),
        ("edit", false, true, false, Value::Null),
        ("bash", false, true, false, json!("tail")),
    ] {
        let tool = app.get(&format!("/tools/{name}")).await.ok();
        assert_eq!(tool["source"], "builtin");
        let expected = json!({
            "read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": false,
        });
        assert_eq!(tool["annotations"], expected, "{name}");
        assert_eq!(tool["limits"]["truncate"], truncate, "{name}");
        assert_eq!(tool["input_schema"]["additionalProperties"], false, "{name}");
        for (property, schema) in tool["input_schema"]["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}.{property}");
        }
    }
    // The schemas can be lowered for every vendor.
    for format in ["openai", "openai-strict", "anthropic", "gemini", "mcp"] {
        let list = app.get(&format!("/tools?format={format}")).await.ok();
        assert!(list["left_out"].as_array().is_none_or(Vec::is_empty), "{format}: {}", list["left_out"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_can_be_disabled_and_web_fetch_enabled() {
    let folder = tempfile::tempdir().unwrap();
    let app = serving(folder.path(), |config| {
        config.workspace.bash = false;
        config.egress.allow = vec!["127.0.0.1".into()];
    })
    .await;
    let list = app.get("/tools").await.ok();
    assert!(!names(&list["tools"]).contains(&"bash") && names(&list["tools"]).contains(&"web_fetch"));
    let tool = app.get("/tools/web_fetch").await.ok();
    assert_eq!((&tool["annotations"]["read_only"], &tool["annotations"]["open_world"]), (&json!(true), &json!(true)));
}

#[test]
fn command_line_has_workspace_tools() {
    let home = Home::new();
    put(home.path(), &[("w/notes.md", "# Notes\n")]);
    let folder = home.path().join("w").display().to_string();
    let ended = home.run(&["call", "--workspace", &folder, "read", r#"{"path": "notes.md"}"#]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "# Notes\n"), "{ended:?}");
    let ended = home.run(&["call", "--workspace", &folder, "bash", r#"{"command": "cat notes.md; exit 3"}"#]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("# Notes\n\nCommand exited with code 3"), "{ended:?}");
    let ended = home.run(&["tools", "list", "--json", "--workspace", &folder]);
    let text = ended.out;
    assert!(FILES.iter().chain(&["bash"]).all(|name| text.contains(&format!("\"{name}\""))), "{text}");
    let ended = home.run(&["call", "--workspace", &format!("{folder}/gone"), "read", "{}"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.err.contains("the workspace") && ended.err.contains("Set --workspace to an existing folder"),
        "{ended:?}"
    );
}
