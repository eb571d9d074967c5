//! The lifecycle of a server: started, shared, lost, restarted, and removed without leftovers.

use std::fs;

use serde_json::json;

use super::{Fixture, marked, options, quick, tool, wait_for_none};
use crate::support::killable::Killable;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Database, Options, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn state_of_a_server_is_shown() {
    let fixture = Fixture::named(&["echo"]);
    let app = fixture.served(json!({"env": {"A": "b"}})).await;
    let list = app.get("/upstreams").await.ok();
    assert_eq!(list["total"], 1);
    let server = &list["upstreams"][0];
    for (member, value) in [
        ("name", json!("s")),
        ("state", json!("ready")),
        ("source", json!("config")),
        ("transport", json!("stdio")),
        ("command", json!("python3")),
        ("tools", json!(["s.echo"])),
        ("protocol_version", json!("2025-11-25")),
        ("implementation", json!({"name": "fixture", "version": "1.2.3"})),
        ("restarts", json!(0)),
        ("last_error", json!(null)),
        ("quarantined", json!([])),
        ("left_out", json!([])),
    ] {
        assert_eq!(server[member], value, "{member}");
    }
    assert!(server["pid"].is_u64() && server.get("stderr").is_none());
    assert_eq!(app.upstream("s").await["stderr"], json!(["started"]));
    assert_eq!(app.get("/upstreams/t").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_server_is_restarted_and_its_call_fails() {
    let fixture = Fixture::named(&["crash", "echo"]);
    let app = fixture.served(json!({})).await;
    let call = app.call("s.crash", json!({})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("connection to its server was lost"), "{call:#}");
    assert_eq!(call["error"]["retryable"], true);
    // The next call waits for the restart.
    succeeded(&app.call("s.echo", json!({})).await);
    assert_eq!(fixture.starts(), 2);
    let server = app.upstream_in("s", "ready").await;
    assert_eq!(server["restarts"], 1);
    assert!(server["last_error"]["message"].as_str().unwrap().contains("exited with code 3"), "{server:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_repeatable_call_is_retried_after_a_crash() {
    let idempotent =
        json!({"name": "crash", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}});
    let fixture = Fixture::new(&json!([idempotent]));
    let app = fixture.served(json!({})).await;
    let retry = json!({"max_attempts": 2, "initial_backoff_ms": 1});
    let call = app.call_with(json!({"name": "s.crash", "retry": retry})).await;
    assert_eq!((call["attempts"].as_u64(), fixture.heard("tools/call").len()), (Some(2), 2), "{call:#}");
    let fixture = Fixture::named(&["crash"]);
    let app = fixture.served(json!({})).await;
    let call = app.call_with(json!({"name": "s.crash", "retry": retry})).await;
    assert_eq!((call["attempts"].as_u64(), fixture.heard("tools/call").len()), (Some(1), 1), "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_disappear_and_return_with_their_server() {
    let fixture = Fixture::named(&["crash", "echo"]);
    let app = fixture.served(json!({})).await;
    fs::write(fixture.path("broken"), "").unwrap();
    app.call("s.crash", json!({})).await;
    let server = app.upstream_in("s", "failed").await;
    assert!(
        server["last_error"]["message"]
            .as_str()
            .unwrap()
            .ends_with("the last line of its standard error: it is broken"),
        "{server:#}"
    );
    assert!(server["stderr"].as_array().unwrap().contains(&json!("it is broken")));
    app.has_tools("s", &[]).await;
    failed(&app.call("s.echo", json!({})).await, "TOOL_NOT_FOUND");
    fs::remove_file(fixture.path("broken")).unwrap();
    app.has_tools("s", &["s.crash", "s.echo"]).await;
    succeeded(&app.call("s.echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_starts_without_a_hanging_server() {
    let fixture = Fixture::named(&["echo"]);
    let servers = json!({"s": fixture.declared(json!({})), "gone": {"command": "/nowhere/at-all"},
        "mute": {"command": "sleep", "args": ["300"]}});
    let hurried = |config: &mut toolpost::config::Config| {
        quick(config);
        config.mcp_servers.start_timeout_ms = 4_000;
        config.mcp_servers.give_up_after = 1;
    };
    let app =
        App::start_with(Backend::Sqlite, Options { configure: Some(hurried), ..options(fixture.file_of(&servers)) })
            .await;
    succeeded(&{
        app.has_tools("s", &["s.echo"]).await;
        app.call("s.echo", json!({})).await
    });
    eventually("the reason", || async {
        let server = app.upstream("gone").await;
        server["stderr"].to_string().contains("not found").then_some(())
    })
    .await;
    eventually("the reason", || async {
        let server = app.upstream("mute").await;
        server["last_error"]["message"].as_str().is_some_and(|message| message.contains("4000 ms")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_can_be_restarted_manually() {
    let fixture = Fixture::named(&["echo"]);
    let app = fixture.served(json!({})).await;
    let answer = app.post_empty("/upstreams/s/restart").await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    eventually("its second start", || async { (fixture.starts() == 2).then_some(()) }).await;
    succeeded(&app.call("s.echo", json!({})).await);
    assert_eq!(app.post_empty("/upstreams/t/restart").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_service_leaves_no_process() {
    let fixture = Fixture::named(&["child", "wait"]);
    let mark = fixture.path("mark").display().to_string();
    let app = fixture.served(json!({"env": {"MARK": mark}})).await;
    succeeded(&app.call("s.child", json!({})).await);
    assert!(marked(&mark).len() >= 3);
    drop(app);
    wait_for_none(&mark).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_leaves_no_process() {
    let fixture = Fixture::named(&["child", "crash"]);
    let mark = fixture.path("mark").display().to_string();
    let app = fixture.served(json!({"env": {"MARK": mark}})).await;
    let child = succeeded(&app.call("s.child", json!({})).await).to_owned();
    app.call("s.crash", json!({})).await;
    eventually("the end of what it started", || async { (!marked(&mark).contains(&child)).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_and_kill_9_leave_no_child_behind() {
    let fixture = Fixture::new(&json!([tool("child"), tool("wait"), tool("echo")]));
    let mark = fixture.path("mark").display().to_string();
    let other = Fixture::named(&["wait"]);
    let env = json!({"env": {"MARK": mark}});
    let file = fixture.file_of(&json!({"s": fixture.declared(env.clone()), "o": other.declared(env)}));
    let database = Database::fresh(Backend::Sqlite).await;
    let mut program = Killable::new(&database.url, vec![("TOOLPOST_MCP_SERVERS", file.display().to_string())]);
    for round in 1..=2 {
        program.start().await;
        let client = program.client();
        eventually("the tools", || async { (client.tools_of("s").await.len() == 3).then_some(()) }).await;
        let clients: Vec<_> = (0..10)
            .map(|n| {
                let (client, name) = (program.client(), if n % 2 == 0 { "s.wait" } else { "o.wait" });
                tokio::spawn(async move {
                    succeeded(&client.call("s.child", json!({})).await);
                    // The call ends with the service.
                    let _ =
                        client.request(reqwest::Method::POST, "/tool-calls").json(&json!({"name": name})).send().await;
                })
            })
            .collect();
        fixture.hears("tools/call", 15 * round).await;
        other.hears("tools/call", 5 * round).await;
        assert!(marked(&mark).len() >= 10);
        program.kill().await;
        for client in clients {
            client.await.unwrap();
        }
        wait_for_none(&mark).await;
    }
}
