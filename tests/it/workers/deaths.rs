//! Services that die or stop while workers have calls.

#[cfg(feature = "fault-points")]
use reqwest::Method;
use serde_json::{Value, json};
#[cfg(feature = "fault-points")]
use sqlx::{Connection, PgConnection};

use super::{answer, brief, brief_idempotent, called, claim_one, claim_with, finish, finish_in_time, heartbeat, tool};
use crate::support::calls::{assert_counts, id_of};
use crate::support::killable::Killable;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Database, Node, eventually};

on_both_databases!(
    async fn claimed_calls_survive_a_kill(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        tool(&node, json!({})).await;
        let (running, waiting) = (called(&node, json!({})).await, called(&node, json!({})).await);
        let call = claim_one(&node, "w").await;
        node.in_phase(&running, "external").await;
        node.kill().await;
        node.start_again().await;
        assert_eq!(heartbeat(&node, "w", &[&call]).await, json!({"cancelled": [], "lost": []}));
        finish(&node, &call, &json!("kept")).await;
        let ended = node.ended(&running).await;
        assert_eq!((succeeded(&ended), &ended["attempts"]), ("kept", &json!(1)));
        let next = claim_one(&node, "w").await;
        assert_eq!((id_of(&next), &next["attempt"]), (waiting.clone(), &json!(1)));
        finish(&node, &next, &json!("later")).await;
        assert_eq!(succeeded(&node.ended(&waiting).await), "later");
        assert_counts(&node.stats("t").await, json!({"execution_count": 2, "success_count": 2, "retry_count": 0}));
    }
);

on_both_databases!(
    async fn lease_expired_during_a_restart_is_noticed(backend: Backend) {
        for (more, attempts) in [(brief_idempotent(), 2), (json!({"executor": brief()}), 1)] {
            let mut node = Node::start(backend, &[]).await;
            tool(&node, more).await;
            let id = called(&node, json!({})).await;
            let call = claim_one(&node, "frozen").await;
            node.in_phase(&id, "external").await;
            node.kill().await;
            node.start_again().await;
            if attempts == 2 {
                let again = claim_one(&node, "w").await;
                assert_eq!(again["attempt"], 2);
                assert!(answer(&node, &call, &json!("old")).await, "ignored");
                finish_in_time(&node, "w", again, &json!("new")).await;
                assert_eq!(succeeded(&node.ended(&id).await), "new");
            } else {
                failed(&node.ended(&id).await, "OUTCOME_UNKNOWN");
            }
        }
    }
);

on_both_databases!(
    async fn drain_answers_waiting_claims_and_keeps_claimed_calls(backend: Backend) {
        let mut node = Node::start(backend, &[]).await;
        tool(&node, json!({})).await;
        let id = called(&node, json!({})).await;
        let call = claim_one(&node, "w").await;
        node.in_phase(&id, "external").await;
        let waiting = {
            let client = (*node).clone();
            tokio::spawn(async move { claim_with(&client, "idle", json!({"wait_ms": 60_000})).await.ok() })
        };
        eventually("the claim to wait", async || {
            let workers = node.get("/workers").await.ok()["workers"].clone();
            (workers.as_array().unwrap().len() == 2).then_some(())
        })
        .await;
        node.signal("TERM");
        assert_eq!(waiting.await.unwrap(), json!({"calls": []}));
        assert_eq!(node.end().await.code, Some(0));
        node.start_again().await;
        finish(&node, &call, &json!("kept")).await;
        assert_eq!(succeeded(&node.ended(&id).await), "kept");
    }
);

/// Works on the queue until it is stopped, also while the service is gone. Returns how often it was given each attempt of a
/// call.
#[cfg(feature = "fault-points")]
async fn work(client: crate::support::Client, stop: tokio_util::sync::CancellationToken) -> Vec<(String, u64)> {
    let mut given = Vec::new();
    while !stop.is_cancelled() {
        let body = json!({"worker": "w", "max": 4, "wait_ms": 200});
        let request = client.request(reqwest::Method::POST, "/workers/q/claim").json(&body);
        let Ok(response) = request.send().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let Ok(claimed) = response.json::<Value>().await else { continue };
        for call in claimed["calls"].as_array().into_iter().flatten() {
            given.push((id_of(call), call["attempt"].as_u64().unwrap()));
            let path = format!("/tool-calls/{}/result", id_of(call));
            let request = client.request(reqwest::Method::POST, &path).bearer_auth(call["token"].as_str().unwrap());
            let _ = request.json(&json!("ok")).send().await;
        }
    }
    given
}

#[cfg(feature = "fault-points")]
on_both_databases!(
    async fn service_that_dies_between_its_writes_assigns_each_attempt_once(backend: Backend) {
        const POINTS: [&str; 12] = [
            "BeforeOffer",
            "AfterOffer",
            "BeforeClaim",
            "AfterClaim",
            "BeforeAnswer",
            "AfterAnswer",
            "BeforeAccept",
            "AfterAccept",
            "BeforeRun",
            "AfterRun",
            "BeforeSettle",
            "AfterSettle",
        ];
        let database = Database::fresh(backend).await;
        let settings = [("TOOLPOST__NODE__HEARTBEAT_MS", "100"), ("TOOLPOST__NODE__LEASE_MS", "1000")];
        let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
        let mut service = Killable::new(&database.url, settings);
        service.start().await;
        let client = service.client().without_reuse();
        tool(&client, brief_idempotent()).await;
        service.kill().await;
        let (stop, last) = (tokio_util::sync::CancellationToken::new(), tokio_util::sync::CancellationToken::new());
        let worker = tokio::spawn(work(client.clone(), stop.clone()));
        let calling = {
            let (client, stop) = (client.clone(), last.clone());
            tokio::spawn(async move {
                // A waiting worker claims an awaited call with its acceptance, and a detached one with its offer.
                for body in [json!({"name": "t", "wait": "accepted"}), json!({"name": "t"})].iter().cycle() {
                    if stop.is_cancelled() {
                        return;
                    }
                    let sent = client.request(reqwest::Method::POST, "/tool-calls").json(body).send().await;
                    let pause = if sent.is_ok() { 25 } else { 50 };
                    tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                }
            })
        };
        for point in POINTS {
            service.start_to_die_at(&format!("{point}:3")).await;
        }
        service.start().await;
        last.cancel();
        calling.await.unwrap();
        // A service that lives serves the rest.
        eventually("the end of all calls", async || {
            let mut left = 0;
            for status in ["WAIT", "DOING"] {
                let page = client.get(&format!("/tool-calls?status={status}&limit=500")).await;
                left += page.json["tool_calls"].as_array()?.len();
            }
            (left == 0).then_some(())
        })
        .await;
        stop.cancel();
        let mut given = worker.await.unwrap();
        given.sort();
        let attempts = given.len();
        given.dedup();
        assert_eq!(given.len(), attempts, "an attempt was given twice");
        let mut page = client.get("/tool-calls?limit=500").await.ok();
        let calls = page["tool_calls"].as_array_mut().unwrap();
        assert!(!calls.is_empty());
        for call in calls {
            assert_eq!(succeeded(call), "ok");
        }
    }
);

/// Starts two nodes on one PostgreSQL with the tool `t`. The first one dies when it passes this fault point.
#[cfg(feature = "fault-points")]
async fn one_that_dies_at(fault: &str, more: Value) -> (Node, Node) {
    let database = Database::fresh(Backend::Postgres).await;
    let other = Node::on(database.clone(), &[]).await;
    tool(&other, more).await;
    let one = Node::on(database, &[("TOOLPOST_FAULT", fault)]).await;
    (one, other)
}

#[cfg(feature = "fault-points")]
#[tokio::test(flavor = "multi_thread")]
async fn result_posted_before_cancellation_and_adoption_counts() {
    requires_postgres!();
    // The first node dies when it has noticed the claim.
    let (mut one, other) = one_that_dies_at("BeforeRun:1", json!({})).await;
    let id = called(&one, json!({})).await;
    let call = claim_one(&other, "w").await;
    assert_eq!(one.end().await.code, None);
    // The response comes when the call has ended.
    let posting = {
        let (client, call) = ((*other).clone(), call.clone());
        tokio::spawn(async move { answer(&client, &call, &json!("kept")).await })
    };
    eventually("the result on disk", async || {
        let mut database = PgConnection::connect(other.database_url()).await.unwrap();
        let row = sqlx::query_scalar::<_, i16>("SELECT state FROM worker_calls").fetch_optional(&mut database).await;
        row.unwrap().is_none_or(|state| state == 2).then_some(())
    })
    .await;
    other.post_empty(&format!("/tool-calls/{id}/cancel")).await;
    let ended = other.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"]), ("kept", &json!(1)));
    assert!(ended["started_at"].is_string(), "{ended:#}");
    assert!(!posting.await.unwrap(), "it was not ignored");
}

#[cfg(feature = "fault-points")]
#[tokio::test(flavor = "multi_thread")]
async fn attempt_counts_although_a_lost_node_did_not_record_its_start() {
    requires_postgres!();
    // The first node dies when it has noticed the second claim.
    let (mut one, other) = one_that_dies_at("BeforeAccept:2", brief_idempotent()).await;
    let id = called(&one, json!({})).await;
    claim_one(&other, "frozen").await;
    let second = claim_one(&other, "w").await;
    assert_eq!(second["attempt"], 2);
    assert_eq!(one.end().await.code, None);
    let attempt = finish_in_time(&other, "w", second, &json!("new")).await;
    let ended = other.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"]), ("new", &json!(attempt)));
}

#[cfg(feature = "fault-points")]
#[tokio::test(flavor = "multi_thread")]
async fn events_have_no_gap_after_an_unrecorded_lost_attempt() {
    requires_postgres!();
    // The first node dies when it has noticed the claim. The lease ends before the other node adopts the call.
    let (mut one, other) = one_that_dies_at("BeforeRun:1", brief_idempotent()).await;
    let id = called(&one, json!({})).await;
    claim_one(&other, "lost").await;
    assert_eq!(one.end().await.code, None);
    let second = claim_one(&other, "w").await;
    assert_eq!(second["attempt"], 2);
    let begun = async || (other.stored(&id).await["attempts"].as_u64() > Some(1)).then_some(());
    eventually("the second attempt", begun).await;
    finish_in_time(&other, "w", second, &json!("new")).await;
    let events = other.events(&format!("/tool-calls/{id}/events")).await.until(|event| event.is_result()).await;
    let numbers: Vec<_> = events.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
}

#[cfg(feature = "fault-points")]
#[tokio::test(flavor = "multi_thread")]
async fn attempt_counts_although_its_node_dies_between_cancellation_and_end() {
    requires_postgres!();
    // The call must not run twice, and the first node dies before it records the end.
    let (mut one, other) = one_that_dies_at("BeforeSettle:1", json!({})).await;
    let id = called(&one, json!({})).await;
    claim_one(&one, "w").await;
    // The response may be lost.
    let _ = one.request(Method::POST, &format!("/tool-calls/{id}/cancel")).send().await;
    assert_eq!(one.end().await.code, None);
    let ended = other.ended(&id).await;
    assert_eq!((&ended["status"], &ended["attempts"]), (&json!("ERROR"), &json!(1)), "{ended:#}");
}
