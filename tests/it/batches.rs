//! Native batches: modes, order and independence.

use serde_json::{Value, json};

use crate::support::app::http_tool;
use crate::support::shapes::{ids, names_field, points_at};
use crate::support::{Answer, App, Backend, HttpTool};

/// Starts a server that answers `/pair` and `/trio` once two or three requests have arrived, and other paths at once.
async fn server() -> HttpTool {
    let text = || Box::new(Answer::text("ok"));
    HttpTool::start("127.0.0.1", move |request| match request.target.as_str() {
        "/pair" => Answer::Together(2, text()),
        "/trio" => Answer::Together(3, text()),
        _ => *text(),
    })
    .await
}

async fn tool(app: &App, server: &HttpTool, name: &str, concurrency_safe: Value) {
    let mut definition = http_tool(name, json!({"url": server.url(&format!("/{name}"))}));
    definition["concurrency_safe"] = concurrency_safe;
    app.register(definition).await;
}

fn calls(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

fn outcomes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|call| call["status"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_id_is_shown_by_its_calls() {
    let app = App::on_sqlite().await;
    let body = json!({"calls": [{"name": "echo", "id": "x"}, {"name": "echo", "id": "y"}]});
    let answer = app.post("/tool-calls", &body).await.ok();
    let batch_id: uuid::Uuid = answer["batch_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(batch_id.get_version_num(), 7);
    for (index, call) in answer["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&call["batch_id"], &call["index"]), (&answer["batch_id"], &json!(index)));
    }
}

on_both_databases!(
    async fn results_stand_in_request_order_whatever_the_mode(backend: Backend) {
        let app = App::start(backend).await;
        for mode in ["auto", "parallel", "serial"] {
            let calls: Vec<Value> = (0..20)
                .map(|n| match n % 3 {
                    0 => json!({"name": "echo", "id": format!("{n}"), "arguments": {"n": n}}),
                    1 => json!({"name": "wait", "id": format!("{n}"), "arguments": {"ms": 20 - n}}),
                    _ => json!({"name": "nobody", "id": format!("{n}")}),
                })
                .collect();
            let results = app.batch(json!({"calls": calls, "mode": mode})).await;
            let order: Vec<&str> = results.iter().map(|call| call["call_id"].as_str().unwrap()).collect();
            assert_eq!(order, (0..20).map(|n| n.to_string()).collect::<Vec<_>>(), "{mode}");
        }
    }
);

on_both_databases!(
    async fn failure_affects_no_other_call(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_with("strict", json!({"type": "object", "required": ["a"]})).await;
        for mode in ["auto", "parallel", "serial"] {
            let body = json!({"calls": calls(&["echo", "nobody", "strict", "calculate", "echo"]), "mode": mode});
            let results = app.batch(body).await;
            assert_eq!(outcomes(&results), ["SUCCESS", "ERROR", "ERROR", "ERROR", "SUCCESS"], "{mode}");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn auto_runs_neighbouring_safe_calls_together() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    tool(&app, &server, "trio", json!(true)).await;
    let results = app.batch(json!({"calls": calls(&["trio", "trio", "trio"])})).await;
    assert_eq!(outcomes(&results), ["SUCCESS"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_tool_is_safe_unless_declared_otherwise() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    for (name, concurrency_safe) in [("pair", Value::Null), ("alone", json!(false))] {
        let mut definition = http_tool(name, json!({"url": server.url(&format!("/{name}"))}));
        definition["annotations"] = json!({"read_only": true});
        definition["concurrency_safe"] = concurrency_safe;
        app.register(definition).await;
    }
    assert_eq!(outcomes(&app.batch(json!({"calls": calls(&["pair", "pair"])})).await), ["SUCCESS"; 2]);
    app.batch(json!({"calls": calls(&["alone", "alone", "alone"])})).await;
    assert_eq!(&server.log()[4..], ["start /alone", "end /alone"].repeat(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_runs_any_other_call_alone_and_in_order() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    tool(&app, &server, "pair", json!(true)).await;
    tool(&app, &server, "alone", Value::Null).await;
    tool(&app, &server, "after", json!(true)).await;
    let results = app.batch(json!({"calls": calls(&["pair", "pair", "alone", "alone", "after"])})).await;
    assert_eq!(outcomes(&results), ["SUCCESS"; 5]);
    let expected = ["start /alone", "end /alone", "start /alone", "end /alone", "start /after", "end /after"];
    assert_eq!(&server.log()[4..], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_runs_all_at_once() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    tool(&app, &server, "trio", json!(false)).await;
    let results = app.batch(json!({"calls": calls(&["trio", "trio", "trio"]), "mode": "parallel"})).await;
    assert_eq!(outcomes(&results), ["SUCCESS"; 3]);
    assert_eq!(server.max_running(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_runs_one_after_another_in_order() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, server().await);
    for name in ["a", "b", "c"] {
        tool(&app, &server, name, json!(true)).await;
    }
    app.batch(json!({"calls": calls(&["c", "a", "b"]), "mode": "serial"})).await;
    assert_eq!(server.log(), ["start /c", "end /c", "start /a", "end /a", "start /b", "end /b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_mode_is_named() {
    let app = App::on_sqlite().await;
    let problem = app.post("/tool-calls", &json!({"calls": calls(&["echo"]), "mode": "random"})).await.problem(422);
    points_at(&problem, "/mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_id_is_a_422_and_nothing_runs() {
    let app = App::on_sqlite().await;
    let calls = json!([{"name": "echo", "id": "a"}, {"name": "echo", "id": "b"}, {"name": "echo", "id": "a"}]);
    let problem = app.post("/tool-calls", &json!({"calls": calls})).await.problem(422);
    points_at(&problem, "/calls/2");
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_field_inside_a_batch_has_its_pointer() {
    let app = App::on_sqlite().await;
    let body = json!({"calls": [{"name": "echo"}, {"name": "echo", "argumnts": {}}]});
    let problem = app.post("/tool-calls", &body).await.problem(422);
    names_field(&problem, "argumnts");
    points_at(&problem, "/calls/1");
    let beside = json!({"calls": calls(&["echo"]), "mod": "serial"});
    names_field(&app.post("/tool-calls", &beside).await.problem(422), "mod");
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_next_to_the_calls_apply_to_each() {
    let app = App::on_sqlite().await;
    let nap = json!({"name": "wait", "arguments": {"ms": 60_000}});
    let body = json!({"calls": [nap, {"name": "echo"}, nap], "limits": {"timeout_ms": 50}, "mode": "parallel"});
    let results = app.batch(body).await;
    assert_eq!(outcomes(&results), ["ERROR", "SUCCESS", "ERROR"]);
    assert_eq!(results[2]["error"]["code"], "TOOL_TIMEOUT");
}

on_both_databases!(
    async fn calls_are_found_by_their_batch(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({})).await;
        let answer = app.post("/tool-calls", &json!({"calls": calls(&["echo", "nobody", "echo"])})).await.ok();
        let path = format!("/tool-calls?batch_id={}", answer["batch_id"].as_str().unwrap());
        let mut found = ids(&app.get(&path).await.ok()["tool_calls"]);
        let mut expected = ids(&answer["results"]);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn truncated_answer_runs_none_of_its_calls() {
    let app = App::on_sqlite().await;
    let results = app.batch(json!({"calls": calls(&["echo", "echo"]), "stop_reason": "length"})).await;
    assert!(results.iter().all(|call| call["error"]["code"] == "ARGUMENTS_TRUNCATED"));
    assert_eq!(app.stats("echo").await["execution_count"], 0);
}
