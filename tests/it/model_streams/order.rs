//! The order and concurrency of the calls of a stream.

use serde_json::{Value, json};

use super::{Pipe, batch, call, end, message_start, next};
use crate::support::{App, Backend, Client};

/// Returns when each call started and ended, in the order of the results.
async fn ran(app: &Client, query: &str, calls: &[(&str, Value)]) -> Vec<(String, String)> {
    let (pipe, mut events) = Pipe::open(app, query).await;
    pipe.say(&[message_start()]);
    for (index, (name, arguments)) in calls.iter().enumerate() {
        pipe.say(&call(index, &format!("toolu_{index}"), name, arguments));
    }
    pipe.say(&end("tool_use"));
    drop(pipe);
    let events = events.rest().await;
    let results = batch(&events)["results"].as_array().unwrap().clone();
    let indexes: Vec<_> = results.iter().map(|result| result["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..calls.len() as u64).collect::<Vec<_>>());
    let time = |result: &Value, name: &str| result[name].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
    results.iter().map(|result| (time(result, "started_at"), time(result, "ended_at"))).collect()
}

async fn unsafe_wait(app: &Client) {
    let tool = json!({"name": "slow", "executor": {"type": "builtin", "name": "wait"}});
    app.put("/tools/slow", &tool).await;
}

on_both_databases!(
    async fn unsafe_call_runs_alone_and_in_order(backend: Backend) {
        let app = App::start(backend).await;
        unsafe_wait(&app).await;
        let calls = [("wait", json!({"ms": 100})), ("slow", json!({"ms": 50})), ("wait", json!({"ms": 10}))];
        let times = ran(&app, "format=anthropic", &calls).await;
        assert!(times[0].1 <= times[1].0 && times[1].1 <= times[2].0, "{times:?}");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn serial_calls_wait_for_each_other() {
    let app = App::on_sqlite().await;
    let calls = [("wait", json!({"ms": 50})), ("wait", json!({"ms": 1})), ("wait", json!({"ms": 1}))];
    let times = ran(&app, "format=anthropic&mode=serial", &calls).await;
    assert!(times[0].1 <= times[1].0 && times[1].1 <= times[2].0, "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_do_not_wait() {
    let app = App::on_sqlite().await;
    unsafe_wait(&app).await;
    let (pipe, mut events) = Pipe::open(&app, "format=anthropic&mode=parallel").await;
    pipe.say(&[message_start()]);
    pipe.say(&call(0, "toolu_0", "slow", &json!({"ms": 60000})));
    pipe.say(&call(1, "toolu_1", "slow", &json!({"ms": 1})));
    let first = next(&mut events, |event| event.is_result()).await;
    assert_eq!(first.data["call_id"], "toolu_1");
}
