//! The guarantee of 202: an accepted call survives `kill -9` and ends.

use serde_json::{Value, json};

use crate::support::calls::{assert_counts, gated, id_of, idempotent};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, App, Backend, Client, HttpTool, Node, eventually};

const UNKNOWN: &str = "Error: The outcome of tool \"job\" is unknown";

/// Returns the call's statuses, and checks that its history has exactly one beginning and one end.
async fn history(client: &Client, id: &str) -> Vec<String> {
    let events = client.events(&format!("/tool-calls/{id}/events")).await.rest().await;
    assert_eq!((count(&events, "tool_call"), count(&events, "tool_result")), (1, 1), "{events:#?}");
    statuses(&events).into_iter().map(str::to_owned).collect()
}

async fn node(backend: Backend, more: Value) -> (Node, HttpTool) {
    let (node, server) = (Node::start(backend, &[]).await, gated("done").await);
    node.tool("job", &server, more).await;
    (node, server)
}

/// Kills the node, lets the tool's server answer, and starts the node again.
async fn crash(node: &mut Node, server: &HttpTool) {
    node.kill().await;
    server.open();
    node.start_again().await;
}

on_both_databases!(
    async fn waiting_call_runs_after_a_crash(backend: Backend) {
        let limits = json!({"max_concurrency": 1});
        let (mut node, server) = node(backend, json!({"async": true, "limits": limits})).await;
        let running = node.accepted(json!({"name": "job"})).await;
        server.received(1).await;
        let body = json!({"name": "job", "arguments": {"text": "\u{0}😀"}, "id": "mine", "session": "s"});
        let waiting = node.accepted(body).await;
        let before = node.stored(&waiting).await;
        assert_eq!((&before["status"], &before["phase"]), (&json!("WAIT"), &json!("queued")));
        crash(&mut node, &server).await;
        let call = node.ended(&waiting).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(1)));
        for field in ["id", "call_id", "session", "arguments", "effective_arguments", "created_at", "limits"] {
            assert_eq!(call[field], before[field], "{field}");
        }
        assert_eq!(server.requests()[1].json()["arguments"], json!({"text": "\u{0}😀"}));
        assert!(failed(&node.ended(&running).await, "OUTCOME_UNKNOWN").starts_with(UNKNOWN));
        assert_eq!(history(&node, &waiting).await, ["WAIT", "DOING", "SUCCESS"]);
        assert_eq!(history(&node, &running).await, ["WAIT", "DOING", "ERROR"]);
        assert_eq!(server.requests().len(), 2);
        let expected = json!({"execution_count": 2, "success_count": 1, "failure_count": 1, "rejected_count": 0,
            "failures_by_code": {"OUTCOME_UNKNOWN": 1}, "retry_count": 0});
        assert_counts(&node.stats("job").await, expected);
    }
);

on_both_databases!(
    async fn repeatable_call_runs_again_after_a_crash(backend: Backend) {
        for (round, annotations) in [idempotent(), json!({"read_only": true})].into_iter().enumerate() {
            let (mut node, server) = node(backend, json!({"async": true, "annotations": annotations})).await;
            let id = node.accepted(json!({"name": "job", "arguments": {"round": round}})).await;
            server.received(1).await;
            node.in_phase(&id, "running").await;
            crash(&mut node, &server).await;
            let call = node.ended(&id).await;
            assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(2)));
            let requests = server.requests();
            assert_eq!((requests.len(), &requests[1].json()["attempt"]), (2, &json!(2)));
            assert_eq!(requests[0].header("idempotency-key"), requests[1].header("idempotency-key"));
            let expected = json!({"execution_count": 1, "success_count": 1, "failure_count": 0, "retry_count": 1});
            assert_counts(&node.stats("job").await, expected);
            assert_eq!(history(&node, &id).await, ["WAIT", "DOING", "SUCCESS"]);
        }
    }
);

on_both_databases!(
    async fn lost_read_only_call_counts_both_runs(backend: Backend) {
        for (wait, key) in [("accepted", "one"), ("result", "two")] {
            let (mut node, server) = node(backend, json!({"annotations": {"read_only": true}})).await;
            let client = (*node).clone();
            let waiting = tokio::spawn(async move {
                let body = json!({"name": "job", "wait": wait});
                client.post_with("/tool-calls", &[("idempotency-key", key)], &body).await
            });
            server.received(1).await;
            let id = id_of(&server.request().json());
            crash(&mut node, &server).await;
            drop(waiting.await);
            let call = node.ended(&id).await;
            assert_eq!((succeeded(&call), &call["attempts"], server.requests().len()), ("done", &json!(2), 2));
            assert_eq!(node.stats("job").await["retry_count"], 1);
        }
    }
);

on_both_databases!(
    async fn whether_the_caller_waited_makes_no_difference(backend: Backend) {
        let (mut node, server) = node(backend, json!({})).await;
        let left = node.accepted(json!({"name": "job", "wait": 1})).await;
        let waiting = node.posted(json!({"name": "job", "id": "waits"}));
        server.received(2).await;
        let page = node.all_calls().await;
        let waited = id_of(page.iter().find(|call| call["call_id"] == "waits").unwrap());
        crash(&mut node, &server).await;
        // The service's crash broke the caller's connection.
        assert!(waiting.await.is_err());
        for id in [left, waited] {
            let call = node.ended(&id).await;
            assert!(failed(&call, "OUTCOME_UNKNOWN").starts_with(UNKNOWN), "{call:#}");
            assert_eq!((&call["attempts"], &call["phase"]), (&json!(1), &json!("done")));
        }
        assert_eq!(server.requests().len(), 2);
    }
);

on_both_databases!(
    async fn end_survives_a_crash_unchanged(backend: Backend) {
        let (mut node, server) = node(backend, json!({"async": true})).await;
        server.open();
        let id = node.sent(json!({"name": "job"})).await;
        let (call, stats) = (node.ended(&id).await, node.stats("job").await);
        crash(&mut node, &server).await;
        assert_eq!((node.stored(&id).await, node.stats("job").await), (call, stats));
    }
);

on_both_databases!(
    async fn second_crash_is_one_more_attempt(backend: Backend) {
        let (mut node, server) = node(backend, json!({"async": true, "annotations": idempotent()})).await;
        let id = node.accepted(json!({"name": "job"})).await;
        for crashes in 1..=2 {
            server.received(crashes).await;
            eventually("the attempt to be recorded", || async {
                (node.stored(&id).await["attempts"] == crashes).then_some(())
            })
            .await;
            node.kill().await;
            if crashes == 2 {
                server.open();
            }
            node.start_again().await;
        }
        let call = node.ended(&id).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(3)));
        assert_eq!(node.stats("job").await["retry_count"], 2);
    }
);

on_both_databases!(
    async fn batch_continues_after_a_crash_despite_priorities(backend: Backend) {
        let limits = json!({"max_concurrency": 1});
        let (mut node, server) = node(backend, json!({"limits": limits})).await;
        let calls: Vec<Value> = (0..4).map(|n| json!({"name": "job", "arguments": {"n": n}, "priority": n})).collect();
        let body = json!({"calls": calls, "mode": "serial", "wait": "accepted"});
        let answer = node.post("/tool-calls", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        server.received(1).await;
        crash(&mut node, &server).await;
        let ids: Vec<String> = answer.json["results"].as_array().unwrap().iter().map(id_of).collect();
        failed(&node.ended(&ids[0]).await, "OUTCOME_UNKNOWN");
        for id in &ids[1..] {
            assert_eq!(succeeded(&node.ended(id).await), "done");
        }
        let order: Vec<Value> =
            server.requests().iter().map(|request| request.json()["arguments"]["n"].clone()).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    }
);

on_both_databases!(
    async fn many_waiting_calls_run_once_after_a_crash(backend: Backend) {
        let (mut node, server) = node(backend, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
        let mut ids = Vec::new();
        for n in 0..300 {
            ids.push(node.accepted(json!({"name": "job", "arguments": {"n": n}})).await);
        }
        server.received(1).await;
        crash(&mut node, &server).await;
        failed(&node.ended(&ids[0]).await, "OUTCOME_UNKNOWN");
        for id in &ids[1..] {
            assert_eq!(succeeded(&node.ended(id).await), "done");
        }
        let order: Vec<u64> =
            server.requests().iter().map(|request| request.json()["arguments"]["n"].as_u64().unwrap()).collect();
        assert_eq!(order, (0..300).collect::<Vec<_>>(), "in the order in which they came, and none twice");
        let expected = json!({"execution_count": 300, "success_count": 299, "failure_count": 1});
        assert_counts(&node.stats("job").await, expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_node_sees_to_the_calls_of_a_lost_one() {
    requires_postgres!();
    let (mut node, server) = node(Backend::Postgres, json!({"async": true})).await;
    let other = node.second().await;
    node.tool("again", &server, json!({"async": true, "annotations": idempotent()})).await;
    let lost = node.accepted(json!({"name": "job"})).await;
    let repeated = node.accepted(json!({"name": "again"})).await;
    server.received(2).await;
    node.kill().await;
    server.open();
    assert!(failed(&other.ended(&lost).await, "OUTCOME_UNKNOWN").starts_with(UNKNOWN));
    let call = other.ended(&repeated).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(2)));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn starting_node_leaves_calls_of_live_nodes_alone() {
    requires_postgres!();
    let (app, server) = (App::with_egress(Backend::Postgres).await, gated("done").await);
    app.tool("job", &server, json!({"async": true})).await;
    let id = app.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    let other = app.second().await;
    // Meanwhile the other node runs other calls.
    other.call("echo", json!({})).await;
    server.open();
    assert_eq!(succeeded(&app.ended(&id).await), "done");
    assert_eq!(server.requests().len(), 1);
}

/// Submits a detached serial batch, and waits until its first call runs.
async fn serial(node: &Node, server: &HttpTool, calls: Value) -> Vec<String> {
    let body = json!({"calls": calls, "mode": "serial", "wait": "accepted"});
    let answer = node.post("/tool-calls", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    server.received(1).await;
    answer.json["results"].as_array().unwrap().iter().map(id_of).collect()
}

on_both_databases!(
    async fn batch_calls_sharing_one_slot_end_after_a_crash(backend: Backend) {
        let (mut node, server) = node(backend, json!({"limits": {"max_concurrency": 1}})).await;
        let calls = json!([{"name": "job"}, {"name": "job"}, {"name": "job", "priority": 9}]);
        let ids = serial(&node, &server, calls).await;
        crash(&mut node, &server).await;
        failed(&node.ended(&ids[0]).await, "OUTCOME_UNKNOWN");
        for id in &ids[1..] {
            assert_eq!(succeeded(&node.ended(id).await), "done");
        }
    }
);

on_both_databases!(
    async fn batch_keeps_its_order_when_its_running_call_is_repeated(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        // Call `a` gets no answer in the first run of the service. Otherwise the server answers once it is opened.
        let server = HttpTool::start("127.0.0.1", |request| match request.json()["call_id"] == "a" {
            true if request.json()["attempt"] == 1 => Answer::Never,
            _ => Answer::AfterGate(Box::new(Answer::text("done"))),
        })
        .await;
        node.tool("job", &server, json!({"annotations": idempotent()})).await;
        let calls = json!([{"name": "job", "id": "a"}, {"name": "job", "id": "b"}, {"name": "job", "id": "c"}]);
        let ids = serial(&node, &server, calls).await;
        node.kill().await;
        server.closed().await;
        node.start_again().await;
        server.received(2).await;
        for id in &ids[1..] {
            assert_eq!(node.stored(id).await["status"], "WAIT");
        }
        server.open();
        for id in &ids {
            assert_eq!(succeeded(&node.ended(id).await), "done");
        }
        let order: Vec<Value> = server.requests().iter().map(|request| request.json()["call_id"].clone()).collect();
        assert_eq!(order, ["a", "a", "b", "c"]);
    }
);
