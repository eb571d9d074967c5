use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::limits::{Bounds, Truncate};
use toolpost_core::domain::{ContentBlock, Failure, Outcome, Progress};

/// Generates text in which characters that databases and JSON treat specially are frequent.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\\x00-\\x1f\"\\\\a😀\u{2028}\u{fffd}]{0,12}"]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON allows only finite numbers", |number| number.is_finite()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(text(), inner, 0..6).prop_map(Value::from_iter),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    btree_map(text(), json_value(), 0..4).prop_map(Map::from_iter)
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(ContentBlock::Text),
        ("([A-Za-z0-9+/]{4}){0,4}", text()).prop_map(|(data, mime_type)| ContentBlock::Image { data, mime_type }),
        object().prop_map(|mut members| {
            members.insert("type".into(), "resource".into());
            ContentBlock::Other(members)
        }),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (text(), any::<Option<u64>>(), json_value().prop_filter("null is not a detail", |value| !value.is_null()))
        .prop_map(|(message, after, details)| Failure::execution("t", message).retryable(after).with_details(details))
}

fn cut(outcome: Outcome, bytes: u8) -> Outcome {
    let bounds = Bounds { bytes: bytes.into(), lines: 3, keep: Truncate::HeadTail };
    // The metadata of the call has its own strategy.
    Outcome { metadata: Map::new(), ..outcome.truncated(&bounds, Uuid::from_u128(7)) }
}

fn result() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        text().prop_map(Outcome::text),
        json_value().prop_map(|value| Outcome {
            structured: Some(Arc::new(value.clone())),
            ..Outcome::text(value.to_string())
        }),
        (vec(block(), 0..5), proptest::option::of(json_value()), object()).prop_map(
            |(content, structured, details)| {
                Outcome { structured: structured.map(Arc::new), details, ..Outcome::blocks(content) }
            }
        ),
        failure().prop_map(Outcome::from),
        // Truncated for the model.
        (vec(block(), 0..5), any::<u8>()).prop_map(|(content, bytes)| cut(Outcome::blocks(content), bytes)),
        (json_value(), any::<u8>()).prop_map(|(value, bytes)| cut(Outcome::data(Arc::new(value)), bytes)),
        (vec(block(), 0..3), failure()).prop_map(|(content, failure)| {
            let content_outcome = Outcome::blocks(content);
            Outcome { error: Some(Failure { text: content_outcome.output.clone(), ..failure }), ..content_outcome }
        }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    // A tool always receives an object; null means unknown.
    let request = (json_value(), proptest::option::of(object().prop_map(Value::Object)), text(), text(), text());
    let progress = (proptest::option::of(text()), object(), object(), any::<[f64; 2]>());
    (request, progress, proptest::option::of(result())).prop_map(|(request, progress, outcome)| {
        let (arguments, effective, name, call_id, title) = request;
        let (tip, params, metadata, [current, total]) = progress;
        let id = Uuid::from_u128(7);
        let mut call = Call::from(CallRecord {
            title: title.into(),
            effective_arguments: effective.map(Arc::new),
            ..CallRecord::accepted(id, name.into(), Some(&call_id), Arc::new(arguments), Time(1), "node".into())
        });
        call.start(Time(2)).unwrap();
        let progress = Progress { current, total: Some(total), message: tip.clone() };
        let progress = Some(progress).filter(|_| current.is_finite() && total.is_finite());
        call.update(toolpost_core::domain::call::StatusUpdate { tip, params, metadata, progress, phase: None })
            .unwrap();
        if let Some(outcome) = outcome {
            call.settle(outcome, Time(5_000)).unwrap();
        }
        call
    })
}

/// Returns the row of a call as the database returns it.
fn row(call: &Call) -> CallRow {
    let (arguments, record) = (call.arguments_text.get().to_owned(), encode(call));
    assert!(!record.contains('\0') && !arguments.contains('\0'), "Postgres rejects U+0000");
    CallRow {
        id: call.id,
        tenant: call.tenant.as_str().to_owned(),
        session: call.session.as_deref().map(str::to_owned),
        batch_id: call.batch_id,
        tool: indexed_name(&call.name).into_owned(),
        status: status_number(call.status),
        attempt: call.attempts as i32,
        seq: call.last_seq as i32,
        node: call.node.to_string(),
        created_at: call.created_at.0,
        accepted_pos: 1,
        started_pos: None,
        settled_pos: None,
        arguments,
        record,
    }
}

proptest! {
    #[test]
    fn call_round_trips_through_its_row(call in call()) {
        let read = row(&call).decode().unwrap();
        prop_assert_eq!(format!("{read:#?}"), format!("{call:#?}"));
    }

    #[test]
    fn indexed_name_fits_its_column_and_keeps_short_names(name in text(), times in 1_usize..40) {
        let name = name.repeat(times);
        let indexed = indexed_name(&name);
        prop_assert!(!indexed.contains('\0') && indexed.chars().count() <= INDEXED_NAME);
        prop_assert_eq!(&*indexed == name.as_str(), name.len() <= INDEXED_NAME && !name.contains('\0') || *indexed == *name);
    }
}

/// Returns a successful call with these limits.
fn ended(limits: &str) -> Call {
    let arguments = Arc::new(json!({"text": "hi"}));
    let (id, at) = (Uuid::from_u128(7), Time(1_000_000));
    let mut call = Call::from(CallRecord {
        effective_arguments: Some(arguments.clone()),
        limits: serde_json::from_str(limits).unwrap(),
        ..CallRecord::accepted(id, "echo".into(), None, arguments, at, "node".into())
    });
    call.start(Time(1_000_040)).unwrap();
    call.settle(Outcome::data(Arc::new(json!({"text": "hi"}))), Time(1_002_000)).unwrap();
    call
}

const USUAL: &str = r#"{"timeout_ms": 30000}"#;

#[test]
fn record_of_a_usual_call_omits_defaults() {
    let written = r#"{"limits":{"timeout_ms":30000},"times":[40,2000],"outcome":{"structured":{"text":"hi"}}}"#;
    assert_eq!(encode(&ended(USUAL)), written);
}

#[test]
fn durations_that_times_do_not_imply_are_written() {
    let clock = toolpost_core::domain::Clock::manual(Time(1_000_000));
    let arguments = Arc::new(json!({}));
    let mut call = Call::from(CallRecord::accepted(
        Uuid::from_u128(7),
        "t".into(),
        None,
        arguments,
        clock.moment(),
        "node".into(),
    ));
    clock.advance_ms(3);
    clock.jump_ms(-50);
    call.start(clock.moment()).unwrap();
    assert_eq!(row(&call).decode().unwrap().queued_ms(), 3);
    clock.advance_ms(40);
    clock.jump_ms(1_000_000);
    call.settle(Outcome::text("x"), clock.moment()).unwrap();
    let read = row(&call).decode().unwrap();
    assert_eq!((read.queued_ms(), read.duration_ms()), (3, Some(40)));
    call.never_ran();
    assert_eq!(row(&call).decode().unwrap().announced_start(), Some(Time(953_000)));
}

#[test]
fn whatever_is_unusual_is_written() {
    let limits = r#"{"timeout_ms": 7, "idle_timeout_ms": 6, "queue_timeout_ms": 5, "max_concurrency": 4,
        "max_output_bytes": 3, "max_output_lines": 2, "truncate": "tail"}"#;
    let call = ended(limits);
    let record: Value = serde_json::from_str(&encode(&call)).unwrap();
    assert_eq!(record["limits"], serde_json::from_str::<Value>(limits).unwrap());
    assert_eq!(row(&call).decode().unwrap().limits, call.limits);
}

#[test]
fn record_of_an_older_version_is_read() {
    let call = ended(USUAL);
    let record = r#"{"limits":{"timeout_ms":30000,"max_output_bytes":51200,"max_output_lines":2000,"truncate":"head"},
        "started_at":1000040,"ended_at":1002000,"outcome":{"structured":{"text":"hi"}}}"#;
    let read = CallRow { record: record.to_owned(), ..row(&call) }.decode().unwrap();
    assert_eq!(format!("{read:#?}"), format!("{call:#?}"));
}
