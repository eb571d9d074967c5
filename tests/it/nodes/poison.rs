//! A call that stops each node that works on it is given up. Calls that only wait meanwhile are not.

use serde_json::{Value, json};

use crate::oracle::{self, AGAIN, Evidence, ONCE, World};
use crate::support::counter::Counter;
use crate::support::killable::Killable;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Client, Database};

/// Ends a node when it begins to work on an adopted call.
const AT_WORK: &str = "AfterWorkNote:1";

/// Starts a node that runs one detached call at a time, and notices a lost node soon.
async fn node(database: &Database, counter: &Counter) -> Killable {
    let settings = [
        ("TOOLPOST__NODE__HEARTBEAT_MS", "300"),
        ("TOOLPOST__NODE__LEASE_MS", "1500"),
        ("TOOLPOST__QUEUE__MAX_RUNNING", "1"),
    ];
    let mut node = Killable::new(&database.url, settings.map(|(name, value)| (name, value.to_owned())).to_vec());
    node.start().await;
    oracle::register(&node.client(), &counter.tool()).await;
    node
}

/// Has a call accepted that the node does not wait for.
async fn accepted(client: &Client, name: &str, route: &str) -> String {
    client.accepted(json!({"name": name, "arguments": {"route": route}, "wait": "accepted"})).await
}

/// Returns `true` if a call was given up.
fn is_poison(call: &Value) -> bool {
    call["error"]["details"] == json!({"poison": true})
}

/// Checks the events and the statistics of all calls.
async fn counted_once(client: &Client) {
    let evidence = Evidence { world: World::read(client).await, ..Evidence::default() };
    assert_eq!(evidence.violations_of_subscribers(), Vec::<String>::new());
}

on_both_databases!(
    async fn call_that_lost_two_adopters_is_not_adopted_again(backend: Backend) {
        let (database, counter) = (Database::fresh(backend).await, Counter::start());
        let mut node = node(&database, &counter).await;
        let client = node.client();
        let running = accepted(&client, AGAIN, "gate").await;
        client.in_phase(&running, "running").await;
        let mut queued = Vec::new();
        for _ in 0..5 {
            queued.push(accepted(&client, AGAIN, "now").await);
        }
        node.kill().await;
        counter.open();
        for _ in 0..2 {
            node.start_to_die_at(AT_WORK).await;
        }
        node.start().await;
        let ended = client.ended(&running).await;
        let text = failed(&ended, "TOOL_EXECUTION_ERROR");
        assert!(is_poison(&ended), "{ended}");
        assert!(text.contains("send the call again with smaller or other arguments"), "{text}");
        assert_eq!(ended["error"]["retryable"], false);
        for id in &queued {
            succeeded(&client.ended(id).await);
        }
        counted_once(&client).await;
    }
);

on_both_databases!(
    async fn call_adopted_twice_keeps_running(backend: Backend) {
        let (database, counter) = (Database::fresh(backend).await, Counter::start());
        let mut node = node(&database, &counter).await;
        let client = node.client();
        let running = accepted(&client, AGAIN, "gate").await;
        client.in_phase(&running, "running").await;
        node.kill().await;
        node.start_to_die_at(AT_WORK).await;
        counter.open();
        node.start().await;
        succeeded(&client.ended(&running).await);
        counted_once(&client).await;
    }
);

on_both_databases!(
    async fn one_of_calls_evaluated_together_is_abandoned(backend: Backend) {
        let (database, counter) = (Database::fresh(backend).await, Counter::start());
        let mut node = node(&database, &counter).await;
        let client = node.client();
        let policy = json!({"name": "any", "when": "true", "effect": "allow"});
        assert_eq!(client.post("/policies", &policy).await.status, 201);
        let running = accepted(&client, ONCE, "gate").await;
        client.in_phase(&running, "running").await;
        let mut queued = Vec::new();
        for _ in 0..5 {
            queued.push(accepted(&client, ONCE, "now").await);
        }
        node.kill().await;
        counter.open();
        // The first adopter evaluates the policies for all of them. The second one evaluates them one by one.
        for _ in 0..2 {
            node.start_to_die_at(AT_WORK).await;
        }
        node.start().await;
        failed(&client.ended(&running).await, "OUTCOME_UNKNOWN");
        let mut given_up = Vec::new();
        for id in queued {
            let ended = client.ended(&id).await;
            match is_poison(&ended) {
                true => given_up.push(id),
                false => drop(succeeded(&ended)),
            }
        }
        assert_eq!(given_up.len(), 1);
        assert!(counter.runs().iter().all(|run| run.id != given_up[0]), "it never ran");
        counted_once(&client).await;
    }
);
