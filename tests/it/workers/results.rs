//! Results of several calls in one request.

use serde_json::{Value, json};

use super::{answer, called, claim, claim_one, service, tool};
use crate::nodes::pair;
use crate::support::calls::{assert_counts, id_of};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Client, Response, eventually};

async fn post_results(client: &Client, results: &[(&Value, Value)]) -> Response {
    let of = |(call, result): &(&Value, Value)| json!({"id": call["id"], "token": call["token"], "result": result});
    let results: Vec<Value> = results.iter().map(of).collect();
    client.post("/workers/q/results", &json!({"worker": "w", "results": results})).await
}

fn outcomes(answer: &Value) -> Vec<&str> {
    answer["results"].as_array().unwrap().iter().map(|receipt| receipt["outcome"].as_str().unwrap()).collect()
}

on_both_databases!(
    async fn results_of_several_calls_are_recorded_in_one_request(backend: Backend) {
        let app = service(backend, json!({})).await;
        let mut ids = Vec::new();
        for n in 0..4 {
            ids.push(called(&app, json!({"n": n})).await);
        }
        let mut calls = Vec::new();
        while calls.len() < 4 {
            calls.extend(claim(&app, "w", 4).await);
        }
        let results = [
            (&calls[0], json!("text")),
            (&calls[1], json!({"output": "shown", "details": {"n": 1}})),
            (&calls[2], json!({"output": "no such city", "is_error": true})),
            (&calls[3], json!({"a": 1})),
        ];
        let receipts = post_results(&app, &results).await.ok();
        assert_eq!(outcomes(&receipts), ["recorded"; 4], "{receipts:#}");
        let order: Vec<String> = receipts["results"].as_array().unwrap().iter().map(id_of).collect();
        assert_eq!(order, calls.iter().map(id_of).collect::<Vec<_>>());
        // The calls have ended when the response arrives.
        let ended = [
            app.stored(&id_of(&calls[0])).await,
            app.stored(&id_of(&calls[1])).await,
            app.stored(&id_of(&calls[2])).await,
            app.stored(&id_of(&calls[3])).await,
        ];
        assert_eq!((succeeded(&ended[0]), succeeded(&ended[1])), ("text", "shown"));
        assert_eq!(ended[1]["details"]["n"], 1);
        assert!(failed(&ended[2], "TOOL_EXECUTION_ERROR").contains("no such city"));
        assert_eq!(ended[3]["structured"], json!({"a": 1}));
        assert_counts(&app.stats("t").await, json!({"execution_count": 4, "success_count": 3, "failure_count": 1}));
        // A repetition changes nothing.
        assert_eq!(outcomes(&post_results(&app, &results).await.ok()), ["ignored"; 4]);
        assert!(answer(&app, &calls[0], &json!("again")).await);
    }
);

on_both_databases!(
    async fn null_is_the_word_null_and_no_result_is_done(backend: Backend) {
        let app = service(backend, json!({})).await;
        let mut ids = Vec::new();
        for n in 0..4 {
            ids.push(called(&app, json!({"n": n})).await);
        }
        let mut calls = Vec::new();
        while calls.len() < 4 {
            calls.extend(claim(&app, "w", 4).await);
        }
        let member = |call: &Value| json!({"id": call["id"], "token": call["token"]});
        let first = crate::support::calls::with(member(&calls[0]), json!({"result": null}));
        let body = json!({"worker": "w", "results": [first, member(&calls[1])]});
        assert_eq!(outcomes(&app.post("/workers/q/results", &body).await.ok()), ["recorded"; 2]);
        assert!(!answer(&app, &calls[2], &Value::Null).await);
        let request = app.request(reqwest::Method::POST, &format!("/tool-calls/{}/result", id_of(&calls[3])));
        let nothing = crate::support::client::send(request.bearer_auth(calls[3]["token"].as_str().unwrap())).await;
        assert_eq!(nothing.ok()["ignored"], false);
        for (call, expected) in calls.iter().zip(["null", "Done", "null", "Done"]) {
            assert_eq!(succeeded(&app.ended(&id_of(call)).await), expected);
        }
    }
);

on_both_databases!(
    async fn each_result_of_a_request_counts_separately(backend: Backend) {
        let app = service(backend, json!({})).await;
        let (kept, cancelled) = (called(&app, json!({})).await, called(&app, json!({})).await);
        let mut calls = Vec::new();
        while calls.len() < 2 {
            calls.extend(claim(&app, "w", 2).await);
        }
        let of = |id: &str| calls.iter().find(|call| id_of(call) == id).unwrap();
        app.cancel(&cancelled).await;
        app.ended(&cancelled).await;
        let receipts = post_results(&app, &[(of(&cancelled), json!(1)), (of(&kept), json!(2))]).await.ok();
        assert_eq!(outcomes(&receipts), ["ignored", "recorded"]);
        assert_eq!(app.stored(&kept).await["structured"], 2);
        failed(&app.stored(&cancelled).await, "CANCELLED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn result_requires_the_token_of_its_call() {
    let app = service(Backend::Sqlite, json!({})).await;
    let id = called(&app, json!({})).await;
    let call = claim_one(&app, "w").await;
    let mut wrong = call.clone();
    wrong["token"] = json!("1.AAAA");
    let other = {
        let mut other = call.clone();
        other["id"] = json!("01890000-0000-7000-8000-000000000000");
        other
    };
    assert_eq!(outcomes(&post_results(&app, &[(&wrong, json!(1)), (&other, json!(1))]).await.ok()), ["refused"; 2]);
    for (results, pointer) in [
        (vec![(&call, json!(1)), (&call, json!(2))], "/results/1/id"),
        (Vec::new(), "/results"),
        (vec![(&call, json!(1)); 65], "/results"),
    ] {
        let problem = post_results(&app, &results).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    assert_eq!(app.in_phase(&id, "external").await["status"], "DOING");
    assert_eq!(outcomes(&post_results(&app, &[(&call, json!(1))]).await.ok()), ["recorded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_reach_the_owners_of_their_calls_from_any_node() {
    requires_postgres!();
    let (one, other) = pair().await;
    tool(&one, json!({})).await;
    eventually("the tool", async || (other.get("/tools/t").await.status == 200).then_some(())).await;
    let ids = [called(&one, json!({})).await, called(&other, json!({})).await];
    let mut calls = Vec::new();
    while calls.len() < 2 {
        calls.extend(claim(&one, "w", 2).await);
    }
    let results: Vec<(&Value, Value)> = calls.iter().map(|call| (call, call["id"].clone())).collect();
    assert_eq!(outcomes(&post_results(&other, &results).await.ok()), ["recorded"; 2]);
    for id in &ids {
        assert_eq!(succeeded(&one.ended(id).await), id);
        assert_eq!(succeeded(&other.ended(id).await), id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_results_are_checked() {
    let app = App::start(Backend::Sqlite).await;
    for (body, pointer) in [
        (json!({"worker": "w"}), "/results"),
        (json!({"worker": "w", "results": [{"id": "x", "token": "t"}]}), "/results/0/id"),
        (json!({"worker": "w", "results": [{"id": "01890000-0000-7000-8000-000000000000"}]}), "/results/0/token"),
        (json!({"worker": "", "results": []}), "/worker"),
    ] {
        let problem = app.post("/workers/q/results", &body).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
}
