//! Declarations of servers: files of other programs, settings, and the command line.

use serde_json::json;

use super::{Fixture, options, quick};
use crate::cli::program::{Home, Program, ProgramOutput};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Options};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_server_affects_no_other_and_is_shown_with_its_reason() {
    let fixture = Fixture::named(&["echo"]);
    let servers = json!({"s": fixture.declared(json!({"type": "stdio", "autoApprove": ["echo"]})),
        "old": {"type": "sse", "url": "https://example.com/sse"}, "off": {"command": "x", "disabled": true},
        "unset": {"command": "x", "env": {"A": "${TOOLPOST_TEST_NOWHERE}"}}});
    let app = App::start_with(Backend::Sqlite, options(fixture.file_of(&servers))).await;
    succeeded(&app.call("s.echo", json!({})).await);
    let list = app.get("/upstreams").await.ok();
    let names: Vec<&str> =
        list["upstreams"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["old", "s", "unset"]);
    let old = app.upstream("old").await;
    assert_eq!(old["state"], "failed");
    assert!(old["last_error"]["message"].as_str().unwrap().contains("Streamable HTTP"), "{old:#}");
    let unset = app.upstream("unset").await;
    assert!(unset["last_error"]["message"].as_str().unwrap().contains("TOOLPOST_TEST_NOWHERE"), "{unset:#}");
    let refused = app.post_empty("/upstreams/old/restart").await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("UPSTREAM_UNUSABLE")));
    assert_eq!(app.delete("/upstreams/s").await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_of_a_file_hides_an_upstream_tool() {
    let fixture = Fixture::named(&["echo", "other"]);
    let tools = tempfile::tempdir().unwrap();
    let own = json!({"name": "s.echo", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    std::fs::write(tools.path().join("own.json"), own.to_string()).unwrap();
    let file = fixture.file(json!({}));
    let options = Options { tools_dir: Some(tools.path().into()), configure: Some(quick), ..options(file) };
    let app = App::start_with(Backend::Sqlite, options).await;
    assert_eq!(app.get("/tools/s.echo").await.ok()["source"], "file");
    assert_eq!(app.get("/tools/s.other").await.ok()["source"], "mcp");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_line_calls_upstream_tools_and_lists_them() {
    let fixture = Fixture::named(&["echo"]);
    let file = fixture.file(json!({}));
    let run = move |words: &'static [&'static str]| {
        let file = file.clone();
        tokio::task::spawn_blocking(move || {
            let ProgramOutput { code, out, err } =
                Program::start(Home::new().command(words).env("TOOLPOST_MCP_SERVERS", &file)).end();
            (code, out, err)
        })
    };
    let (code, out, errors) = run(&["call", "s.echo", r#"{"a":1}"#]).await.unwrap();
    assert_eq!((code, out.trim()), (Some(0), r#"{"a": 1}"#), "{errors}");
    let (code, out, errors) = run(&["tools", "list"]).await.unwrap();
    assert!(code == Some(0) && out.contains("s.echo") && out.contains("mcp s echo"), "{out}{errors}");
    // A call of an unknown tool starts no server.
    let before = fixture.starts();
    run(&["call", "calculate", r#"{"expression":"1+1"}"#]).await.unwrap();
    assert_eq!(fixture.starts(), before);
    let (code, _, errors) = run(&["tools", "list", "--mcp-servers", "/nowhere/mcp.json"]).await.unwrap();
    assert!(code == Some(2) && errors.contains("/nowhere/mcp.json") && errors.contains("mcpServers"), "{errors}");
}
