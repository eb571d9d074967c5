//! `toolpost keys`, and the start of the program with and without keys.

use serde_json::json;

use crate::cli::program::{Home, Program};
use crate::support::{Client, eventually};

/// Runs a command and returns the last line of its output.
fn key_of(home: &Home, words: &[&str]) -> String {
    let ended = home.run(words);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out.lines().last().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_managed_next_to_a_running_service() {
    let home = Home::new();
    let mut service = Program::start(home.command(&["serve"]).env("TOOLPOST_LISTEN", "127.0.0.1:0"));
    let open = Client::new(service.out("toolpost listening on ").trim_start_matches("toolpost listening on "));
    assert_eq!(open.get("/tools").await.status, 200);
    let words =
        ["keys", "create", "--scope", "call", "--scope", "read", "--tool", "echo", "--expires", "30d", "--name", "bot"];
    let key = key_of(&home, &words);
    assert!(key.starts_with("tp_"), "{key}");
    eventually("the service to be closed", || async { (open.get("/tools").await.status == 401).then_some(()) }).await;
    let keyed = open.with_key(&key);
    assert_eq!(keyed.call("echo", json!({})).await["status"], "SUCCESS");
    let listed = home.run(&["keys", "list", "--json"]).json();
    let shown = &listed[0];
    assert_eq!(
        (&shown["name"], &shown["tools"], &shown["scopes"]),
        (&json!("bot"), &json!(["echo"]), &json!(["call", "read"]))
    );
    let table = home.run(&["keys", "list"]);
    assert!(table.out.contains("call read") && table.out.contains("until ") && !table.out.contains(&key), "{table:?}");
    let id = shown["id"].as_str().unwrap();
    assert_eq!(home.run(&["keys", "revoke", id]).code, Some(0));
    eventually("the key to be of no use", || async { (keyed.get("/tools").await.status == 401).then_some(()) }).await;
    assert!(home.run(&["keys", "list"]).out.contains("revoked"));
    assert_eq!(home.run(&["keys", "revoke", "0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f"]).code, Some(2));
    service.signal("TERM");
    let ended = service.end();
    assert!(ended.err.contains("no API keys"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_with_a_key_is_reachable_and_requires_it() {
    let home = Home::new();
    let key = key_of(&home, &["keys", "create", "--scope", "admin", "--tenant", "one"]);
    let start = |words: &[&str]| {
        let mut program = Program::start(&mut home.command(words));
        let port = program.out("toolpost listening on http://0.0.0.0:").rsplit(':').next().unwrap().to_owned();
        (program, Client::new(&format!("http://127.0.0.1:{port}")))
    };
    let (closed, client) = start(&["serve", "--listen", "0.0.0.0:0"]);
    client.get("/tools").await.problem(401);
    assert_eq!(client.with_key(&key).get("/keys").await.ok()["keys"][0]["tenant"], "one");
    closed.signal("TERM");
    let ended = closed.end();
    assert!(ended.code == Some(0) && ended.err.contains("authentication required"), "{ended:?}");
    let (open, client) = start(&["serve", "--listen", "0.0.0.0:0", "--insecure-no-auth"]);
    assert_eq!(client.get("/tools").await.status, 200);
    open.signal("TERM");
    assert!(open.end().err.contains("authentication is disabled"), "it says so");
}

#[test]
fn invalid_key_arguments_are_wrong_usage() {
    let home = Home::new();
    for words in [
        &["keys", "create"][..],
        &["keys", "create", "--scope", "fly"],
        &["keys", "create", "--scope", "call", "--expires", "soon"],
        &["keys", "create", "--scope", "call", "--tool", "["],
        &["keys", "create", "--scope", "call", "--tenant", ""],
        &["keys", "revoke", "nothing"],
    ] {
        let ended = home.run(words);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
    }
}
