//! Tests for all vendors; the golden cases are in `tests/fixtures/messages`.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::call::CallRecord;
use crate::domain::{ContentBlock, Failure, Outcome, Time};

const VENDORS: [Vendor; 4] = [Vendor::OpenAi, Vendor::OpenAiResponses, Vendor::Anthropic, Vendor::Gemini];

fn call(outcome: Option<Outcome>) -> Call {
    let mut call =
        Call::from(CallRecord::accepted(Uuid::nil(), "t".into(), None, Arc::new(json!({})), Time(0), "n".into()));
    call.start(Time(1)).unwrap();
    if let Some(outcome) = outcome {
        call.settle(outcome, Time(2)).unwrap();
    }
    call
}

fn rendered(vendor: Vendor, call: &Call) -> Value {
    let mut continuation = Continuation::new(vendor);
    continuation.push(Some("c"), "t", Kind::Function);
    continuation.messages(&[call])
}

fn image(mime_type: &str) -> ContentBlock {
    ContentBlock::Image { data: "AAAA".into(), mime_type: mime_type.into() }
}

#[test]
fn no_calls_give_no_messages() {
    for vendor in VENDORS {
        assert_eq!(Continuation::new(vendor).messages(&[]), json!([]));
    }
}

#[test]
fn details_metadata_and_data_are_hidden_from_models() {
    let planted = json!({"planted": "planted"}).as_object().unwrap().clone();
    let outcome = Outcome {
        details: planted.clone(),
        metadata: planted.clone(),
        structured: Some(Arc::new(planted.into())),
        ..Outcome::text("fine")
    };
    let call = call(Some(outcome));
    for vendor in VENDORS {
        let text = rendered(vendor, &call).to_string();
        assert!(text.contains("fine") && !text.contains("planted"), "{text}");
    }
}

#[test]
fn pending_call_has_a_message() {
    let call = call(None);
    for vendor in VENDORS {
        let text = rendered(vendor, &call).to_string();
        assert!(text.contains(&call.id.to_string()) && text.contains("background"), "{text}");
    }
}

#[test]
fn unsupported_image_is_replaced_by_a_note() {
    let blocks = || vec![ContentBlock::Text("look".into()), image("image/png"), ContentBlock::Text(String::new())];
    let call_with = |blocks: Vec<ContentBlock>| call(Some(Outcome::blocks(blocks)));
    let note = "look\n[an image (image/png) was omitted: it cannot be shown here]";
    let call = call_with(blocks());
    assert_eq!(rendered(Vendor::OpenAi, &call)[0]["content"], note);
    assert_eq!(
        rendered(Vendor::OpenAiResponses, &call)[0]["output"],
        json!([{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}])
    );
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    assert_eq!(
        rendered(Vendor::Anthropic, &call)[0]["content"][0]["content"],
        json!([{"type": "text", "text": "look"}, {"type": "image", "source": source}])
    );
    let response = &rendered(Vendor::Gemini, &call)[0]["parts"][0]["functionResponse"];
    assert_eq!(response["response"], json!({"output": "look"}));
    assert_eq!(response["parts"], json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]));
    let strange = call_with(vec![image("image/x-strange")]);
    for vendor in VENDORS {
        let text = rendered(vendor, &strange).to_string();
        assert!(text.contains("was omitted") && !text.contains("AAAA"), "{text}");
    }
}

#[test]
fn error_is_marked_in_each_vendors_way() {
    let failed = call(Some(Outcome::failed(Failure::truncated("t"))));
    let text = "Error: Tool call";
    assert!(rendered(Vendor::OpenAi, &failed)[0]["content"].as_str().unwrap().starts_with(text));
    assert!(rendered(Vendor::OpenAiResponses, &failed)[0]["output"].as_str().unwrap().starts_with(text));
    let block = &rendered(Vendor::Anthropic, &failed)[0]["content"][0];
    assert_eq!(block["is_error"], true);
    assert!(block["content"].as_str().unwrap().starts_with(text));
    let response = &rendered(Vendor::Gemini, &failed)[0]["parts"][0]["functionResponse"]["response"];
    assert!(response["error"].as_str().unwrap().starts_with(text) && response.get("output").is_none());
}

#[test]
fn errors_for_anthropic_have_text_only() {
    let failure = Failure::truncated("t");
    let silent = Outcome { error: Some(failure.clone()), ..Outcome::text("") };
    let pictured = Outcome { error: Some(failure), ..Outcome::blocks(vec![image("image/png")]) };
    for outcome in [silent, pictured] {
        let block = rendered(Vendor::Anthropic, &call(Some(outcome)))[0]["content"][0].clone();
        assert_eq!(block["is_error"], true);
        assert!(!block["content"].as_str().unwrap().is_empty());
    }
}

#[test]
fn ids_of_native_calls_are_mapped_and_model_ids_never() {
    let call = call(Some(Outcome::text("x")));
    let odd = format!("a.b/{}", "c".repeat(600));
    let mut own = Continuation::new(Vendor::Anthropic);
    own.push_own(Some(&odd), "t");
    own.push_own(None, "t");
    let results = own.messages(&[&call, &call]);
    assert!(results[0]["content"][0]["tool_use_id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(results[0]["content"][1]["tool_use_id"], call.id.to_string());
    let mut continuation = Continuation::new(Vendor::Anthropic);
    continuation.push(Some(&odd), "t", Kind::Function);
    assert_eq!(continuation.messages(&[&call])[0]["content"][0]["tool_use_id"], odd);
}
