//! Tests of what is removed, and what stays.

use serde_json::json;

use super::*;
use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::{Call, Failure, Time};

fn redact(options: Value) -> Redact {
    Redact::read(&options).unwrap()
}

fn ended(arguments: Value, outcome: Outcome) -> Call {
    let arguments = Arc::new(arguments);
    let mut call =
        Call::from(CallRecord::accepted(uuid::Uuid::nil(), "t".into(), None, arguments.clone(), Time(0), "n".into()));
    call.set_effective_arguments(arguments);
    call.start(Time(1)).unwrap();
    call.settle(outcome, Time(2)).unwrap();
    call
}

/// Returns everything stored of a call, as text.
fn image(call: &Call) -> String {
    let view = serde_json::to_string(&toolpost_core::formats::native::ToolCall::from(call)).unwrap();
    format!("{view} {:?}", call)
}

#[test]
fn pointers_redact_members_of_arguments_data_and_text() {
    let hook = redact(json!({"pointers": ["/arguments/pin", "/structured/a/0/b~1c", "/details/who", "/structured/x"]}));
    let data = json!({"a": [{"b/c": "SECRET"}], "pin": 1});
    let mut call = ended(json!({"pin": "SECRET", "to": "me"}), Outcome::data(Arc::new(data)));
    call.rewrite(|record| {
        Arc::make_mut(record.outcome.as_mut().unwrap()).details.insert("who".into(), "SECRET".into());
    });
    assert!(call.rewrite(|record| hook.apply(record)));
    assert!(!image(&call).contains("SECRET"), "{}", image(&call));
    let outcome = call.outcome.clone().unwrap();
    assert_eq!(outcome.output, r#"{"a":[{"b/c":"[redacted]"}],"pin":1}"#);
    assert_eq!(*call.arguments, json!({"pin": "[redacted]", "to": "me"}));
    assert!(Arc::ptr_eq(&call.arguments, call.effective_arguments.as_ref().unwrap()));
}

#[test]
fn textual_arguments_stay_text() {
    let hook = redact(json!({"pointers": ["/arguments/pin"], "replacement": "$0"}));
    let mut call = ended(json!("{\"pin\": \"SECRET\"}"), Outcome::text("ok"));
    assert!(call.rewrite(|record| hook.apply(record)));
    assert_eq!(*call.arguments, json!("{\"pin\":\"$0\"}"));
    let mut other = ended(json!("{ \"to\": 1 }"), Outcome::text("ok"));
    assert!(!other.rewrite(|record| hook.apply(record)));
    assert_eq!(*other.arguments, json!("{ \"to\": 1 }"));
}

#[test]
fn patterns_redact_text_and_numbers_everywhere() {
    let hook = redact(json!({"patterns": ["4[0-9]{3}"]}));
    let data = json!({"card": 4111, "text": "4222 and", "deep": [{"x": "a4333"}]});
    let mut call = ended(json!({"card": "4444"}), Outcome::data(Arc::new(data)));
    call.set_tip("4555".into());
    call.extend_metadata([("m".to_owned(), json!({"n": "4666"}))]);
    assert!(call.rewrite(|record| hook.apply(record)));
    let image = image(&call);
    for number in ["4111", "4222", "4333", "4444", "4555", "4666"] {
        assert!(!image.contains(number), "{number} in {image}");
    }
    let outcome = call.outcome.clone().unwrap();
    assert_eq!(*outcome.structured.clone().unwrap(), serde_json::from_str::<Value>(&outcome.output).unwrap());
}

#[test]
fn empty_match_does_not_grow_a_call() {
    let empty = redact(json!({"patterns": ["x*"]}));
    let mut call = ended(json!({}), Outcome::text("axb"));
    assert!(call.rewrite(|record| empty.apply(record)));
    assert_eq!(call.outcome.as_ref().unwrap().output, "a[redacted]b");
    let all = redact(json!({"patterns": ["."], "replacement": "r".repeat(1000)}));
    let mut call = ended(json!({}), Outcome::text("s".repeat(4000)));
    for _ in 0..5 {
        call.rewrite(|record| all.apply(record));
    }
    let image = image(&call);
    assert!(!image.contains('s'.to_string().repeat(9).as_str()) && image.len() < 5 * 5 * MAX_GROWTH, "{}", image.len());
}

#[test]
fn match_across_the_text_redacts_the_data() {
    let hook = redact(json!({"patterns": ["\"pin\":\"[a-z]+\""]}));
    let mut call = ended(json!({}), Outcome::data(Arc::new(json!({"pin": "secret"}))));
    assert!(call.rewrite(|record| hook.apply(record)));
    assert!(!image(&call).contains("secret"));
}

#[test]
fn failure_is_redacted_in_all_its_forms() {
    let hook = redact(json!({"patterns": ["SECRET"]}));
    let failure = Failure::execution("t", "SECRET is wrong").with_details(json!({"was": ["SECRET"]}));
    let mut call = ended(json!({}), failure.into());
    assert!(call.rewrite(|record| hook.apply(record)));
    assert!(!image(&call).contains("SECRET"), "{}", image(&call));
}

#[test]
fn calls_without_matches_stay_unchanged_and_bad_options_are_rejected() {
    let hook = redact(json!({"patterns": ["x"], "pointers": ["/arguments/y"]}));
    assert!(!ended(json!({"a": 1}), Outcome::text("b")).rewrite(|record| hook.apply(record)));
    for (options, pointer) in [
        (json!({}), ""),
        (json!({"patterns": ["("]}), "/patterns/0"),
        (json!({"patterns": ["a", "(a{1000}){1000}"]}), "/patterns/1"),
        (json!({"pointers": ["/output"]}), "/pointers/0"),
        (json!({"pointers": ["/arguments"]}), "/pointers/0"),
        (json!({"pointer": []}), "/pointer"),
    ] {
        assert_eq!(Redact::read(&options).unwrap_err()[0].0, pointer, "{options}");
    }
}

#[test]
fn unicode_patterns_may_repeat_and_large_ones_are_explained() {
    let read = |patterns: &[&str]| Redact::read(&json!({ "patterns": patterns }));
    assert!(read(&[r"\w{16}"; MAX_LARGE_PATTERNS]).is_ok());
    let many = [r"\w{16}"; MAX_LARGE_PATTERNS + 1];
    for (patterns, pointer) in [(&[r"\w{1000}"][..], "/patterns/0"), (&many[..], "/patterns/8")] {
        let faults = read(patterns).unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].0, pointer);
        assert!(faults[0].1.contains("too large") && faults[0].1.contains("(?-u:"), "{}", faults[0].1);
    }
    assert!(read(&[r"(?-u:\w){1000}"]).is_ok());
}
