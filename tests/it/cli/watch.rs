//! `toolpost watch` and `toolpost calls watch`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::program::{Home, Program, ProgramOutput};
use super::proxy::Proxy;
use crate::support::calls::id_of;
use crate::support::fixture::project_file;
use crate::support::{App, Backend, Client};

/// Waits for the end of a program without blocking the service.
async fn end(program: Program) -> ProgramOutput {
    tokio::task::spawn_blocking(move || program.end()).await.unwrap()
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_one_line_until_the_limit() {
    let app = App::on_sqlite().await;
    let call = id_of(&app.call("echo", json!({"a": 1})).await);
    app.call("wait", json!({"ms": 1})).await;
    let (home, url) = (Home::new(), app.url(""));
    let watch = ["watch", "--server", &url, "--after", "0", "--name", "echo", "--limit"];
    let expected = app.events("/events?after=0&name=echo").await.until(|event| event.is_result()).await;
    let count = expected.len().to_string();
    let lines = home.run(&[&watch[..], &[count.as_str()]].concat());
    assert_eq!((lines.code, lines.out.lines().count()), (Some(0), expected.len()), "{lines:?}");
    assert!(lines.err.starts_with("watching http://127.0.0.1:"), "{lines:?}");
    for (line, event) in lines.out.lines().zip(&expected) {
        assert!(line.contains(&call) && line.contains(&event.event) && line.contains("echo"), "{line}");
    }
    assert!(lines.out.lines().last().unwrap().ends_with(r#"SUCCESS {"a":1}"#), "{lines:?}");
    let json = home.run(&[&watch[..], &[count.as_str(), "--json"]].concat());
    let members = |event: &Value| (event["id"].clone(), event["event"].clone(), event["data"].clone());
    let expected: Vec<_> =
        expected.into_iter().map(|event| (event.id.into(), event.event.into(), event.data)).collect();
    assert_eq!(events(&json.out).iter().map(members).collect::<Vec<_>>(), expected);
    let wrong = home.run(&["watch", "--server", &url, "--after", "x"]);
    assert_eq!((wrong.code, wrong.err.contains("event id")), (Some(2), true), "{wrong:?}");
}

/// Makes a call through a proxy and cuts the connections, several times. Every event must arrive exactly once.
async fn resumes(backend: Backend) {
    let app = App::start(backend).await;
    let proxy = Proxy::before(&app).await;
    let (home, url) = (Home::new(), proxy.url());
    let mut watch = Program::start(&mut home.command(&["watch", "--json", "--server", &url]));
    watch.err("watching ");
    let mut calls = Vec::new();
    for _ in 0..3 {
        let id = id_of(&app.call("wait", json!({"ms": 1, "steps": 1})).await);
        watch.out_with(&["\"tool_result\"", &id]);
        proxy.cut();
        watch.err("connection lost");
        calls.push(id);
    }
    // The stream may be closed during this call.
    let last = id_of(&app.call("echo", json!({})).await);
    watch.out_with(&["\"tool_result\"", &last]);
    watch.signal("TERM");
    let ended = end(watch).await;
    assert_eq!(ended.code, Some(143), "{ended:?}");
    let mut expected = app.events("/events?after=0").await;
    let expected = expected.until(|event| event.is_result() && event.data["id"] == last).await;
    let ids =
        |events: &[Value]| events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let seen = ids(&events(&ended.out));
    assert_eq!(seen, expected.iter().map(|event| event.id.clone()).collect::<Vec<_>>());
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_resumes_after_lost_connections_on_sqlite() {
    resumes(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_resumes_after_lost_connections_on_postgres() {
    requires_postgres!();
    resumes(Backend::Postgres).await;
}

/// Starts a call of an `external` tool, which runs until a result is posted.
async fn call_external(client: &Client) -> String {
    client.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
    let id = client.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    client.in_phase(&id, "external").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_watched_to_its_end_across_a_lost_connection() {
    let app = App::on_sqlite().await;
    let proxy = Proxy::before(&app).await;
    let id = call_external(&app).await;
    let (home, url) = (Home::new(), proxy.url());
    let mut watch = Program::start(&mut home.command(&["calls", "watch", &id, "--server", &url]));
    watch.err("DOING external");
    proxy.cut();
    watch.err("connection lost");
    let path = format!("/tool-calls/{id}");
    app.post(&format!("{path}/progress"), &json!({"tip": "asks", "progress": {"current": 1, "total": 2}})).await;
    watch.err("DOING asks");
    watch.err("progress 1/2");
    app.post(&format!("{path}/result"), &json!("done")).await;
    let ended = end(watch).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"), "{ended:?}");
    assert!(ended.err.lines().last().unwrap().starts_with("SUCCESS in "), "{ended:?}");
    // A call that has ended is replayed.
    let again = home.run(&["calls", "watch", &id, "--server", &url, "--json"]);
    let kinds: Vec<Value> = events(&again.out).into_iter().map(|event| event["event"].clone()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&json!("tool_call")), Some(&json!("tool_result"))), "{again:?}");
    let failed = id_of(&app.call("wait", json!({"ms": "soon"})).await);
    assert_eq!(home.run(&["calls", "watch", &failed, "--server", &url]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_watch_leaves_the_call_running() {
    let app = App::on_sqlite().await;
    let id = call_external(&app).await;
    let (home, url) = (Home::new(), app.url(""));
    let mut watch = Program::start(&mut home.command(&["calls", "watch", &id, "--server", &url]));
    watch.err("DOING");
    watch.signal("INT");
    let ended = end(watch).await;
    assert_eq!((ended.code, ended.err.contains(&format!("calls watch {id}"))), (Some(130), true), "{ended:?}");
    assert_eq!(app.stored(&id).await["status"], "DOING");
}

#[tokio::test(flavor = "multi_thread")]
async fn live_view_shows_calls_in_a_terminal_until_q() {
    let app = App::on_sqlite().await;
    for key in ["q", "ctrl-c"] {
        let mut command = tokio::process::Command::new("python3");
        command
            .arg(project_file("tests/it/cli/live_view.py"))
            .arg(env!("CARGO_BIN_EXE_toolpost"))
            .arg(app.url(""))
            .arg(key);
        let output =
            command.env_remove("NO_COLOR").env("TERM", "xterm-256color").kill_on_drop(true).output().await.unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
    }
}
