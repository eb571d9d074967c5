//! Decisions about approvals, revocations of keys and results that were acknowledged right before a `kill -9` exist after
//! the restart.

use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};

use super::{service, times};
use crate::support::calls::has_ended;
use crate::support::seeded::Seeded;
use crate::support::{Backend, Client, Database, bounded, eventually};

/// Number of writes of each kind in a round.
const EACH: usize = 4;

/// A decision that is posted once.
#[derive(Debug, Clone)]
enum Decision {
    Approval { id: String, decision: &'static str, digest: Value },
    Revocation { id: String },
    Result { id: String },
}

fn chance() -> Seeded {
    let seed = super::seed();
    println!("TOOLPOST_CHAOS_SEED={seed}");
    Seeded::new(seed)
}

/// Creates what the next round decides about.
async fn undecided(client: &Client, chance: &mut Seeded) -> Vec<Decision> {
    let mut all = Vec::new();
    for _ in 0..EACH {
        let id = client.accepted(json!({"name": "gated", "wait": "accepted"})).await;
        let digest = client.in_phase(&id, "approval").await["approval"]["digest"].clone();
        all.push(Decision::Approval { id, decision: chance.pick(&["approve", "reject"]), digest });
        all.push(Decision::Revocation { id: client.key(json!({"scopes": ["read"]})).await.1 });
        let id = client.accepted(json!({"name": "ask", "wait": "accepted"})).await;
        client.in_phase(&id, "external").await;
        all.push(Decision::Result { id });
    }
    chance.shuffle(&mut all);
    all
}

/// Posts a decision. Returns `true` if it was acknowledged.
async fn decide(client: &Client, what: &Decision) -> bool {
    let request = match what {
        Decision::Approval { id, decision, digest } => client
            .request(Method::POST, &format!("/tool-calls/{id}/approval"))
            .json(&json!({"decision": decision, "digest": digest})),
        Decision::Revocation { id } => client.request(Method::DELETE, &format!("/keys/{id}")),
        Decision::Result { id } => {
            client.request(Method::POST, &format!("/tool-calls/{id}/result")).json(&json!(format!("result of {id}")))
        }
    };
    let Ok(answer) = request.send().await else { return false };
    let status = answer.status();
    let is_ignored = answer.json::<Value>().await.is_ok_and(|body| body["ignored"] == true);
    assert!(!is_ignored, "{what:?} was ignored");
    status.is_success()
}

/// Checks that an acknowledged decision is in force.
async fn is_in_force(client: &Client, what: &Decision) {
    match what {
        Decision::Approval { id, decision, .. } => {
            let call = client.stored(id).await;
            let approval = &call["approval"];
            let expected = if *decision == "approve" { "approved" } else { "rejected" };
            assert_eq!(approval["status"], expected, "{call:#}");
            assert_eq!(approval["decisions"][0]["decision"], *decision, "{call:#}");
            let call = eventually("the end", || async { Some(client.stored(id).await).filter(has_ended) }).await;
            assert_eq!(call["approval"]["decisions"][0]["decision"], *decision, "{call:#}");
        }
        Decision::Revocation { id } => {
            assert!(!client.get(&format!("/keys/{id}")).await.ok()["revoked_at"].is_null(), "{what:?}");
        }
        Decision::Result { id } => {
            let call = eventually("the end", || async { Some(client.stored(id).await).filter(has_ended) }).await;
            assert!(call["output"].to_string().contains(&format!("result of {id}")), "{call:#}");
        }
    }
}

on_both_databases!(
    async fn decision_acknowledged_before_a_kill_is_in_force(backend: Backend) {
        let database = Database::fresh(backend).await;
        let mut chance = chance();
        let mut node = service(&database.url);
        node.start().await;
        let client = node.client().with_key(&node.client().key(json!({"scopes": ["admin"]})).await.0);
        // Calls that nobody decides about must not end meanwhile.
        let limits = json!({"timeout_ms": 3_600_000});
        let tool = |name: &str, executor: Value| json!({"name": name, "input_schema": {"type": "object"}, "executor": executor, "limits": limits});
        client.register(tool("ask", json!({"type": "external"}))).await;
        let mut gated = tool("gated", json!({"type": "builtin", "name": "echo"}));
        gated["approval"] = json!({});
        client.register(gated).await;
        for _ in 0..times(4, 250) {
            let all = undecided(&client, &mut chance).await;
            let max = chance.within(1..all.len() as u64) as usize;
            let mut acknowledged = Vec::new();
            {
                let posting = |what: Decision| {
                    let client = client.clone();
                    async move { (decide(&client, &what).await, what) }
                };
                let mut answers: FuturesUnordered<_> = all.into_iter().map(posting).collect();
                while acknowledged.len() < max {
                    let Some((is_acknowledged, what)) = bounded("an answer", answers.next()).await else { break };
                    acknowledged.extend(is_acknowledged.then_some(what));
                }
                // Right after the acknowledgement, while other writes are under way.
                node.kill().await;
            }
            node.start().await;
            for what in &acknowledged {
                is_in_force(&client, what).await;
            }
        }
    }
);
