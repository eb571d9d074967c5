//! Errors of commands that talk to a running service: the exit code, and what is wrong.

use serde_json::json;
use tokio::net::TcpSocket;

use super::program::{Home, Program};
use crate::support::App;

const UNKNOWN: &str = "0197d3f0-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn problem_is_shown_with_its_detail_fields_and_request_id() {
    let app = App::on_sqlite().await;
    let (home, url) = (Home::new(), app.url(""));
    let ended = home.run(&["calls", "show", UNKNOWN, "--server", &url]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.starts_with("error: ") && ended.err.contains(UNKNOWN), "{ended:?}");
    let (_, request) = ended.err.split_once("HTTP 404 NOT_FOUND, request ").unwrap();
    assert_eq!(request.trim().len(), UNKNOWN.len(), "{ended:?}");
    let file = Home::new();
    let wrong = file
        .file("wrong.json", r#"{"name": "a b", "input_schema": {"type": "array"}, "executor": {"type": "external"}}"#);
    let ended = home.run(&["tools", "add", &wrong, "--server", &url]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for part in ["wrong.json: a b: ", "\n  /name", "\n  /input_schema", "\n  HTTP 422 ", ", request "] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_or_missing_key_is_named_but_not_shown() {
    let app = App::on_sqlite().await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let (home, url) = (Home::new(), app.url(""));
    for words in [&["tools", "list"][..], &["call", "echo"], &["watch", "--limit", "1"], &["calls", "watch", UNKNOWN]] {
        for key in [&["--key", "tp_wrong_secret"][..], &[]] {
            let ended = home.run(&[words, key, &["--server", url.as_str()]].concat());
            assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
            assert!(ended.err.contains("HTTP 401 ") && ended.err.contains("--key or TOOLPOST_KEY"), "{ended:?}");
            assert!(!ended.err.contains("tp_wrong_secret"), "{ended:?}");
        }
    }
    let (limited, _) = app.with_key(&admin).key(json!({"scopes": ["read"]})).await;
    let ended = home.run(&["call", "echo", "--server", &url, "--key", &limited]);
    assert_eq!((ended.code, ended.err.contains("HTTP 403 SCOPE_MISSING")), (Some(2), true), "{ended:?}");
    let strange = home.run(&["tools", "list", "--server", &url, "--key", "tp_a\nb"]);
    assert_eq!((strange.code, strange.err.contains("tp_a")), (Some(2), false), "{strange:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_service_is_exit_code_3() {
    let home = Home::new();
    // A bound port that never listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let url = format!("http://ada:secret@{address}/toolpost");
    for words in [&["stats"][..], &["call", "echo"], &["watch"], &["calls", "watch", UNKNOWN]] {
        let ended = home.run(&[words, &["--server", url.as_str()]].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
        assert!(ended.err.contains(&format!("cannot reach http://{address}/toolpost: ")), "{ended:?}");
        assert!(ended.err.contains("TOOLPOST_SERVER") && !ended.err.contains("secret"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_server_is_an_error() {
    let app = App::on_sqlite().await;
    let home = Home::new();
    let wrong = app.url("/wrong");
    for words in [&["tools", "list"][..], &["sessions", "list"], &["watch"], &["calls", "list"]] {
        let ended = home.run(&[words, &["--server", wrong.as_str()]].concat());
        assert_eq!((ended.code, ended.err.contains("HTTP 404")), (Some(2), true), "{ended:?}");
    }
}

#[test]
fn missing_service_has_a_hint() {
    let home = Home::new();
    for words in [
        &["tools", "add", "x.json"][..],
        &["tools", "remove", "x"],
        &["tools", "try", "x"],
        &["calls", "list"],
        &["calls", "show", UNKNOWN],
        &["calls", "watch", UNKNOWN],
        &["calls", "cancel", UNKNOWN],
        &["calls", "rerun", UNKNOWN],
        &["sessions", "list"],
        &["sessions", "abort", "x"],
        &["watch"],
    ] {
        let ended = home.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
        assert!(ended.err.contains("--server URL or TOOLPOST_SERVER"), "{words:?}: {ended:?}");
    }
    assert!(home.is_empty(), "no database was made");
    for wrong in ["localhost:8080", "ftp://h", "http://h?token=secret"] {
        let ended = home.run(&["stats", "--server", wrong]);
        assert_eq!((ended.code, ended.err.contains("secret")), (Some(2), false), "{ended:?}");
        assert!(ended.err.contains("http://127.0.0.1:8080"), "{ended:?}");
    }
    let tenant = home.run(&["stats", "--tenant", "other", "--server", "http://127.0.0.1:1"]);
    assert_eq!((tenant.code, tenant.err.contains("--key")), (Some(2), true), "{tenant:?}");
}

#[test]
fn secrets_of_the_environment_are_not_in_the_help() {
    let home = Home::new();
    let mut command = home.command(&["call", "--help"]);
    let ended = Program::start(command.env("TOOLPOST_KEY", "tp_secret").env("TOOLPOST_SERVER", "http://secret")).end();
    assert!(ended.out.contains("TOOLPOST_KEY") && !ended.out.contains("secret"), "{ended:?}");
}
