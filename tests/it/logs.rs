//! The log of the real program, as operators collect it.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::cli::program::Home;
use crate::support::{Backend, Client, Node, bounded};

/// Starts a service with this log format, whose standard error is not a terminal.
async fn node(format: &str) -> Node {
    Node::start(Backend::Sqlite, &[("TOOLPOST__LOG__FORMAT", format), ("TOOLPOST__LOG__FILTER", "info,toolpost=debug")])
        .await
}

/// Stops the service and returns its log.
async fn log_of(mut node: Node) -> String {
    node.signal("TERM");
    let ended = node.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended.err
}

/// Stops the service and returns its log, one JSON object per line.
async fn lines_of(node: Node) -> Vec<Value> {
    let text = log_of(node).await;
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    let lines: Vec<Value> = lines.collect();
    for line in &lines {
        for member in ["timestamp", "level", "target", "message"] {
            assert!(line[member].is_string(), "{member} in {line}");
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn log_without_a_terminal_has_no_colours() {
    let node = node("text").await;
    node.call("echo", json!({})).await;
    let log = log_of(node).await;
    assert!(log.contains("the call has ended") && !log.contains('\u{1b}'), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_an_object_that_names_its_request_and_its_call() {
    let node = node("json").await;
    let ask = async |request: &str, body: Value| {
        let headers = [("x-request-id", request)];
        let answer = node.post_with("/tool-calls", &headers, &body).await;
        assert!(answer.status < 300, "{}", answer.text());
        answer.json
    };
    let one = ask("r-one", json!({"name": "echo", "id": "call_1"})).await;
    ask(
        "r-batch",
        json!({"calls": [{"name": "echo", "id": "b1"}, {"name": "wait", "id": "b2", "arguments": {"ms": 1}}]}),
    )
    .await;
    ask("r-large", json!({"name": "echo", "id": "large", "arguments": {"text": "x".repeat(100_000)}})).await;
    let later = ask("r-later", json!({"name": "echo", "id": "later", "wait": "accepted"})).await;
    node.get(&format!("/tool-calls/{}?wait_ms=10000", later["id"].as_str().unwrap())).await.ok();
    let lines = lines_of(node).await;
    let ends: Vec<&Value> = lines.iter().filter(|line| line["message"] == "the call has ended").collect();
    let of = |call_id: &str| {
        let found: Vec<&&Value> = ends.iter().filter(|line| line["call_id"] == call_id).collect();
        assert_eq!(found.len(), 1, "{call_id} in {ends:#?}");
        *found[0]
    };
    for (call_id, request, tool) in [
        ("call_1", "r-one", "echo"),
        ("b1", "r-batch", "echo"),
        ("b2", "r-batch", "wait"),
        ("large", "r-large", "echo"),
        ("later", "r-later", "echo"),
    ] {
        let line = of(call_id);
        assert_eq!((&line["request_id"], &line["tool"]), (&json!(request), &json!(tool)), "{line}");
        assert_eq!((&line["status"], &line["level"]), (&json!("SUCCESS"), &json!("DEBUG")));
    }
    assert_eq!(of("call_1")["id"], one["id"]);
    let answered = lines.iter().find(|line| line["message"] == "answered" && line["request_id"] == "r-one").unwrap();
    assert_eq!((&answered["route"], &answered["status"]), (&json!("/tool-calls"), &json!(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_cannot_forge_a_line() {
    let node = node("json").await;
    node.call_with(json!({"name": "echo", "id": "a\n{\"level\":\"ERROR\"}\u{1b}[31m"})).await;
    let lines = lines_of(node).await;
    assert!(lines.iter().any(|line| line["call_id"].as_str().is_some_and(|id| id.starts_with("a\n{"))), "{lines:#?}");
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_works_and_stops_without_a_reader_of_its_log() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    let mut service = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    let line = bounded("the start", lines.next_line()).await.unwrap().expect("it starts");
    let client = Client::new(line.trim_start_matches("toolpost listening on "));
    assert_eq!(client.call("echo", json!({})).await["status"], "SUCCESS");
    let id = service.id().unwrap().to_string();
    let sent = tokio::process::Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(sent.success(), "{sent}");
    let ended = bounded("the end", service.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{ended}");
}
