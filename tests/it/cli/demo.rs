//! `toolpost demo`: tools and calls to look at.

use std::collections::BTreeSet;

use serde_json::Value;

use super::program::{Home, Program};
use crate::support::{Client, eventually};

/// Returns a response of the demo, which a busy machine may refuse for a while.
async fn read(client: &Client, path: &str) -> Value {
    eventually("a response", async || Some(client.get(path).await).filter(|answer| answer.status == 200)).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_makes_calls_of_its_tools_and_leaves_nothing_behind() {
    let home = Home::new();
    let mut demo = Program::start(&mut home.command(&["demo", "--listen", "127.0.0.1:0", "--rate", "50"]));
    let client = Client::new(demo.out("toolpost listening on ").trim_start_matches("toolpost listening on "));
    let ended: BTreeSet<String> = eventually("calls of each tool", async || {
        let calls = read(&client, "/tool-calls?limit=200").await;
        let names: BTreeSet<String> = calls["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| call["name"].as_str().unwrap().to_owned())
            .collect();
        (names.len() >= 8).then_some(names)
    })
    .await;
    assert!(ended.contains("sales_report") && ended.contains("refund_payment"), "{ended:?}");
    eventually("a call with invalid arguments", async || {
        let failed = read(&client, "/tool-calls?status=ERROR&limit=200").await;
        let mut codes = failed["tool_calls"].as_array().unwrap().iter().map(|call| &call["error"]["code"]);
        codes.any(|code| code == "TOOL_VALIDATION_ERROR").then_some(())
    })
    .await;
    let reasons: BTreeSet<String> = eventually("approvals that the tool and the policy require", async || {
        let pending = read(&client, "/approvals").await;
        let waiting = pending["approvals"].as_array().unwrap().iter();
        let reasons: BTreeSet<String> =
            waiting.map(|call| call["approval"]["required_by"].as_str().unwrap().to_owned()).collect();
        (reasons.len() == 2).then_some(reasons)
    })
    .await;
    assert!(reasons.contains("tool") && reasons.contains("policy"), "{reasons:?}");
    let policies = read(&client, "/policies").await;
    assert_eq!(policies["total"], 2, "{policies}");
    demo.signal("TERM");
    assert_eq!(demo.end().code, Some(0));
    assert!(home.is_empty(), "the demo keeps its data in memory");
}

#[test]
fn demo_is_local_only() {
    let ended = Home::new().run(&["demo", "--listen", "0.0.0.0:0"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("reachable from other machines"), "{ended:?}");
}
