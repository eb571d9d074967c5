//! Workers and calls on different nodes of one PostgreSQL. These nodes do not poll, so a claim that ends was signalled.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{answer, brief_idempotent, called, claim, claim_one, finish, finish_in_time, heartbeat, post, tool};
use crate::nodes::pair;
use crate::oracle::Receipt;
use crate::support::calls::id_of;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Node, bounded, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn worker_gets_the_calls_of_every_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({"presets": {"key": {"value": "p"}}, "limits": {"timeout_ms": 60_000}})).await;
    eventually("the tool", async || (other.get("/tools/t").await.status == 200).then_some(())).await;
    for (caller, worker) in [(&one, &other), (&other, &one)] {
        let waiting = {
            let worker = (**worker).clone();
            tokio::spawn(async move { claim_one(&worker, "w").await })
        };
        let id = called(caller, json!({"a": 1})).await;
        let call = waiting.await.unwrap();
        assert_eq!((id_of(&call), &call["arguments"]), (id.clone(), &json!({"a": 1, "key": "p"})));
        // The owner learns of the claim, and reports and results reach it from either node.
        caller.in_phase(&id, "external").await;
        assert_eq!(heartbeat(caller, "w", &[&call]).await, json!({"cancelled": [], "lost": []}));
        assert_eq!(post(worker, &call, "progress", &json!({"tip": "seen"})).await.status, 202);
        eventually("the report", async || (caller.stored(&id).await["tip"] == "seen").then_some(())).await;
        finish(worker, &call, &json!("done")).await;
        assert_eq!(succeeded(&caller.ended(&id).await), "done");
        assert!(answer(caller, &call, &json!("again")).await, "ignored");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_results_at_two_nodes_wins() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    for round in 0..200 {
        let id = called(&one, json!({"n": round})).await;
        let call = claim_one(if round % 2 == 0 { &one } else { &other }, "w").await;
        assert_eq!(id_of(&call), id);
        let post = |node: &App, result: &'static str| {
            let (node, call) = ((**node).clone(), call.clone());
            tokio::spawn(async move {
                let is_ignored = answer(&node, &call, &json!(result)).await;
                Receipt { id: id_of(&call), result: result.to_owned(), is_ignored }
            })
        };
        let (first, second) = (post(&one, "one"), post(&other, "other"));
        let receipts = [first.await.unwrap(), second.await.unwrap()];
        let ended = other.ended(&id).await;
        assert_eq!(Receipt::violations(&receipts, std::slice::from_ref(&ended)), Vec::<String>::new());
        assert!(receipts[0].is_ignored != receipts[1].is_ignored, "{receipts:?} of {ended:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn best_call_comes_first_on_any_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    eventually("the tool", async || (other.get("/tools/t").await.status == 200).then_some(())).await;
    let mut expected = Vec::new();
    for (n, node) in [&one, &other, &one, &other].into_iter().enumerate() {
        let body = json!({"name": "t", "wait": "accepted", "arguments": {"n": n}, "priority": n});
        expected.insert(0, node.accepted(body).await);
    }
    eventually("all calls to be offered", async || {
        (one.get("/workers").await.ok()["queues"][0]["waiting"] == 4).then_some(())
    })
    .await;
    let mut given = Vec::new();
    for node in [&other, &one, &other, &one] {
        given.push(id_of(&claim_one(node, "w").await));
    }
    assert_eq!(given, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_on_one_node_reaches_the_worker_of_another() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    let id = called(&one, json!({})).await;
    let call = claim_one(&other, "w").await;
    one.in_phase(&id, "external").await;
    other.cancel(&id).await;
    failed(&one.ended(&id).await, "CANCELLED");
    assert_eq!(heartbeat(&other, "w", &[&call]).await, json!({"cancelled": [id], "lost": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_gets_a_call_of_a_tool_that_its_node_has_not_read() {
    requires_postgres!();
    let (one, other) = pair().await;
    let mut database = PgConnection::connect(&one.database_url()).await.unwrap();
    // The other node cannot read tools before the end of this transaction.
    let mut lock = database.begin().await.unwrap();
    sqlx::query("LOCK TABLE tool_presets").execute(&mut *lock).await.unwrap();
    tool(&one, json!({})).await;
    let id = called(&one, json!({})).await;
    let read = async {
        // The other node reads the tools because of the signal, and because of the claim.
        let sql = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'tool_presets'::regclass";
        bounded("both reads", async { while sqlx::query(sql).fetch_all(&mut *lock).await.unwrap().len() < 2 {} }).await;
        lock.commit().await.unwrap();
    };
    let (call, ()) = tokio::join!(claim_one(&other, "w"), read);
    assert_eq!(id_of(&call), id);
    finish(&other, &call, &json!("done")).await;
    assert_eq!(succeeded(&one.ended(&id).await), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_is_durable_before_its_response() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    let id = called(&one, json!({})).await;
    claim_one(&other, "w").await;
    let mut database = PgConnection::connect(&one.database_url()).await.unwrap();
    let sql = "SELECT worker, state, attempt FROM worker_calls WHERE call_id::text = $1";
    let row: (String, i16, i32) = sqlx::query_as(sql).bind(&id).fetch_one(&mut database).await.unwrap();
    assert_eq!(row, ("w".to_owned(), 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_killed_node_stay_with_their_workers() {
    requires_postgres!();
    let mut one = Node::start(Backend::Postgres, &[]).await;
    let other = one.second().await;
    tool(&one, json!({})).await;
    let (running, waiting) = (called(&one, json!({"n": 1})).await, called(&one, json!({"n": 2})).await);
    let call = claim_one(&other, "w").await;
    assert_eq!(id_of(&call), running);
    one.in_phase(&running, "external").await;
    one.kill().await;
    // The waiting call is given out although its node is gone, and the other one keeps its worker.
    let next = claim_one(&other, "w").await;
    assert_eq!((id_of(&next), &next["attempt"]), (waiting.clone(), &json!(1)));
    finish(&other, &call, &json!("one")).await;
    finish(&other, &next, &json!("two")).await;
    assert_eq!(succeeded(&other.ended(&running).await), "one");
    assert_eq!(succeeded(&other.ended(&waiting).await), "two");
    for id in [running, waiting] {
        assert_eq!(other.stored(&id).await["attempts"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thawed_node_assigns_nothing_twice() {
    requires_postgres!();
    let one = Node::start(Backend::Postgres, &[]).await;
    let other = one.second().await;
    tool(&one, brief_idempotent()).await;
    let id = called(&one, json!({})).await;
    let first = claim_one(&other, "w1").await;
    one.in_phase(&id, "external").await;
    one.signal("STOP");
    // The other node adopts the call, and its lease expires.
    let second = claim_one(&other, "w2").await;
    assert_eq!((id_of(&second), &second["attempt"]), (id.clone(), &json!(2)));
    one.signal("CONT");
    assert!(answer(&one, &first, &json!("old")).await, "ignored");
    finish_in_time(&other, "w2", second, &json!("new")).await;
    assert_eq!(succeeded(&other.ended(&id).await), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_waiting_for_a_worker_ends_when_its_call_is_adopted() {
    requires_postgres!();
    let one = Node::start(Backend::Postgres, &[]).await;
    let other = one.second().await;
    tool(&one, json!({})).await;
    let posting = one.posted(json!({"name": "t"}));
    let id = eventually("the call", async || other.all_calls().await.first().map(id_of)).await;
    let adopter = other.get("/system").await.ok()["node"].as_str().unwrap().to_owned();
    let mut database = PgConnection::connect(one.database_url()).await.unwrap();
    // Both nodes find that they were declared lost, and the call belongs to the other one. The row of the other one stays, or
    // the first one could adopt the call again.
    let mut adoption = database.begin().await.unwrap();
    sqlx::query("UPDATE tool_calls SET node = $1").bind(&adopter).execute(&mut *adoption).await.unwrap();
    sqlx::query("DELETE FROM nodes WHERE node <> $1").bind(&adopter).execute(&mut *adoption).await.unwrap();
    sqlx::query("UPDATE nodes SET beat = 0").execute(&mut *adoption).await.unwrap();
    adoption.commit().await.unwrap();
    let response = posting.await.unwrap();
    assert_eq!(response.status, 503, "the caller does not wait for a run of another node: {}", response.text());
    let call = claim_one(&other, "w").await;
    assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
    finish(&other, &call, &json!("once")).await;
    let ended = other.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"], &ended["node"]), ("once", &json!(1), &json!(adopter)));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_returned_to_a_node_that_still_runs_it_runs_once() {
    requires_postgres!();
    let node = Node::start(Backend::Postgres, &[]).await;
    tool(&node, json!({"limits": {"queue_timeout_ms": 600_000}})).await;
    let posting = node.posted(json!({"name": "t"}));
    let id = eventually("the call", async || node.all_calls().await.first().map(id_of)).await;
    let mut database = PgConnection::connect(node.database_url()).await.unwrap();
    // Another node had adopted the call and is lost, before this node has noticed either.
    sqlx::query("UPDATE tool_calls SET node = 'lost'").execute(&mut database).await.unwrap();
    let response = posting.await.unwrap();
    assert_eq!(response.status, 503, "the first run ends: {}", response.text());
    let call = claim_one(&node, "w").await;
    assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
    finish(&node, &call, &json!("once")).await;
    let ended = node.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"]), ("once", &json!(1)));
    assert_ne!(ended["node"], "lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_many_workers_on_both_nodes_share_no_call() {
    requires_postgres!();
    const CALLS: usize = 60;
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    eventually("the tool", async || (other.get("/tools/t").await.status == 200).then_some(())).await;
    let workers: Vec<_> = (0..12)
        .map(|n| {
            let node = if n % 2 == 0 { (*one).clone() } else { (*other).clone() };
            tokio::spawn(async move {
                let mut got: Vec<Value> = Vec::new();
                loop {
                    let calls = claim(&node, &format!("w{n}"), 3).await;
                    if calls.iter().any(|call| call["arguments"]["stop"] == true) {
                        return got;
                    }
                    for call in calls {
                        finish(&node, &call, &json!("ok")).await;
                        got.push(call["id"].clone());
                    }
                }
            })
        })
        .collect();
    let mut ids = Vec::new();
    for n in 0..CALLS {
        ids.push(json!(called(if n % 3 == 0 { &other } else { &one }, json!({"n": n})).await));
    }
    for id in &ids {
        assert_eq!(succeeded(&one.ended(id.as_str().unwrap()).await), "ok");
    }
    let stops: Vec<_> = (0..12 * 3).map(|_| json!({"name": "t", "arguments": {"stop": true}})).collect();
    let stopping = one.post("/tool-calls", &json!({"calls": stops, "mode": "parallel", "wait": "accepted"})).await;
    assert_eq!(stopping.status, 202);
    let mut given = Vec::new();
    for worker in workers {
        given.extend(worker.await.unwrap());
    }
    let text = |ids: Vec<Value>| {
        let mut ids: Vec<String> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(text(given), text(ids), "each call was given once");
}
