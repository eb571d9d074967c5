//! Calls in Toolpost's own format with messages of a vendor in the response.

use serde_json::{Value, json};

use super::{VENDORS, result_ids};
use crate::support::App;
use crate::support::shapes::{names_field, points_at};

#[tokio::test(flavor = "multi_thread")]
async fn native_batch_with_a_format_is_answered_with_messages() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        let calls = json!([{"name": "echo", "id": "a"}, {"name": "nobody", "id": "b"}]);
        let answer = app.post("/tool-calls", &json!({"format": vendor, "calls": calls})).await.ok();
        assert_eq!(result_ids(vendor, &answer["messages"]), ["a", "b"], "{vendor}");
    }
    let strict = json!({"format": "openai-strict", "calls": [{"name": "echo", "id": "a"}]});
    assert_eq!(result_ids("openai", &app.post("/tool-calls", &strict).await.ok()["messages"]), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn native_call_with_a_format_is_a_batch() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        let answer = app.post("/tool-calls", &json!({"format": vendor, "name": "echo", "id": "a"})).await.ok();
        assert_eq!(result_ids(vendor, &answer["messages"]), ["a"], "{vendor}");
        assert_eq!(answer["results"][0]["batch_id"], answer["batch_id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_a_vendor_rejects_are_mapped() {
    let app = App::on_sqlite().await;
    let odd = format!("a.b {}", "c".repeat(100));
    for vendor in ["openai", "openai-responses", "anthropic"] {
        let calls = json!([{"name": "echo", "id": odd}, {"name": "echo"}, {"name": "echo", "id": "fine"}]);
        let body = json!({"format": vendor, "calls": calls});
        let answer = app.post("/tool-calls", &body).await.ok();
        let ids = result_ids(vendor, &answer["messages"]);
        assert!(ids[0].len() <= 40 && ids[0] != odd, "{vendor}: {}", ids[0]);
        assert_eq!((&json!(ids[1]), ids[2].as_str()), (&answer["results"][1]["id"], "fine"), "{vendor}");
        assert_eq!(answer["results"][0]["call_id"], odd, "{vendor}");
        let again = app.post("/tool-calls", &body).await.ok();
        assert_eq!(result_ids(vendor, &again["messages"])[0], ids[0], "{vendor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn native_body_without_a_format_is_unchanged() {
    let app = App::on_sqlite().await;
    for format in [Value::Null, json!("native")] {
        let one = app.post("/tool-calls", &json!({"format": format, "name": "echo"})).await.ok();
        assert_eq!((one["status"].as_str(), one.get("messages")), (Some("SUCCESS"), None));
        let batch = app.post("/tool-calls", &json!({"format": format, "calls": [{"name": "echo"}]})).await.ok();
        let members: Vec<&String> = batch.as_object().unwrap().keys().collect();
        assert_eq!(members, ["batch_id", "results"]);
    }
    for (member, value) in
        [("output", json!([])), ("content", json!([])), ("type", json!("function")), ("parts", json!([]))]
    {
        let problem = app.post("/tool-calls", &json!({"name": "echo", member: value})).await.problem(422);
        names_field(&problem, member);
    }
    points_at(&app.post("/tool-calls", &json!({"format": "anthropic", "calls": []})).await.problem(422), "/calls");
}
