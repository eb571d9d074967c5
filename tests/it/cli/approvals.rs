//! `toolpost approvals` next to a running service.

use serde_json::json;

use super::program::{Home, Program};
use crate::support::Client;
use crate::support::calls::id_of;
use crate::support::shapes::{failed, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn person_decides_about_calls_of_a_running_service() {
    let home = Home::new();
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    let line = service.out("toolpost listening on ");
    let client = Client::new(line.trim_start_matches("toolpost listening on ").trim());
    let tool = json!({"name": "pay", "description": "", "input_schema": {"type": "object"}, "approval": {},
        "executor": {"type": "builtin", "name": "echo"}});
    assert_eq!(client.post("/tools", &tool).await.status, 201);
    let mut calls = Vec::new();
    for amount in [5, 90] {
        let body = json!({"name": "pay", "arguments": {"amount": amount}});
        calls.push(client.post("/tool-calls", &body).await.json);
    }
    let (first, second) = (id_of(&calls[0]), id_of(&calls[1]));
    let digest = calls[0]["approval"]["digest"].as_str().unwrap();
    let listed = home.run(&["approvals", "list"]);
    assert!(listed.out.contains(&first) && listed.out.contains(&digest[7..19]), "{listed:?}");
    assert_eq!(home.run(&["approvals", "list", "--json"]).json().as_array().unwrap().len(), 2);
    let shown = home.run(&["approvals", "show", &first]);
    assert!(shown.out.contains(digest) && shown.out.contains("\"amount\": 5"), "{shown:?}");
    let stale = home.run(&["approvals", "approve", &first, "--digest", "00000000"]);
    assert_eq!((stale.code, stale.err.contains("digest")), (Some(2), true), "{stale:?}");
    let approve = ["approvals", "approve", &first, "--digest", &digest[7..19], "--arguments", r#"{"amount": 4}"#];
    let approved = home.run(&approve);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.err.contains("- /amount: 5\n+ /amount: 4"), "{approved:?}");
    assert_eq!(succeeded(&client.ended(&first).await), r#"{"amount":4}"#);
    let digest = calls[1]["approval"]["digest"].as_str().unwrap();
    let rejected = home.run(&["approvals", "reject", &second, "--digest", digest, "--reason", "too much"]);
    assert_eq!(rejected.code, Some(0), "{rejected:?}");
    assert!(failed(&client.ended(&second).await, "APPROVAL_DENIED").ends_with("too much"));
    let unknown = home.run(&["approvals", "show", "0197d3f0-0000-7000-8000-000000000000"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    service.signal("TERM");
    service.end();
}
