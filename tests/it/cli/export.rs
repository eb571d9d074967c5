//! `toolpost export`: the history as one ToolCall per line.

use serde_json::{Value, json};

use super::program::{Home, Program};
use crate::support::Client;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn calls_are_exported_oldest_first_in_the_form_of_the_api() {
    let home = Home::new();
    let calls: Vec<Value> =
        (0..3).map(|n| home.run(&["call", "echo", &json!({"n": n}).to_string(), "--json"]).json()).collect();
    let ended = home.run(&["export"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(lines(&ended.out), calls);
    let none = home.run(&["export", "--name", "wait"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");
    let later = home.run(&["export", "--since", "2100-01-01"]);
    assert_eq!((later.code, later.out.as_str()), (Some(0), ""), "{later:?}");
}

#[test]
fn exported_file_appears_when_complete_next_to_a_running_service() {
    let home = Home::new();
    home.run(&["call", "echo"]);
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    service.out("toolpost listening on ");
    let ended = home.run(&["export", "--out", "calls.ndjson"]);
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "", "1 calls\n"), "{ended:?}");
    let written = std::fs::read_to_string(home.path().join("calls.ndjson")).unwrap();
    assert_eq!(lines(&written)[0]["name"], "echo");
    assert!(!home.path().join("calls.ndjson.part").exists());
    service.signal("TERM");
    assert_eq!(service.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_each_tenant_are_exported_separately() {
    let home = Home::new();
    let made = home.run(&["keys", "create", "--scope", "call", "--tenant", "one"]);
    let key = made.out.lines().last().unwrap();
    home.run(&["call", "echo"]);
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    let open = Client::new(service.out("toolpost listening on ").trim_start_matches("toolpost listening on "));
    let call = open.with_key(key).call("echo", json!({"of": "one"})).await;
    let of = |words: &[&str]| {
        let ended = home.run(&[&["export"][..], words].concat());
        lines(&ended.out).into_iter().map(|call| call["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&["--tenant", "one"]), [call["id"].clone()]);
    assert_eq!(of(&[]).len(), 1);
    assert_ne!(of(&[]), of(&["--tenant", "one"]));
    assert_eq!(of(&["--tenant", "two"]), Vec::<Value>::new());
    service.signal("TERM");
    assert_eq!(service.end().code, Some(0));
}

#[test]
fn export_rejects_invalid_arguments_immediately() {
    let home = Home::new();
    let ended = home.run(&["export", "--out", "no/such/folder.ndjson"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("cannot write"), "{ended:?}");
    let ended = home.run(&["export", "--since", "yesterday"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("RFC 3339"), "{ended:?}");
}
