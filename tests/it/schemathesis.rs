//! Schemathesis generates valid and invalid requests from `/openapi.json` and checks every response against it.
//!
//! Its setup is in `tests/clients/schemathesis`. Each part of the API has its own service: the parts run concurrently,
//! and objects of one part, such as hooks, do not slow down another. Each operation gets every boundary value that its schema
//! names and 25 random requests, with `TOOLPOST_CHAOS=long` 100.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::chaos::is_long;
use crate::support::fixture::project_file;
use crate::support::{Backend, Client, Node};

/// Timeout for one part, far longer than a normal run.
const RUN_TIMEOUT: Duration = Duration::from_secs(900);
const HINT: &str = "`scripts/test` installs what it is run with";

/// The parts as patterns of paths. Together they cover every path.
const PARTS: [&str; 6] = [CALLS, ONE_CALL, TOOLS, GROUPS_AND_SESSIONS, OPERATORS, OTHERS];
const CALLS: &str = "^/tool-calls$";
const ONE_CALL: &str = "^/(tool-calls/|events|approvals)";
const TOOLS: &str = "^/tools";
const GROUPS_AND_SESSIONS: &str = "^/(tool-groups|sessions)";
const OPERATORS: &str = "^/(hooks|keys|upstreams|imports|policies|budgets|workers)";
const OTHERS: &str = "^/(mcp|stats|metrics|healthz|readyz|console|whoami|system)";

/// Starts a service with some tools and a group.
async fn service() -> Node {
    let settings = [
        // Short timeouts for unreachable servers and for arguments that never arrive.
        ("TOOLPOST__MCP_SERVERS__START_WAIT_MS", "1"),
        ("TOOLPOST__STREAMS__SILENCE_MS", "1000"),
        ("TOOLPOST__LIMITS__ASYNC_TIMEOUT_MS", "1000"),
        // It sends many invalid keys and expects a 401 for each.
        ("TOOLPOST__AUTH__FAILURES", "0"),
    ];
    let node = Node::start(Backend::Sqlite, &settings).await;
    let made = node.post("/tool-groups", &json!({"name": "mail"})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let schema =
        json!({"type": "object", "properties": {"to": {"type": "string"}, "cc": {"type": ["string", "null"]}}});
    let tools = [
        json!({"name": "mail.send", "groups": ["mail"], "input_schema": schema, "executor": {"type": "builtin", "name": "echo"}}),
        json!({"name": "ask", "input_schema": schema, "async": true, "executor": {"type": "external"}}),
        json!({"name": "cached", "input_schema": schema, "annotations": {"idempotent": true, "read_only": true},
            "cache": {"ttl_ms": 60_000, "scope": "global"}, "executor": {"type": "builtin", "name": "echo"}}),
    ];
    for tool in tools {
        node.register(tool).await;
    }
    for name in ["mail.send", "echo", "ask"] {
        let call = json!({"name": name, "arguments": {"to": "a@example.com"}, "session": "s-1"});
        let answer = node.post("/tool-calls", &call).await;
        assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
    }
    node
}

/// Runs the selected tests, with a key if given, and fails if Schemathesis finds errors.
async fn is_as_described(service: &Client, key: Option<(String, String)>, chosen: &[&str]) {
    let clients = project_file("tests/clients");
    let program = clients.join("python/.venv/bin/python");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&program);
    command.args(["-m", "schemathesis.cli", "--config-file"]).arg(clients.join("schemathesis/schemathesis.toml"));
    command.args(["run", &service.url("/openapi.json"), "--no-color"]);
    if is_long() {
        command.args(["--max-examples", "100"]);
    }
    command.args(chosen);
    if let Some((key, id)) = key {
        command.args(["--header", &format!("Authorization: Bearer {key}")]).env("TOOLPOST_TEST_KEY_ID", id);
        command.env("TOOLPOST_TEST_KEY", key);
    }
    command.env("SCHEMATHESIS_HOOKS", clients.join("schemathesis/hooks.py"));
    command.current_dir(folder.path()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONIOENCODING", "utf-8");
    command.kill_on_drop(true);
    let output = tokio::time::timeout(RUN_TIMEOUT, command.output()).await.expect("it ends");
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{} cannot be started ({error}); {HINT}", program.display()));
    let (text, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && text.contains(" passed"), "{status}\n{text}\n{error}\n{HINT}");
    assert!(!text.contains("Authentication failed"), "the key was not taken\n{text}");
}

async fn with_a_key(part: &str) {
    let node = service().await;
    let key = node.key(json!({"scopes": ["admin"]})).await;
    is_as_described(&node, Some(key), &["--include-path-regex", part]).await;
}

macro_rules! parts {
    ($($name:ident: $part:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "surfaces"]
        async fn $name() {
            with_a_key($part).await;
        }
    )+};
}

parts! {
    calls_are_taken_and_refused_as_described: CALLS;
    one_call_is_as_described: ONE_CALL;
    tools_are_as_described: TOOLS;
    groups_and_sessions_are_as_described: GROUPS_AND_SESSIONS;
    what_operators_register_is_as_described: OPERATORS;
    everything_else_is_as_described: OTHERS;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn service_without_keys_matches_the_description() {
    let node = service().await;
    // The first key would enable authentication. The other tests try sequences of requests.
    let chosen =
        ["--exclude-operation-id", "create_key", "--phases", "examples,coverage,fuzzing", "--max-examples", "10"];
    is_as_described(&node, None, &chosen).await;
    assert_eq!(node.get("/tools").await.status, 200, "nobody has closed it");
}

/// Fails if a new route belongs to no part.
#[tokio::test(flavor = "multi_thread")]
async fn every_path_belongs_to_one_part() {
    let document: Value = toolpost::http::openapi();
    let parts: Vec<regex::Regex> = PARTS.iter().map(|part| regex::Regex::new(part).unwrap()).collect();
    for path in document["paths"].as_object().unwrap().keys() {
        let found = parts.iter().filter(|part| part.is_match(path)).count();
        assert_eq!(found, 1, "{path} belongs to {found} parts of tests/it/schemathesis.rs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn served_document_states_whether_keys_are_required() {
    let node = service().await;
    let security = |document: &Value| document["paths"]["/tools"]["get"]["security"].clone();
    assert_eq!(security(&node.get("/openapi.json").await.ok()), json!([]));
    node.key(json!({"scopes": ["admin"]})).await;
    // The document itself is public.
    assert_eq!(security(&node.get("/openapi.json").await.ok())[0], json!({"api_key": ["call"]}));
}
