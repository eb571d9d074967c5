//! A database whose disk is full: no acknowledged call is lost, no call runs unrecorded, and the service recovers on
//! its own once space is available.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use toolpost::store::Db;

use crate::outage::{readyz, unavailable};
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, Client, HttpTool, Node, Options, eventually};

/// Runs SQL on the service's own writing connection.
async fn sql(app: &App, text: &'static str) {
    let text = AssertSqlSafe(text);
    match app.store().db() {
        Db::Sqlite(pools) => drop(sqlx::raw_sql(text).execute(&pools.writer.pool()).await.unwrap()),
        Db::Postgres(pools) => drop(sqlx::raw_sql(text).execute(&pools.writer.pool()).await.unwrap()),
    }
}

/// Fills the database. SQLite may use no more pages than it has, with none free; Postgres raises the error of a full
/// disk.
async fn fill(app: &App, backend: Backend) {
    let text = match backend {
        Backend::Sqlite => "VACUUM; PRAGMA max_page_count = 1",
        Backend::Postgres => {
            "CREATE FUNCTION full_disk() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON tool_calls EXECUTE FUNCTION full_disk(); \
             CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON tools EXECUTE FUNCTION full_disk()"
        }
    };
    sql(app, text).await;
}

async fn free_disk(app: &App, backend: Backend) {
    let text = match backend {
        Backend::Sqlite => "PRAGMA max_page_count = 1073741823",
        // Dropping the triggers would lock their tables.
        Backend::Postgres => {
            "CREATE OR REPLACE FUNCTION full_disk() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
        }
    };
    sql(app, text).await;
}

/// Builds a call that needs space in the database.
fn large(name: &str, id: &str) -> Value {
    json!({"name": name, "id": id, "arguments": {"text": "x".repeat(100_000)}})
}

on_both_databases!(
    async fn full_disk_rejects_calls_until_space_is_free(backend: Backend) {
        let egress_allow = vec!["127.0.0.1".into()];
        let options = Options { patience_ms: Some(300), egress_allow, ..Options::default() };
        let app = App::start_with(backend, options).await;
        let gate = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text(&"y".repeat(40_000))))).await;
        let server = HttpTool::answering(Answer::text("done")).await;
        app.http_tool("long", &gate).await;
        app.http_tool("act", &server).await;
        let before = app.call_with(large("act", "before")).await;
        succeeded(&before);
        let running = tokio::spawn({
            let client = (*app).clone();
            async move { client.post("/tool-calls", &json!({"name": "long"})).await }
        });
        gate.received(1).await;

        fill(&app, backend).await;
        gate.open();
        let location = unavailable(running.await.unwrap()).expect("a Location");
        readyz(&app, 503).await;
        assert_eq!(app.get("/healthz").await.status, 200);
        for name in ["act", "echo"] {
            assert_eq!(unavailable(app.post("/tool-calls", &large(name, "turned away")).await), None);
        }
        let description = "x".repeat(100_000);
        let tool = json!({"name": "t", "description": description, "input_schema": {"type": "object"},
            "executor": {"type": "builtin", "name": "echo"}});
        assert_eq!(unavailable(app.post("/tools", &tool).await), None);
        assert_eq!(app.stored(before["id"].as_str().unwrap()).await, before, "what is there can be read");
        assert_eq!(server.requests().len(), 1, "only the first has run");

        free_disk(&app, backend).await;
        readyz(&app, 200).await;
        let ended = eventually("the end of every call", || async {
            let calls = app.get("/tool-calls").await.ok()["tool_calls"].as_array().unwrap().clone();
            (calls.len() == 4 && calls.iter().all(|call| !call["ended_at"].is_null())).then_some(calls)
        })
        .await;
        let late = ended.iter().find(|call| call["call_id"] == "turned away" && call["name"] == "act").unwrap();
        failed(late, "OVERLOADED");
        assert_eq!(app.get(&location).await.ok()["status"], "SUCCESS");
        succeeded(&app.call_with(large("act", "after")).await);
        assert_eq!((server.requests().len(), gate.requests().len()), (2, 1));
        let stats = app.stats("act").await;
        assert_eq!((&stats["success_count"], &stats["rejected_count"]), (&json!(2), &json!(1)));
        assert_eq!(app.stats("long").await["success_count"], 1);
    }
);

/// A service process whose files are limited. Killed on drop.
struct LimitedService {
    child: Child,
}

impl Drop for LimitedService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl LimitedService {
    /// Starts a service on the database in `folder`. Its files may not grow beyond this number of blocks of 512 bytes.
    async fn start(folder: &Path, blocks: &str) -> (Self, Client) {
        let (folder, blocks) = (folder.to_owned(), blocks.to_owned());
        tokio::task::spawn_blocking(move || Self::start_blocking(&folder, &blocks)).await.unwrap()
    }

    fn start_blocking(folder: &Path, blocks: &str) -> (Self, Client) {
        let url = format!("sqlite://{}", folder.join("toolpost.db").display());
        let mut command = Command::new("sh");
        command.args(["-c", r#"ulimit -f "$1"; shift; exec "$@""#, "sh", blocks]);
        command.args([env!("CARGO_BIN_EXE_toolpost"), "serve"]);
        command.args(["--listen", "127.0.0.1:0", "--database-url", &url]).env("TOOLPOST__STORE__PATIENCE_MS", "300");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let client = Client::new(line.trim().strip_prefix("toolpost listening on ").unwrap());
        (Self { child }, client)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_at_its_size_limit_rejects_calls_and_the_service_survives() {
    let folder = tempfile::tempdir().unwrap();
    let (_limited, client) = LimitedService::start(folder.path(), "4096").await;
    let mut turned_away = None;
    for n in 0..100 {
        let answer = client.post("/tool-calls", &large("echo", &n.to_string())).await;
        if answer.status != 200 {
            turned_away = Some(answer);
            break;
        }
    }
    unavailable(turned_away.expect("no more room"));
    readyz(&client, 503).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/tool-calls/0").await.status, 404, "what is there can be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_starts_on_a_full_disk_and_recovers_once_space_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let (first, client) = LimitedService::start(folder.path(), "unlimited").await;
    for n in 0..5 {
        succeeded(&client.post("/tool-calls", &large("echo", &n.to_string())).await.ok());
    }
    let listed = client.get("/tool-calls").await.ok();
    // Killed, so that its write-ahead log is as large as the disk allows.
    drop(first);

    // The index of the log fits, and nothing can be added to the log.
    let (full, client) = LimitedService::start(folder.path(), "100").await;
    assert_eq!(client.get("/healthz").await.status, 200);
    readyz(&client, 503).await;
    assert_eq!(client.get("/tool-calls").await.ok(), listed, "what is there can be read");
    client.get("/tools/echo").await.ok();
    unavailable(client.post("/tool-calls", &large("echo", "turned away")).await);
    unavailable(client.post("/sessions", &json!({"id": "turned away"})).await);
    drop(full);

    let (_free, client) = LimitedService::start(folder.path(), "unlimited").await;
    readyz(&client, 200).await;
    succeeded(&client.call("echo", json!({})).await);
    assert_eq!(client.get("/sessions/turned%20away").await.status, 404);
}

/// Limits the size of the files that a service may write from now on, in bytes.
fn limit_files(node: &Node, bytes: &str) {
    let limit =
        Command::new("prlimit").args(["--pid", &node.id().to_string(), &format!("--fsize={bytes}:unlimited")]).status();
    assert!(limit.unwrap().success(), "prlimit of util-linux");
}

/// Returns the example of the body of an operation in the description of the API.
fn example(document: &Value, path: &str) -> Value {
    let content = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
    let named = content["examples"].as_object().and_then(|named| named.values().next());
    named.map_or_else(|| content["example"].clone(), |one| one["value"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn any_first_write_on_a_full_disk_is_reported_and_leaves_nothing() {
    let node = Node::start(Backend::Sqlite, &[("TOOLPOST__STORE__PATIENCE_MS", "300")]).await;
    let document = node.get("/openapi.json").await.ok();
    let mut tool = json!({"description": "d", "input_schema": {"type": "object", "properties": {"p": {}}}, "approval": {},
        "executor": {"type": "builtin", "name": "echo"}});
    assert_eq!(node.put("/tools/kept", &tool).await.status, 201);
    tool["executor"] = json!({"type": "external"});
    tool.as_object_mut().unwrap().remove("approval");
    assert_eq!(node.put("/tools/outside", &tool).await.status, 201);
    assert_eq!(node.post("/sessions", &json!({"id": "kept"})).await.status, 201);
    assert_eq!(node.post("/tool-groups", &json!({"name": "kept"})).await.status, 201);
    let call = node.post("/tool-calls", &json!({"name": "outside", "wait": "accepted"})).await.json["id"].clone();
    let call = format!("/tool-calls/{}", call.as_str().unwrap());
    node.in_phase(call.rsplit('/').next().unwrap(), "external").await;
    let result = format!("{call}/result");
    // The write-ahead log is now larger than the limit below.
    succeeded(&node.call_with(large("echo", "before")).await);

    let posted = |path: &'static str| (Method::POST, path, example(&document, path), path);
    let writes = [
        (Method::PUT, "/tools/new", tool.clone(), "/tools/new"),
        (Method::POST, "/sessions", json!({"id": "new"}), "/sessions/new"),
        (Method::POST, "/tool-groups", json!({"name": "new"}), "/tool-groups/new"),
        (Method::PATCH, "/tool-groups/kept", json!({"description": "other"}), "/tool-groups/kept"),
        (Method::PUT, "/tools/kept/presets", json!({"p": {"value": 1}}), "/tools/kept/presets"),
        (Method::DELETE, "/tools/kept", Value::Null, "/tools/kept"),
        (Method::DELETE, "/sessions/kept", Value::Null, "/sessions/kept"),
        posted("/policies"),
        posted("/hooks"),
        posted("/budgets"),
        posted("/upstreams"),
        // A call that was refused may be recorded later, as refused.
        (Method::POST, "/tool-calls", json!({"name": "echo"}), "/tools/echo"),
        (Method::POST, &result, json!({"output": "kept"}), &call),
        (Method::POST, "/keys", json!({"name": "new", "scopes": ["read"]}), "/keys"),
    ];
    for (method, path, body, shown_at) in writes {
        let before = node.get(shown_at).await;
        limit_files(&node, "51200");
        let answer = send(node.request(method.clone(), path).json(&body)).await;
        limit_files(&node, "unlimited");
        assert_eq!(answer.status, 503, "{method} {path}: {}", answer.text());
        readyz(&node, 200).await;
        let after = node.get(shown_at).await;
        assert_eq!(before.status, after.status, "{method} {path}");
        if before.status == 200 {
            assert!(before.json == after.json, "{method} {path}");
        }
    }
}
