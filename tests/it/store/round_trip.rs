//! A call with all fields set is read back from its row unchanged.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolpost::domain::call::{Coercion, StatusUpdate};
use toolpost::domain::limits::Truncate;
use toolpost::domain::{Call, ContentBlock, Failure, Limits, Outcome, Phase, Progress, Time};

use super::{ACCEPTED_AT, Log, REJECTED, SETTLED, Transitions, WHOLE, ended, rejected};
use crate::support::Backend;
use crate::support::shapes::HARD_TEXT;

/// Returns `levels` arrays and objects around a text that is hard to escape.
fn nested(levels: usize) -> Value {
    (0..levels)
        .fold(json!(HARD_TEXT), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"\u{0}": inner}) })
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn rich(log: &Log) -> Call {
    let arguments = json!({
        "text": HARD_TEXT, HARD_TEXT: "key", "deep": nested(120), "floats": [0.1, -0.0, 1e300, 5e-324],
        "integers": [u64::MAX, i64::MIN, i64::MAX, 9_007_199_254_740_993_u64, 0], "empty": [{}, [], "", null, false],
    });
    let mut record = log.call("tool.with-every_thing").into_record();
    record.call_id = "call_\u{0}_😀".into();
    record.title = HARD_TEXT.into();
    record.session = Some("session 😀 'quoted'; --".into());
    record.batch_id = Some(log.ids.next());
    record.index = 1023;
    record.arguments = Arc::new(arguments.clone());
    record.arguments_text = toolpost::domain::JsonText::of(&arguments);
    record.effective_arguments = Some(Arc::new(json!({"mended": arguments})));
    record.coerced = vec![Coercion { pointer: "/a~1b/0".into(), from: "string".into(), to: "integer".into() }];
    record.limits = Some(Limits {
        timeout_ms: u64::MAX,
        idle_timeout_ms: Some(1),
        queue_timeout_ms: None,
        max_concurrency: Some(3),
        max_output_bytes: 5,
        max_output_lines: 6,
        truncate: Truncate::Tail,
    });
    let mut call = Call::from(record);
    call.start(Time(ACCEPTED_AT + 500)).unwrap();
    call.update(StatusUpdate {
        tip: Some(HARD_TEXT.into()),
        params: object(json!({"p": nested(50)})),
        metadata: object(json!({"m": {"\u{0}": [1]}})),
        progress: Some(Progress { current: 0.5, total: None, message: Some(HARD_TEXT.into()) }),
        phase: Some(Phase::External),
    })
    .unwrap();
    call
}

/// Checks that both calls are equal in every field; phases follow from statuses.
fn same(one: &Call, other: &Call) {
    assert_eq!(format!("{one:#?}"), format!("{other:#?}"));
}

on_both_databases!(
    async fn full_call_is_read_back_unchanged(backend: Backend) {
        let log = Log::open(backend).await;
        let mut call = rich(&log);
        log.write(&call, Transitions { settled: false, ..WHOLE }).await.unwrap();
        same(&log.stored(&call).await, &call);
        let blocks = vec![
            ContentBlock::Text(HARD_TEXT.into()),
            ContentBlock::Image { data: "iVBORw0KGgo=".into(), mime_type: "image/png".into() },
            ContentBlock::Text("second".into()),
            ContentBlock::Other(object(json!({"type": "resource", "uri": "x:y", "deep": nested(100)}))),
        ];
        let outcome = Outcome {
            structured: Some(Arc::new(nested(120))),
            details: object(json!({"for": "people", "n": u64::MAX})),
            metadata: object(json!({"m": {"later": true}})),
            ..Outcome::blocks(blocks)
        };
        call.settle(outcome, Time(ACCEPTED_AT + 250_000)).unwrap();
        log.write(&call, SETTLED).await.unwrap();
        same(&log.stored(&call).await, &call);
    }
);

on_both_databases!(
    async fn failure_with_details_is_read_back_unchanged(backend: Backend) {
        let log = Log::open(backend).await;
        let mut call = rich(&log);
        let failure = Failure::execution("t", HARD_TEXT).retryable(Some(u64::MAX)).with_details(nested(120));
        call.settle(failure.into(), Time(ACCEPTED_AT + 250_000)).unwrap();
        log.write(&call, WHOLE).await.unwrap();
        same(&log.stored(&call).await, &call);
    }
);

on_both_databases!(
    async fn derived_outputs_are_read_back_unchanged(backend: Backend) {
        let log = Log::open(backend).await;
        let null = Outcome { structured: Some(Arc::new(Value::Null)), ..Outcome::text("null") };
        let data = json!({"z": 1.0, "a": [1e21, -0.0]});
        let compact = Outcome { structured: Some(Arc::new(data.clone())), ..Outcome::text(data.to_string()) };
        let empty = Outcome::default();
        for outcome in [null, compact, empty, Outcome::text("")] {
            let call = ended(&log.call("t"), outcome, 1);
            log.write(&call, WHOLE).await.unwrap();
            same(&log.stored(&call).await, &call);
        }
    }
);

on_both_databases!(
    async fn unknown_tool_name_is_read_back_and_counted_as_unknown(backend: Backend) {
        let log = Log::open(backend).await;
        for name in ["a\u{0}b", &"long ".repeat(2000), &"😀".repeat(2500), "", &"ä".repeat(64), &"x".repeat(129)] {
            let call = rejected(&log.call(name), Failure::not_found(name, &["echo"], None));
            log.write(&call, REJECTED).await.unwrap();
            same(&log.stored(&call).await, &call);
        }
        assert_eq!(log.counts("").await, (0, 0, 6));
        assert_eq!(log.store.stats(None).await.unwrap().len(), 1);
    }
);
