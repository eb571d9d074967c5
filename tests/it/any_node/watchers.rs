//! Callers and subscribers of three nodes behind a real nginx that forwards their requests in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::gateway::{Cluster, cluster};
use super::subscriber::Subscriber;
use crate::gateway::NODE_HEADER;
use crate::oracle::{Evidence, WatchedStream, World};
use crate::support::calls::id_of;
use crate::support::seeded::Seeded;
use crate::support::shapes::succeeded;
use crate::support::{Client, Event, LIMIT};

const SEED: u64 = 20_260_202;
const CALLERS: usize = 6;
/// Number of calls of each caller.
const CALLS: usize = 8;
/// Number of subscribers to the events of all calls.
const SUBSCRIBERS: usize = 4;
/// Maximum numbers of events on one connection of a subscriber to all calls, and to a single call.
const EVENTS: u64 = 20;
const EVENTS_OF_CALL: u64 = 4;

/// A caller that has made all its calls.
struct FinishedCaller {
    /// Subscribers to single calls, by call id.
    watching: Vec<(String, JoinHandle<Subscriber>)>,
    /// Number of requests by node.
    nodes: BTreeMap<String, usize>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn subscribers_behind_a_gateway_receive_every_event_once() {
    let cluster = cluster().await;
    let mut chance = Seeded::new(SEED);
    let gateway = cluster.nginx.client().without_reuse();
    let (_total, expected) = watch::channel(CALLERS * CALLS);
    let subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| tokio::spawn(Subscriber::new(&gateway, "/events", EVENTS, chance.fork()).follow(expected.clone())))
        .collect();
    let (_one, one_result) = watch::channel(1);
    let one_result = Arc::new(one_result);
    let callers = (0..CALLERS).map(|_| tokio::spawn(call(gateway.clone(), chance.fork(), one_result.clone())));
    let called: Vec<FinishedCaller> = join_all(callers).await.into_iter().map(Result::unwrap).collect();

    let mut requests = BTreeMap::<String, usize>::new();
    let mut watched = Vec::new();
    for FinishedCaller { watching, nodes } in called {
        nodes.into_iter().for_each(|(node, count)| *requests.entry(node).or_default() += count);
        for (id, watching) in watching {
            watched.push((id, finished(watching).await));
        }
    }
    assert_eq!(requests.keys().cloned().collect::<BTreeSet<_>>(), addresses(&cluster), "callers reach every node");
    let world = World::read(&cluster.nodes[0]).await;
    assert_eq!(world.calls.len(), CALLERS * CALLS);
    for subscriber in subscribers {
        let subscriber = finished(subscriber).await;
        assert_eq!(subscriber.nodes.iter().cloned().collect::<BTreeSet<_>>(), addresses(&cluster));
        assert!(subscriber.nodes.len() > world.calls.len() / 4, "it moved only {} times", subscriber.nodes.len());
        check(&world, Some(subscriber.events), Vec::new());
    }
    let moves: usize = watched.iter().map(|(_, subscriber)| subscriber.nodes.len() - 1).sum();
    assert!(moves > watched.len(), "they moved only {moves} times");
    let whole = |(id, subscriber): (String, Subscriber)| {
        assert!(subscriber.events.last().is_some_and(Event::is_result));
        WatchedStream { id, events: subscriber.events }
    };
    check(&world, None, watched.into_iter().map(whole).collect());
}

/// Makes calls with progress, one after the other. Some are awaited by another request, and have a subscriber.
async fn call(gateway: Client, mut chance: Seeded, one_result: Arc<watch::Receiver<usize>>) -> FinishedCaller {
    let mut called = FinishedCaller { watching: Vec::new(), nodes: BTreeMap::new() };
    for _ in 0..CALLS {
        let arguments = json!({"ms": chance.within(50..400), "steps": chance.within(3..9)});
        let mut body = json!({"name": "wait", "arguments": arguments});
        let is_detached = chance.one_in(2);
        if is_detached {
            body["wait"] = json!("accepted");
        }
        let answer = gateway.post("/tool-calls", &body).await;
        *called.nodes.entry(answer.header(NODE_HEADER).to_owned()).or_default() += 1;
        let mut call: Value = answer.json;
        if is_detached {
            let id = id_of(&call);
            let subscriber =
                Subscriber::new(&gateway, &format!("/tool-calls/{id}/events"), EVENTS_OF_CALL, chance.fork());
            called.watching.push((id.clone(), tokio::spawn(subscriber.follow((*one_result).clone()))));
            call = super::ended(&gateway, &id).await;
        }
        succeeded(&call);
    }
    called
}

async fn finished(subscriber: JoinHandle<Subscriber>) -> Subscriber {
    let finished = tokio::time::timeout(LIMIT, subscriber).await;
    finished.expect("the subscriber receives the results of all calls").unwrap()
}

fn addresses(cluster: &Cluster) -> BTreeSet<String> {
    cluster.nodes.iter().map(|node| node.url("").trim_start_matches("http://").to_owned()).collect()
}

/// Checks that the events are those of the stored calls: in order per call, without a gap and without a repeat.
fn check(world: &World, heard: Option<Vec<Event>>, watched: Vec<WatchedStream>) {
    let evidence = Evidence { heard, watched, world: world.clone(), ..Evidence::default() };
    let violations = evidence.violations_of_subscribers();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
