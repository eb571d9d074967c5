//! Commands that talk to a running service: `--server`, `--key` and their variables.

use serde_json::{Value, json};

use super::program::{Home, Program, ProgramOutput};
use crate::gateway::Nginx;
use crate::support::calls::id_of;
use crate::support::shapes::succeeded;
use crate::support::{App, Client};

/// A service, and a command line that talks to it.
struct Remote {
    app: App,
    home: Home,
    url: String,
}

impl Remote {
    async fn start() -> Self {
        let app = App::on_sqlite().await;
        let url = app.url("");
        Self { app, home: Home::new(), url }
    }

    /// Runs a command to its end.
    fn run(&self, words: &[&str]) -> ProgramOutput {
        self.home.run(&[words, &["--server", self.url.as_str()]].concat())
    }

    /// Runs a command that must succeed.
    fn good(&self, words: &[&str]) -> ProgramOutput {
        let ended = self.run(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended
    }
}

/// Registers a tool whose calls run until a result is posted.
async fn ask_tool(client: &Client) {
    client.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_call_prints_the_same_output_as_a_local_one() {
    let remote = Remote::start().await;
    let ended = remote.good(&["call", "wait", r#"{"ms": "1", "steps": 2}"#]);
    assert_eq!(ended.out, "Waited 1 ms\n", "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines[..2], ["coerced /ms: string → integer", "WAIT"], "{ended:?}");
    assert!(lines[lines.len() - 1].starts_with("SUCCESS in "), "{ended:?}");
    let failed = remote.run(&["call", "wait", r#"{"ms": "soon"}"#]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.out.starts_with("Error: Invalid parameters for tool \"wait\"\n- /ms"), "{failed:?}");
    assert!(failed.err.ends_with("ERROR TOOL_VALIDATION_ERROR, not run\n"), "{failed:?}");
    let json = remote.good(&["call", "calculate", r#"{"expression": "6 * 7"}"#, "--json"]);
    assert_eq!((&json.json()["output"], json.out.lines().count(), json.err.as_str()), (&json!("42"), 1, ""));
    let late = remote.run(&["call", "wait", r#"{"ms": 60000}"#, "--timeout-ms", "1", "--json"]);
    assert_eq!((late.code, &late.json()["error"]["code"]), (Some(1), &json!("TOOL_TIMEOUT")));
    let input = remote.home.run_with_input(&["call", "echo", "-", "--server", &remote.url], "{\"a\": \"北\"}\n");
    assert_eq!(input.out, "{\"a\":\"北\"}\n", "{input:?}");
    assert!(remote.home.is_empty(), "no database was made");
    assert_eq!(remote.app.stats("wait").await["execution_count"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_name_the_service_and_the_key_and_flags_take_precedence() {
    let app = App::on_sqlite().await;
    let (key, _) = app.key(json!({"scopes": ["call"]})).await;
    let home = Home::new();
    let mut command = home.command(&["call", "echo"]);
    let ended = Program::start(command.env("TOOLPOST_SERVER", app.url("")).env("TOOLPOST_KEY", &key)).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "{}\n"), "{ended:?}");
    let url = app.url("");
    let mut command = home.command(&["call", "echo", "--server", &url, "--key", &key]);
    let ended =
        Program::start(command.env("TOOLPOST_SERVER", "http://127.0.0.1:1").env("TOOLPOST_KEY", "tp_other")).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(home.is_empty(), "no database was made");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn service_behind_a_path_prefix_is_reached() {
    let app = App::on_sqlite().await;
    let nginx = Nginx::before(&app).await;
    let (home, url) = (Home::new(), nginx.url());
    for url in [url.clone(), format!("{url}/")] {
        let ended = home.run(&["call", "wait", r#"{"ms": 1}"#, "--server", &url]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Waited 1 ms\n"), "{ended:?}");
        assert!(home.run(&["tools", "show", "echo", "--server", &url]).out.contains("builtin echo"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_call_is_cancelled_in_the_service() {
    let remote = Remote::start().await;
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let words = ["call", "wait", r#"{"ms": 300000}"#, "--server", &remote.url];
        let mut program = Program::start(&mut remote.home.command(&words));
        program.err("DOING");
        program.signal(signal);
        let ended = program.end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains("ERROR CANCELLED in "), "{ended:?}");
    }
    assert!(remote.app.all_calls().await.iter().all(|call| call["error"]["code"] == "CANCELLED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_added_listed_shown_tried_and_removed() {
    let remote = Remote::start().await;
    let text = r#"{"name": "shout", "description": "Says it loud.", "title": "Shout",
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "executor": {"type": "builtin", "name": "echo"}}"#;
    let files = Home::new();
    let (json, toml) = (
        files.file("a.json", text),
        files.file("b.toml", "name = \"t\"\n[executor]\ntype = \"builtin\"\nname = \"wait\"\n"),
    );
    let added = remote.good(&["tools", "add", &json, &toml]);
    assert!(added.out.starts_with("added shout, revision ") && added.out.contains("\nadded t, "), "{added:?}");
    let taken = remote.run(&["tools", "add", &json]);
    assert_eq!(taken.code, Some(2), "{taken:?}");
    assert!(taken.err.contains("a.json: shout: ") && taken.err.contains("HTTP 409 TOOL_EXISTS"), "{taken:?}");
    remote.good(&["tools", "add", "--replace", &json]);
    let list = remote.good(&["tools", "list"]);
    let line = list.out.lines().find(|line| line.starts_with("shout ")).unwrap();
    assert!(line.contains("api") && line.contains("builtin echo") && line.ends_with("Says it loud."), "{line}");
    assert_eq!(remote.good(&["tools", "list", "--json"]).json(), remote.app.get("/tools").await.ok());
    let vendor = remote.good(&["tools", "list", "--format", "openai"]).json();
    assert_eq!(vendor, remote.app.get("/tools?format=openai").await.ok());
    let shown = remote.good(&["tools", "show", "shout"]);
    assert!(shown.out.starts_with("Says it loud.\n") && shown.out.contains("source    api, revision "), "{shown:?}");
    assert_eq!(remote.good(&["tools", "show", "shout", "--json"]).json(), remote.app.get("/tools/shout").await.ok());
    let tried = remote.good(&["tools", "try", "shout", r#"{"n": "7"}"#]);
    assert_eq!(tried.out, "valid: {\"n\":7}\n  coerced /n: string → integer\n", "{tried:?}");
    let wrong = remote.run(&["tools", "try", "shout", r#"{"n": "x"}"#]);
    assert_eq!((wrong.code, wrong.out.starts_with("not valid\n  /n: ")), (Some(1), true), "{wrong:?}");
    assert_eq!(remote.run(&["tools", "try", "shout", "{", "--json"]).json()["valid"], false);
    let removed = remote.good(&["tools", "remove", "shout", "t"]);
    assert_eq!(removed.out, "removed shout\nremoved t\n");
    assert_eq!(remote.app.get("/tools/shout").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_listed_shown_repeated_and_cancelled() {
    let remote = Remote::start().await;
    ask_tool(&remote.app).await;
    let first = id_of(&remote.app.call_with(json!({"name": "echo", "arguments": {"a": 1}, "session": "s"})).await);
    remote.app.call("wait", json!({"ms": "soon"})).await;
    let list = remote.good(&["calls", "list"]);
    assert!(list.out.contains("ERROR TOOL_VALIDATION_ERROR") && list.out.contains(&first), "{list:?}");
    let of_session = remote.good(&["calls", "list", "--session", "s", "--status", "success", "--json"]).json();
    assert_eq!(of_session["tool_calls"].as_array().unwrap().len(), 1);
    let page = remote.good(&["calls", "list", "--limit", "1"]);
    assert!(page.err.starts_with("more calls: --cursor "), "{page:?}");
    let cursor = page.err.trim_start_matches("more calls: --cursor ").trim();
    assert!(remote.good(&["calls", "list", "--cursor", cursor]).out.contains(&first));
    let shown = remote.good(&["calls", "show", &first]);
    assert!(shown.out.contains("SUCCESS, done") && shown.out.ends_with("Output:\n{\"a\":1}\n"), "{shown:?}");
    assert_eq!(remote.good(&["calls", "show", &first, "--json"]).json(), remote.app.stored(&first).await);
    let new = remote.good(&["calls", "rerun", &first]).out.trim().to_owned();
    assert_eq!(remote.app.ended(&new).await["metadata"]["rerun_of"], first);
    let again = remote.good(&["calls", "rerun", &first, "--arguments", r#"{"a": 2}"#, "--watch"]);
    assert_eq!(again.out, "{\"a\":2}\n", "{again:?}");
    let waiting = remote.app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    assert_eq!(remote.good(&["calls", "cancel", &waiting]).out, format!("{waiting} ERROR\n"));
    let other = remote.app.accepted(json!({"name": "ask", "wait": "accepted", "session": "t"})).await;
    assert_eq!(remote.good(&["calls", "cancel", "--session", "t", "--name", "ask"]).out, "cancelled 1\n");
    assert_eq!(remote.app.ended(&other).await["error"]["code"], "CANCELLED");
    let nothing = remote.run(&["calls", "cancel"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_shown_aborted_and_removed() {
    let remote = Remote::start().await;
    ask_tool(&remote.app).await;
    let id = "chat 1/ä";
    let call = remote.app.accepted(json!({"name": "ask", "session": id, "wait": "accepted"})).await;
    assert!(remote.good(&["sessions", "list"]).out.contains(id));
    let shown = remote.good(&["sessions", "show", id]);
    assert!(shown.out.contains("1 pending") && shown.out.contains(&call), "{shown:?}");
    assert_eq!(remote.good(&["sessions", "abort", id]).out, format!("{id} ABORTED\n"));
    assert_eq!(remote.app.ended(&call).await["error"]["code"], "CANCELLED");
    let aborted = remote.good(&["sessions", "list", "--state", "aborted", "--json"]).json();
    assert_eq!(aborted["sessions"][0]["id"], id);
    assert_eq!(remote.good(&["sessions", "remove", id]).out, format!("removed {id}\n"));
    assert_eq!(remote.run(&["sessions", "show", id]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_are_those_of_the_service() {
    let remote = Remote::start().await;
    remote.app.call("echo", json!({})).await;
    let line = |out: &str| out.lines().find(|line| line.starts_with("echo ")).map(str::to_owned);
    let table = line(&remote.good(&["stats"]).out).unwrap();
    assert_eq!(table.split_whitespace().skip(2).take(2).collect::<Vec<_>>(), ["1", "1"], "{table}");
    assert!(remote.good(&["stats", "echo"]).out.contains("runs        1"));
    assert_eq!(remote.good(&["stats", "echo", "--json"]).json(), remote.app.stats("echo").await);
    assert_eq!(remote.run(&["stats", "unknown"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_are_decided_in_the_service() {
    let remote = Remote::start().await;
    let tool = json!({"name": "pay", "description": "", "input_schema": {"type": "object"}, "approval": {},
        "executor": {"type": "builtin", "name": "echo"}});
    remote.app.register(tool).await;
    let pending = |amount: u32| json!({"name": "pay", "arguments": {"amount": amount}});
    let first: Value = remote.app.post("/tool-calls", &pending(5)).await.json;
    let second: Value = remote.app.post("/tool-calls", &pending(90)).await.json;
    let (id, digest) = (id_of(&first), first["approval"]["digest"].as_str().unwrap());
    let listed = remote.good(&["approvals", "list"]);
    assert!(listed.out.contains(&id) && listed.out.contains(&digest[7..19]), "{listed:?}");
    assert_eq!(remote.good(&["approvals", "list", "--json"]).json().as_array().unwrap().len(), 2);
    assert!(remote.good(&["approvals", "show", &id]).out.contains(digest));
    let stale = remote.run(&["approvals", "approve", &id, "--digest", "00000000"]);
    assert_eq!((stale.code, stale.err.contains("APPROVAL_STALE")), (Some(2), true), "{stale:?}");
    let arguments = ["--arguments", r#"{"amount": 4}"#];
    let approved = remote.good(&["approvals", "approve", &id, "--digest", &digest[7..19], arguments[0], arguments[1]]);
    assert!(approved.err.contains("- /amount: 5\n+ /amount: 4"), "{approved:?}");
    assert_eq!(succeeded(&remote.app.ended(&id).await), r#"{"amount":4}"#);
    let digest = second["approval"]["digest"].as_str().unwrap();
    let rejected = remote.good(&["approvals", "reject", &id_of(&second), "--digest", digest, "--reason", "too much"]);
    assert!(rejected.out.contains("rejected"), "{rejected:?}");
    assert_eq!(remote.app.ended(&id_of(&second)).await["error"]["code"], "APPROVAL_DENIED");
}
