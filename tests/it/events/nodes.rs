//! Events of calls on other nodes. Streams read the store every 15 s anyway, and nodes poll; the tests wait for less than
//! that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use toolpost::config::Config;

use crate::support::calls::{gated, idempotent, with};
use crate::support::{App, Backend, Event, EventStream, Node, Options};

/// Less than the 15 s after which a stream reads the store by itself.
const SOON: Duration = Duration::from_secs(12);

/// Returns the next event, which must not come from a reading by the stream itself.
async fn next(stream: &mut EventStream) -> Event {
    let event = tokio::time::timeout(SOON, stream.next_at_any_time()).await.expect("an event of another node");
    event.expect("a further event")
}

/// Starts three nodes that poll for the commits of others only every minute.
async fn nodes() -> [App; 3] {
    nodes_with(|config| config.node.poll_ms = 60_000).await
}

async fn nodes_with(configure: fn(&mut Config)) -> [App; 3] {
    let options = Options { configure: Some(configure), ..Options::default() };
    let first = App::start_with(Backend::Postgres, options).await;
    let (second, third) = (first.second().await, first.second().await);
    [first, second, third]
}

async fn results(stream: &mut EventStream, calls: &[&str]) -> Vec<Event> {
    let mut missing: Vec<&str> = calls.to_vec();
    let mut events = Vec::new();
    while !missing.is_empty() {
        let event = next(stream).await;
        if event.is_result() {
            missing.retain(|call| event.data["call_id"] != *call);
        }
        events.push(event);
    }
    events
}

/// Checks that each of these calls has all its events once and in order.
fn check_calls(events: &[Event], calls: &[&str]) {
    let mut seqs = BTreeMap::<&str, Vec<u64>>::new();
    for event in events {
        let call = event.data["call_id"].as_str().unwrap();
        seqs.entry(call).or_default().push(event.data["seq"].as_u64().unwrap());
    }
    let expected = calls.iter().map(|call| (*call, vec![1, 2, 3, 4, 5])).collect::<BTreeMap<_, _>>();
    assert_eq!(seqs, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_of_all_has_the_events_of_every_node() {
    requires_postgres!();
    let nodes = nodes().await;
    let mut streams = Vec::new();
    for node in &nodes {
        streams.push(node.events("/events").await);
    }
    for (node, id) in nodes.iter().zip(["1", "2", "3"]) {
        node.call_with(json!({"name": "echo", "id": id})).await;
        for stream in &mut streams {
            check_calls(&results(stream, &[id]).await, &[id]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_of_a_call_on_another_node_is_live_and_ends() {
    requires_postgres!();
    let one = Node::start(Backend::Postgres, &[]).await;
    let two = one.second().await;
    let server = gated("done").await;
    one.tool("job", &server, json!({"async": true, "annotations": idempotent()})).await;
    let id = one.accepted(json!({"name": "job"})).await;
    server.received(1).await;
    let mut stream = two.events(&format!("/tool-calls/{id}/events")).await;
    stream.until(|event| event.is_status("DOING")).await;
    server.open();
    while !next(&mut stream).await.is_result() {}
    assert_eq!(stream.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_moved_between_nodes_has_every_event_once() {
    requires_postgres!();
    let nodes = nodes().await;
    let calls: Vec<String> = (0..18).map(|call| call.to_string()).collect();
    let mut events: Vec<Event> = Vec::new();
    let mut last = "0".to_owned();
    for (index, three) in calls.chunks(3).enumerate() {
        let mut stream = nodes[index % 3].events_after("/events", &last).await;
        for (node, id) in nodes.iter().zip(three) {
            node.call_with(json!({"name": "echo", "id": id})).await;
        }
        // Leaves in the middle of a call; the next node goes on there.
        while last == "0" || !events.iter().any(|event| event.data["call_id"] == *three[0]) {
            let event = next(&mut stream).await;
            last.clone_from(&event.id);
            events.push(event);
        }
    }
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let ended =
        |events: &[Event], call: &str| events.iter().any(|event| event.is_result() && event.data["call_id"] == call);
    let open: Vec<&str> = calls.iter().filter(|call| !ended(&events, call)).copied().collect();
    events.extend(results(&mut nodes[1].events_after("/events", &last).await, &open).await);
    check_calls(&events, &calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_stream_has_the_events_of_every_node() {
    requires_postgres!();
    let nodes = nodes().await;
    let call = |id: &str| with(json!({"name": "echo", "id": id}), json!({"session": "s"}));
    nodes[0].call_with(call("0")).await;
    let mut streams = Vec::new();
    for node in &nodes {
        let mut stream = node.events("/sessions/s/events").await;
        assert_eq!(stream.next().await.expect("the session").event, "session");
        check_calls(&results(&mut stream, &["0"]).await, &["0"]);
        streams.push(stream);
    }
    for (node, id) in nodes.iter().zip(["1", "2", "3"]) {
        node.call_with(call(id)).await;
        for stream in &mut streams {
            check_calls(&results(stream, &[id]).await, &[id]);
        }
    }
    // The history has the calls of all nodes, in any order.
    let mut history = nodes[2].events("/sessions/s/events").await;
    history.next().await.expect("the session");
    check_calls(&results(&mut history, &["0", "1", "2", "3"]).await, &["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_without_a_connection_for_signals() {
    requires_postgres!();
    let [one, two, _] = nodes_with(|_| {}).await;
    let mut stream = two.events("/events").await;
    let mut database = PgConnection::connect(&one.database_url()).await.unwrap();
    // The nodes connect again, and until then they poll.
    let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'toolpost-signals' \
        AND datname = current_database()";
    for id in ["1", "2", "3"] {
        sqlx::query(killed).execute(&mut database).await.unwrap();
        one.call_with(json!({"name": "echo", "id": id})).await;
        check_calls(&results(&mut stream, &[id]).await, &[id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_id_covers_the_events_of_all_nodes() {
    requires_postgres!();
    let [one, two, _] = nodes().await;
    let mut stream = one.events("/events").await;
    let mut ids = Vec::new();
    for (node, id) in [(&one, "1"), (&two, "2"), (&one, "3")] {
        node.call_with(json!({"name": "echo", "id": id})).await;
        ids.push(results(&mut stream, &[id]).await.pop().expect("a result").id);
    }
    drop(stream);
    for (index, id) in ids.iter().enumerate() {
        let expected = &["2", "3"][index.min(2)..];
        let again: Vec<Value> = match expected {
            [] => Vec::new(),
            _ => results(&mut two.events_after("/events", id).await, expected)
                .await
                .into_iter()
                .map(|e| e.data)
                .collect(),
        };
        assert!(again.iter().all(|data| expected.iter().any(|call| data["call_id"] == *call)), "{id}: {again:#?}");
    }
}
