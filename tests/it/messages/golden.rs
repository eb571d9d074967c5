//! The golden cases of `tests/fixtures/messages`: the calls in each body, and the response of the service.

use std::fs;

use serde_json::{Value, json};
use toolpost::formats::messages;

use super::VENDORS;
use crate::support::App;
use crate::support::fixture::project_file;

fn cases(vendor: &str) -> Vec<Value> {
    let text = fs::read_to_string(project_file(&format!("tests/fixtures/messages/{vendor}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_message_is_recognised_and_its_calls_are_read() {
    for vendor in VENDORS {
        for case in cases(vendor) {
            let found = messages::recognise(&case["body"]).unwrap_or_else(|| panic!("{vendor}: {}", case["case"]));
            assert_eq!(found.as_str(), vendor, "{}", case["case"]);
            let spoken = messages::read(found, case["body"].clone()).unwrap();
            let cut_off = case["is_cut_off"].as_bool().unwrap_or_default();
            assert_eq!(spoken.is_cut_off, cut_off, "{vendor}: {}", case["case"]);
            let calls = spoken.calls.iter().map(|call| {
                let mut seen = json!({"id": call.id, "name": call.name, "arguments": call.arguments});
                if call.kind != messages::Kind::Function {
                    seen["kind"] = format!("{:?}", call.kind).into();
                }
                if call.is_cut_off {
                    seen["is_cut_off"] = true.into();
                }
                assert!(case["body"].pointer(&call.pointer).is_some_and(Value::is_object), "{}", call.pointer);
                seen
            });
            assert_eq!(calls.collect::<Value>(), case["calls"], "{vendor}: {}", case["case"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_has_its_expected_answer() {
    let app = App::on_sqlite().await;
    for vendor in VENDORS {
        for case in cases(vendor) {
            let name = format!("{vendor}: {}", case["case"]);
            let answer = app.post("/tool-calls", &case["body"]).await;
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
            let answer = answer.json;
            let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
            assert_eq!(members, ["batch_id", "results", "messages"], "{name}");
            let (results, calls) = (answer["results"].as_array().unwrap(), case["calls"].as_array().unwrap());
            assert_eq!((results.len(), answer["batch_id"].is_null()), (calls.len(), calls.is_empty()), "{name}");
            for (index, (result, call)) in results.iter().zip(calls).enumerate() {
                assert_eq!((&result["name"], &result["index"]), (&call["name"], &json!(index)), "{name}");
                let id = if call["id"].is_null() { &result["id"] } else { &call["id"] };
                assert_eq!(&result["call_id"], id, "{name}");
            }
            assert_eq!(answer["messages"], case["messages"], "{name}");
            // An explicit format gives the same response.
            if let Value::Object(mut body) = case["body"].clone() {
                body.insert("format".into(), vendor.into());
                let response = app.post("/tool-calls", &body.into()).await.ok();
                assert_eq!(response["messages"], case["messages"], "{name}");
            }
        }
    }
}
