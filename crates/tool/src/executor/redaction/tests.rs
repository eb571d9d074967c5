use std::sync::Arc;

use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "sk-/a+\"b\\ü?é&c d~";

fn redaction(secret: &str) -> Redaction {
    Redaction::of([&secret.into()]).unwrap().unwrap()
}

fn clean(text: &str) -> String {
    redaction(SECRET).text(text).into_owned()
}

#[test]
fn secret_is_found_in_every_form() {
    let quoted = Value::String(SECRET.into()).to_string();
    for form in [
        SECRET.to_owned(),
        quoted.clone(),
        Value::String(quoted).to_string(),
        "sk-/a+\\\"b\\\\\\u00fc?\\u00e9&c d~".to_owned(),
        "sk-%2Fa%2B%22b%5C%C3%BC%3F%C3%A9%26c%20d~".to_owned(),
        "sk-%2fa%2b%22b%5c%c3%bc%3f%c3%a9%26c+d~".to_owned(),
        STANDARD.encode(SECRET),
        URL_SAFE.encode(SECRET),
        STANDARD.encode(format!("user:{SECRET}")),
        STANDARD.encode(format!("a user:{SECRET}, and more")),
    ] {
        let text = clean(&format!("before {form} after"));
        assert!(text.contains(REDACTED) && text.starts_with("before ") && text.ends_with(" after"), "{form}: {text}");
        assert!(!text.contains("sk-"), "{text}");
    }
    assert_eq!(clean("nothing to redact"), "nothing to redact");
}

#[test]
fn short_secret_is_not_redacted_inside_words() {
    assert!(Redaction::of([&json!("abc"), &json!(true), &json!(null), &json!(12345)]).unwrap().is_none());
    let redaction = Redaction::of([&json!({"a": [123456, "xyz123"]})]).unwrap().unwrap();
    let mut value = json!({"n": 123456, "text": "n=1234567", "xyz123": {"deep": ["xyz123"]}});
    redaction.value(&mut value);
    assert_eq!(value, json!({"n": REDACTED, "text": "n=[redacted]7", "[redacted]": {"deep": [REDACTED]}}));
}

#[test]
fn redacted_outcome_stays_consistent() {
    let redaction = redaction(SECRET);
    let data = redaction.outcome(Outcome::data(Arc::new(json!({"key": SECRET, "n": 1}))));
    assert_eq!(data.structured.as_deref(), Some(&json!({"key": REDACTED, "n": 1})));
    assert_eq!(data.output, r#"{"key":"[redacted]","n":1}"#);
    assert_eq!(data.content, [ContentBlock::Text(data.output.clone())]);

    let image = ContentBlock::Image { data: STANDARD.encode(SECRET), mime_type: "image/png".into() };
    let blocks = redaction.outcome(Outcome::blocks(vec![ContentBlock::Text(SECRET.into()), image]));
    assert_eq!((blocks.output.as_str(), blocks.content[1].clone()), (REDACTED, ContentBlock::Text(REDACTED.into())));

    let failed = Failure::execution("t", format!("no {SECRET}")).with_details(json!([SECRET]));
    let failed = redaction.outcome(failed.into());
    assert_eq!(failed.output, "Error executing tool \"t\": no [redacted]");
    assert_eq!(failed.error.unwrap().details, Some(json!([REDACTED])));
}

proptest! {
    #[test]
    fn every_form_of_a_secret_is_redacted(secret in "\\PC{6,40}", before in "[ -~]{0,5}", after in "[ -~]{0,5}") {
        let redaction = redaction(&secret);
        let around = format!("{before}{secret}{after}");
        let quoted = Value::String(around.clone()).to_string();
        for text in [around.clone(), quoted, STANDARD.encode(&around), URL_SAFE.encode(&around)] {
            prop_assert!(redaction.text(&text).contains(REDACTED));
        }
        prop_assert!(!redaction.text(&around).contains(&secret) || REDACTED.contains(&secret));
    }
}
