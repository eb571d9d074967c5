//! `toolpost mcp` as a process: it writes one message per line and nothing else, and exits with its client.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::ended;
use crate::support::{App, Backend, Database, Options, bounded, eventually};

/// A running process with its standard input and output.
struct Program<'a> {
    child: Child,
    /// The files of a database go with it, so it must outlive the process.
    _database: &'a Database,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl<'a> Program<'a> {
    fn start(database: &'a Database, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        command.args(["mcp", "--database-url", &database.url]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child, _database: database }
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Returns the next line; every line is a message.
    async fn hear(&mut self) -> Value {
        let line = bounded("a message", self.output.next_line()).await.unwrap().expect("one more message");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    async fn begin(&mut self) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        assert_eq!(self.hear().await["result"]["serverInfo"]["name"], "toolpost");
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    /// Disconnects the client. Returns whether the program exited successfully, and its remaining messages.
    async fn end(mut self) -> (bool, Vec<Value>) {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Some(line) = bounded("the end", self.output.next_line()).await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (bounded("the end", self.child.wait()).await.unwrap().success(), rest)
    }
}

fn call(id: u8, arguments: &Value, meta: &Value) -> Value {
    let params = json!({"name": "wait", "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_precedes_the_result_one_message_a_line() {
    let database = Database::fresh(Backend::Sqlite).await;
    let mut program = Program::start(&database, &[]);
    program.begin().await;
    program.say(&call(1, &json!({"ms": 100, "steps": 4}), &json!({"progressToken": "p"}))).await;
    let mut steps = Vec::new();
    let result = loop {
        let message = program.hear().await;
        match message["params"]["progress"].as_f64() {
            Some(step) => steps.push(step),
            None => break message["result"].clone(),
        }
    };
    assert_eq!(result["content"][0]["text"], "Waited 100 ms");
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]) && steps.last() == Some(&4.0), "{steps:?}");
    let (ended_well, rest) = program.end().await;
    assert!(ended_well && rest.is_empty(), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_before_the_end_of_input_are_answered() {
    let database = Database::fresh(Backend::Sqlite).await;
    let mut program = Program::start(&database, &[]);
    program.begin().await;
    program.say(&call(1, &json!({"ms": 100}), &json!({}))).await;
    let (ended_well, rest) = program.end().await;
    assert!(ended_well && rest[0]["result"]["content"][0]["text"] == "Waited 100 ms", "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_call_is_cancelled_at_the_end_of_input() {
    let database = Database::fresh(Backend::Sqlite).await;
    let app = App::start_at(database.url.clone(), Options::default()).await;
    let mut program = Program::start(&database, &[]);
    program.begin().await;
    program.say(&call(1, &json!({"ms": 60_000}), &json!({}))).await;
    eventually("a running call", || async {
        let calls = app.get("/tool-calls?name=wait&status=DOING").await.ok();
        calls["tool_calls"].get(0).is_some().then_some(())
    })
    .await;
    let (ended_well, _) = program.end().await;
    assert!(ended_well);
    assert_eq!(ended(&app, "wait").await["error"]["code"], "CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_folder_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let tool = json!({"name": "of.folder", "description": "Of a folder.", "input_schema": {"type": "object"},
        "executor": {"type": "builtin", "name": "echo"}});
    std::fs::write(folder.path().join("tool.json"), tool.to_string()).unwrap();
    let tools = folder.path().display().to_string();
    let database = Database::fresh(Backend::Sqlite).await;
    let mut program = Program::start(&database, &["--tools", &tools]);
    program.begin().await;
    program.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let listed = program.hear().await["result"]["tools"].clone();
    assert!(listed.as_array().unwrap().iter().any(|tool| tool["name"] == "of__folder"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_equal_ids_get_their_own_answers() {
    let database = Database::fresh(Backend::Sqlite).await;
    let mut program = Program::start(&database, &[]);
    program.begin().await;
    for number in [1, 2, 3] {
        let params = json!({"name": "wait", "arguments": {"ms": number * 20}});
        program.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    }
    let mut texts = Vec::new();
    for _ in 0..3 {
        let answer = program.hear().await;
        assert_eq!(answer["id"], 1, "{answer}");
        texts.push(answer["result"]["content"][0]["text"].as_str().unwrap().to_owned());
    }
    texts.sort();
    assert_eq!(texts, ["Waited 20 ms", "Waited 40 ms", "Waited 60 ms"]);
    assert_eq!(program.end().await, (true, Vec::new()));
}
