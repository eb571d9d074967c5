//! Acknowledged results, progress reports and cancellations are not lost when a node is paused beyond its lease and
//! then answers for calls of another node, nor when it is killed right after the response.

#[cfg(feature = "fault-points")]
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{service, times};
use crate::oracle::Receipt;
use crate::support::calls::{has_ended, id_of};
use crate::support::killable::Killable;
use crate::support::seeded::Seeded;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Client, Database, Response, bounded, eventually};

/// Number of calls of each kind in a round.
const CALLS: usize = 4;

fn chance() -> Seeded {
    let seed = super::seed();
    println!("TOOLPOST_CHAOS_SEED={seed}");
    Seeded::new(seed)
}

async fn register(client: &Client) {
    let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
    client.register(definition).await;
}

async fn ask(client: &Client) -> String {
    id_of(&client.post("/tool-calls", &json!({"name": "ask", "wait": "accepted"})).await.json)
}

/// The kind of a request that is posted to a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Result,
    Progress,
    Cancel,
}

const KINDS: [Kind; 3] = [Kind::Result, Kind::Progress, Kind::Cancel];

async fn post(client: &Client, id: &str, kind: Kind) -> Response {
    match kind {
        Kind::Result => client.post(&format!("/tool-calls/{id}/result"), &json!(format!("result of {id}"))).await,
        Kind::Progress => client.post(&format!("/tool-calls/{id}/progress"), &json!({"tip": id, "content": id})).await,
        Kind::Cancel => client.post_empty(&format!("/tool-calls/{id}/cancel")).await,
    }
}

fn acknowledges(answer: &Response, kind: Kind) {
    let status = if kind == Kind::Result { 200 } else { 202 };
    assert_eq!(answer.status, status, "{kind:?}: {}", answer.text());
    assert_ne!(answer.json["ignored"], true, "{}", answer.text());
}

/// Starts a service with the tool, and returns it with a client.
async fn one_service(backend: Backend) -> (Database, Killable, Client) {
    let database = Database::fresh(backend).await;
    let mut node = service(&database.url);
    node.start().await;
    let client = node.client();
    register(&client).await;
    (database, node, client)
}

/// Waits until the acknowledged request shows in the call.
async fn shows(client: &Client, id: &str, kind: Kind) {
    let ended = || async { Some(client.stored(id).await).filter(has_ended) };
    match kind {
        Kind::Result => {
            let call = eventually(&format!("the posted result of {id}"), ended).await;
            assert_eq!(succeeded(&call), format!("result of {id}"));
        }
        Kind::Progress => {
            eventually(&format!("the report of {id}"), || async {
                (client.stored(id).await["tip"] == id).then_some(())
            })
            .await;
            acknowledges(&post(client, id, Kind::Result).await, Kind::Result);
            let call = eventually(&format!("the end of {id}"), ended).await;
            assert_eq!(succeeded(&call), format!("result of {id}"));
            let events = client.events(&format!("/tool-calls/{id}/events")).await.rest().await;
            assert_eq!(crate::support::sse::count(&events, "progress"), 1, "{events:#?}");
        }
        Kind::Cancel => {
            let call = eventually(&format!("the cancelled end of {id}"), ended).await;
            failed(&call, "CANCELLED");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn result_acknowledged_by_a_thawed_node_is_kept() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut chance = chance();
    let mut nodes: Vec<Killable> = (0..2).map(|_| service(&database.url)).collect();
    for node in &mut nodes {
        node.start().await;
    }
    register(&nodes[0].client()).await;
    for round in 0..times(2, 16) {
        let (frozen, other) = (&nodes[round % 2], &nodes[(round + 1) % 2].client());
        let client = frozen.client();
        let mut calls = Vec::new();
        for kind in KINDS.into_iter().cycle().take(KINDS.len() * CALLS) {
            let id = ask(&client).await;
            let call = client.in_phase(&id, "external").await;
            calls.push((id, kind, call["node"].clone()));
        }
        frozen.signal("STOP");
        for (id, _, node) in &calls {
            eventually("the other node to take a call over", || async {
                (other.stored(id).await["node"] != *node).then_some(())
            })
            .await;
        }
        let posting = calls.iter().map(|(id, kind, _)| {
            let (client, id, kind) = (client.clone(), id.clone(), *kind);
            tokio::spawn(async move { post(&client, &id, kind).await })
        });
        let posting: Vec<_> = posting.collect();
        tokio::time::sleep(chance.millis(0..50)).await;
        frozen.signal("CONT");
        let answers = bounded("the answers", join_all(posting)).await;
        for (answer, (_, kind, _)) in answers.into_iter().zip(&calls) {
            acknowledges(&answer.unwrap(), *kind);
        }
        for (id, kind, _) in &calls {
            shows(if chance.one_in(2) { other } else { &client }, id, *kind).await;
        }
    }
}

on_both_databases!(
    async fn call_accepted_before_a_kill_is_still_awaited(backend: Backend) {
        let (_database, mut node, client) = one_service(backend).await;
        let mut chance = chance();
        for _ in 0..times(3, 30) {
            let calls = join_all((0..4 * CALLS).map(|_| ask(&client))).await;
            tokio::time::sleep(chance.millis(0..6)).await;
            node.kill().await;
            node.start().await;
            // Some results arrive before the recovery of the previous run, some at any time after it.
            let answers = join_all(calls.iter().map(|id| post(&client, id, Kind::Result))).await;
            for (id, answer) in calls.iter().zip(answers) {
                if answer.status == 409 {
                    // The call is queued again and must first be handed out.
                    client.in_phase(id, "external").await;
                    acknowledges(&post(&client, id, Kind::Result).await, Kind::Result);
                } else {
                    acknowledges(&answer, Kind::Result);
                }
            }
            for id in &calls {
                shows(&client, id, Kind::Result).await;
            }
        }
    }
);

on_both_databases!(
    async fn result_acknowledged_before_a_kill_is_kept(backend: Backend) {
        let (_database, mut node, client) = one_service(backend).await;
        let mut chance = chance();
        for _ in 0..times(3, 30) {
            let kind = chance.pick(&KINDS);
            let calls = join_all((0..CALLS).map(|_| ask(&client))).await;
            for id in &calls {
                client.in_phase(id, "external").await;
            }
            let posting: Vec<_> = calls
                .iter()
                .map(|id| {
                    let (client, id) = (client.clone(), id.clone());
                    let path = if kind == Kind::Cancel { "cancel" } else { "result" };
                    let body = if kind == Kind::Cancel { Value::Null } else { json!(format!("result of {id}")) };
                    let request = client.request(reqwest::Method::POST, &format!("/tool-calls/{id}/{path}"));
                    let request = if kind == Kind::Cancel { request } else { request.json(&body) };
                    tokio::spawn(async move { request.send().await.map(|answer| answer.status().as_u16()) })
                })
                .collect();
            tokio::time::sleep(chance.millis(0..12)).await;
            node.kill().await;
            let answers = bounded("the answers", join_all(posting)).await;
            node.start().await;
            for (id, answer) in calls.iter().zip(answers) {
                let kind = if kind == Kind::Cancel { Kind::Cancel } else { Kind::Result };
                // A request that was not acknowledged is sent again.
                if !matches!(answer.unwrap(), Ok(200 | 202)) {
                    let again = post(&client, id, kind).await;
                    assert!([200, 202].contains(&again.status), "{}", again.text());
                }
                shows(&client, id, kind).await;
            }
        }
    }
);

/// Posts a result. Returns its receipt; `None` if the node cannot give one, because it does not know the end of the call.
async fn receipt(client: Client, id: String, result: &'static str) -> Option<Receipt> {
    let answer = client.post(&format!("/tool-calls/{id}/result"), &json!(result)).await;
    assert!([200, 503].contains(&answer.status), "{}", answer.text());
    let is_ignored = answer.json["ignored"] == true;
    (answer.status == 200).then(|| Receipt { id, result: result.to_owned(), is_ignored })
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_two_nodes_are_true_when_one_freezes() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let mut chance = chance();
    let mut nodes: Vec<Killable> = (0..2).map(|_| service(&database.url)).collect();
    for node in &mut nodes {
        node.start().await;
    }
    register(&nodes[0].client()).await;
    for round in 0..times(3, 30) {
        let (frozen, other) = (&nodes[round % 2], nodes[(round + 1) % 2].client());
        let client = frozen.client();
        let mut ids = Vec::new();
        for _ in 0..4 * CALLS {
            let id = ask(&client).await;
            client.in_phase(&id, "external").await;
            ids.push(id);
        }
        let posting: Vec<_> = ids
            .iter()
            .flat_map(|id| [(&client, id, "one"), (&other, id, "other")])
            .map(|(node, id, result)| tokio::spawn(receipt(node.clone(), id.clone(), result)))
            .collect();
        tokio::time::sleep(chance.millis(0..12)).await;
        frozen.signal("STOP");
        if chance.one_in(2) {
            // Long enough for the other node to adopt the calls, or not.
            tokio::time::sleep(chance.millis(0..3_000)).await;
        }
        frozen.signal("CONT");
        let answers = bounded("the receipts", join_all(posting)).await;
        let receipts: Vec<Receipt> = answers.into_iter().filter_map(|receipt| receipt.unwrap()).collect();
        let mut calls = Vec::new();
        for id in &ids {
            if receipts.iter().any(|receipt| receipt.id == *id) {
                calls.push(other.ended(id).await);
            }
        }
        assert_eq!(Receipt::violations(&receipts, &calls), Vec::<String>::new());
    }
}

#[cfg(feature = "fault-points")]
on_both_databases!(
    async fn call_without_a_recorded_phase_is_awaited(backend: Backend) {
        let (_database, mut node, client) = one_service(backend).await;
        node.kill().await;
        // At this fault point, the start of the call is on disk, but the call has not been handed out.
        let asking = {
            let client = client.clone();
            async move {
                loop {
                    let request = client.request(reqwest::Method::POST, "/tool-calls");
                    let request = request.header("idempotency-key", "one");
                    // The response is lost with the service, or has not arrived yet.
                    let _ = request.json(&json!({"name": "ask", "wait": "accepted"})).send().await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        tokio::select! {
            () = node.start_to_die_at("BeforeRun:1") => {}
            () = asking => unreachable!(),
        }
        node.start().await;
        let id = client.only("ask").await;
        assert_eq!(client.stored(&id).await["status"], "DOING");
        acknowledges(&post(&client, &id, Kind::Result).await, Kind::Result);
        shows(&client, &id, Kind::Result).await;
        assert_eq!(client.stored(&id).await["attempts"], 1);
    }
);
