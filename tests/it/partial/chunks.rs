//! Chunks: accepted in order, once each, and shown as far as they can be parsed.

use serde_json::json;

use super::{ended, open, patch, piece};
use crate::support::{App, Backend};

on_both_databases!(
    async fn call_runs_with_its_joined_chunks(backend: Backend) {
        let app = App::start(backend).await;
        let id = open(&app, "echo", "{\"ci").await;
        piece(&app, &id, json!({"delta": "ty\":\"北", "seq": 1})).await;
        piece(&app, &id, json!({"delta": "京\",\"n\":1", "seq": 2})).await;
        let last = patch(&app, &id, &json!({"delta": "2}", "seq": 3, "final": true})).await;
        assert!([200, 202].contains(&last.status), "{}", last.json);
        assert_eq!(last.headers["location"], format!("/tool-calls/{id}"));
        let call = ended(&app, &id).await;
        assert_eq!(call["status"], "SUCCESS", "{call}");
        assert_eq!(call["arguments"], json!({"city": "北京", "n": 12}));
        assert_eq!(call["structured"], call["arguments"]);
        assert_eq!(call["call_id"], "call_1");
        let stats = app.get("/tools/echo/stats").await.ok();
        assert_eq!((&stats["execution_count"], &stats["rejected_count"]), (&json!(1), &json!(0)));
    }
);

on_both_databases!(
    async fn readable_part_is_shown_and_kept(backend: Backend) {
        let app = App::start(backend).await;
        let id = open(&app, "echo", "").await;
        let mut events = app.events(&format!("/tool-calls/{id}/events")).await;
        piece(&app, &id, json!({"delta": "{\"city\":\"Ber"})).await;
        events.until(|event| event.data["params"] == json!({"city": "Ber"})).await;
        piece(&app, &id, json!({"delta": "lin\",\"days\":3"})).await;
        events.until(|event| event.data["params"]["city"] == "Berlin").await;
        piece(&app, &id, json!({"delta": "}", "final": true})).await;
        let rest = events.rest().await;
        let whole = json!({"city": "Berlin", "days": 3});
        let statuses = rest.iter().filter(|event| event.event == "status");
        for event in statuses.filter(|event| event.data["status"] != "WAIT") {
            assert_eq!(event.data["params"], whole, "{:?}", event.data);
        }
        // A later subscriber receives the same events.
        let again = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!(again[0].data["arguments"], json!(null));
        assert_eq!((&again[1].data["status"], &again[1].data["phase"]), (&json!("WAIT"), &json!("arguments")));
        assert!(again.ends_with(&rest), "{again:#?}\n{rest:#?}");
        let numbers: Vec<u64> = again.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=again.len() as u64).collect::<Vec<_>>());
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn repeated_chunk_is_ignored_and_a_gap_is_rejected() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "{").await;
    piece(&app, &id, json!({"delta": "\"a\":", "seq": 1})).await;
    piece(&app, &id, json!({"delta": "\"a\":", "seq": 1})).await;
    let gap = patch(&app, &id, &json!({"delta": "}", "seq": 3})).await;
    assert_eq!((gap.status, &gap.json["code"]), (409, &json!("SEQUENCE_GAP")));
    assert!(gap.json["detail"].as_str().unwrap().contains("the next chunk is 2"), "{}", gap.json);
    piece(&app, &id, json!({"delta": "1}", "seq": 2, "final": true})).await;
    assert_eq!(ended(&app, &id).await["structured"], json!({"a": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn character_can_be_split_into_two_escapes() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "{\"face\":\"\\ud83d").await;
    piece(&app, &id, json!({"delta": "\\ude00\\u0"})).await;
    piece(&app, &id, json!({"delta": "000\"}", "final": true})).await;
    assert_eq!(ended(&app, &id).await["structured"], json!({"face": "😀\u{0}"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_rejected_by_field() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "").await;
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"delta": "x", "seq": 0}), "/seq"),
        (json!({"delta": 1}), "/delta"),
        (json!({"delta": "x", "seq": -1}), "/seq"),
        (json!({"delta": "x", "fin": true}), "/fin"),
        (json!([]), ""),
    ] {
        let refused = patch(&app, &id, &body).await;
        assert_eq!(refused.status, 422, "{body}: {}", refused.json);
        assert_eq!(refused.json["errors"][0]["pointer"], pointer, "{body}: {}", refused.json);
    }
    for (body, pointer) in [
        (json!({"calls": [{"name": "echo"}], "partial": true}), "/partial"),
        (json!({"name": "echo", "arguments": {}, "partial": true}), "/arguments"),
    ] {
        let refused = app.post("/tool-calls", &body).await;
        assert_eq!((refused.status, &refused.json["errors"][0]["pointer"]), (422, &json!(pointer)), "{body}");
    }
    let unknown = patch(&app, "0197a000-0000-7000-8000-000000000000", &json!({"final": true})).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_may_be_a_mebibyte_long_and_no_longer() {
    let app = App::on_sqlite().await;
    let id = open(&app, "echo", "{\"a\":\"").await;
    let half = "x".repeat(512 * 1024);
    piece(&app, &id, json!({"delta": half})).await;
    let too_long = patch(&app, &id, &json!({"delta": half})).await;
    assert_eq!((too_long.status, &too_long.json["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    piece(&app, &id, json!({"delta": "\"}", "final": true})).await;
    let call = ended(&app, &id).await;
    assert_eq!(call["status"], "SUCCESS");
    assert_eq!(call["structured"]["a"].as_str().unwrap().len(), half.len());
    let beyond = json!({"name": "echo", "partial": true, "arguments": "x".repeat(1024 * 1024 + 1)});
    assert_eq!(app.post("/tool-calls", &beyond).await.status, 413);
}
