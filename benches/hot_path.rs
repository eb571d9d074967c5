//! The hot path without HTTP, from the JSON of a call to the JSON of its response, and its parts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a benchmark that cannot go on fails"
)]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::call::CallRecord;
use toolpost::domain::tool::read_definition;
use toolpost::domain::{Call, Source, Time, json as reading};
use toolpost::formats::native::ToolCall;
use toolpost::formats::stream::partial::Partial;
use toolpost::formats::stream::{Parser, StreamEvent};
use toolpost::policies::{Bounds, Input, Policy, PolicySource, decide};
use toolpost::schema::lower::{Target, lower};
use toolpost::schema::{self, Role};

const ARGUMENTS: &str =
    r#"{"text":"The quick brown fox jumps over the lazy dog","count":42,"ratio":0.125,"flag":true}"#;

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["text", "count", "ratio", "flag"],
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 4000},
            "count": {"type": "integer", "minimum": 1, "maximum": 1000},
            "ratio": {"type": "number", "minimum": 0, "maximum": 1},
            "flag": {"type": "boolean"},
        },
    })
}

fn parts(criterion: &mut Criterion) {
    criterion.bench_function("read arguments", |bench| {
        bench.iter(|| reading::parse(black_box(ARGUMENTS.as_bytes())));
    });
    let compiled = schema::compile(&schema(), Role::Input).expect("the schema compiles");
    let arguments = Arc::new(reading::parse(ARGUMENTS.as_bytes()).expect("it is JSON"));
    criterion.bench_function("check valid arguments", |bench| {
        bench.iter(|| compiled.check(black_box(&arguments), true));
    });
    let wrong = Arc::new(json!({"text": "x", "count": "42", "ratio": " 0.5", "flag": "TRUE"}));
    criterion.bench_function("mend four arguments", |bench| {
        bench.iter(|| compiled.check(black_box(&wrong), true));
    });
}

/// Returns 1 MiB of arguments, and their stream in chunks of 24 bytes.
fn stream() -> (String, Vec<String>) {
    let items: Vec<Value> = (0..9300).map(|id| json!({"id": id, "text": "The quick brown fox jumps over the lazy dog", "flags": [true, null, 0.125], "tags": "a \"b\" c"})).collect();
    let arguments = json!({ "items": items }).to_string();
    let events = arguments.as_bytes().chunks(24).map(|piece| {
        let delta = json!({"type": "input_json_delta", "partial_json": String::from_utf8_lossy(piece)});
        json!({"type": "content_block_delta", "index": 0, "delta": delta}).to_string()
    });
    let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}});
    let events = std::iter::once(start.to_string())
        .chain(events)
        .chain([json!({"type": "content_block_stop", "index": 0}).to_string()]);
    (arguments.clone(), events.collect())
}

/// Measures the stream, which should cost less than twice the time of serde_json for its events and its final text.
fn streams(criterion: &mut Criterion) {
    let (arguments, events) = stream();
    criterion.bench_function("1 MiB of arguments, serde_json for events and text", |bench| {
        bench.iter(|| {
            for event in &events {
                black_box(serde_json::from_str::<Value>(event).expect("it is JSON"));
            }
            serde_json::from_str::<Value>(black_box(&arguments))
        });
    });
    let mut body = String::new();
    for event in &events {
        write!(body, "event: x\ndata: {event}\n\n").expect("a string takes all");
    }
    criterion.bench_function("1 MiB of arguments, as a stream", |bench| {
        bench.iter(|| {
            let (mut parser, mut events, mut partial) = (Parser::new(None), Vec::new(), Partial::default());
            for bytes in body.as_bytes().chunks(1400) {
                parser.push(black_box(bytes), &mut events).expect("it is a stream");
                for event in events.drain(..) {
                    if let StreamEvent::Delta { text, .. } = event {
                        partial.push(&text).expect("it is not too long");
                    }
                }
            }
            reading::parse(partial.text().as_bytes())
        });
    });
    let mut partial = Partial::default();
    partial.push(&arguments[..arguments.len() - 2]).expect("it is not too long");
    criterion.bench_function("1 MiB of arguments, read in part", |bench| bench.iter(|| partial.readable()));
}

/// Returns a typical tool: eight properties, one of them a list of objects, some optional.
fn tool() -> Value {
    let item = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "minLength": 1}, "quantity": {"type": "integer", "minimum": 1}},
    });
    json!({
        "type": "object", "required": ["text", "items"],
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 400, "description": "What to write."},
            "language": {"type": "string", "enum": ["de", "en", "fr"], "default": "en"},
            "items": {"type": "array", "items": item, "maxItems": 20},
            "limit": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": null},
            "since": {"type": "string", "format": "date-time"},
            "ratio": {"type": "number", "minimum": 0, "maximum": 1},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "dry_run": {"type": "boolean", "default": false},
        },
    })
}

fn lowering(criterion: &mut Criterion) {
    let schema = tool();
    for target in [Target::OpenAi, Target::OpenAiStrict, Target::Anthropic, Target::Gemini] {
        criterion.bench_function(&format!("lower a schema, {target:?}"), |bench| {
            bench.iter(|| lower(black_box(&schema), target));
        });
    }
    let lowered = lower(&schema, Target::OpenAiStrict).expect("the schema lowers");
    let arguments = json!({
        "text": "x", "language": null, "items": [{"name": "a", "quantity": null}], "limit": 3, "since": null,
        "ratio": null, "labels": [{"key": "a", "value": "b"}], "dry_run": null,
    });
    criterion.bench_function("arguments on the way back", |bench| {
        bench.iter(|| lowered.restorer.apply(black_box(&arguments)));
    });
}

fn whole(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".to_owned();
    let app = runtime.block_on(App::builder(config).start()).expect("the service starts");
    let arguments = reading::parse(ARGUMENTS.as_bytes()).expect("it is JSON");
    criterion.bench_function("one recorded call, SQLite in memory", |bench| {
        bench.to_async(&runtime).iter(|| async { app.call("echo", arguments.clone()).await });
    });
    criterion.bench_function("64 recorded calls at once, SQLite in memory", |bench| {
        bench.to_async(&runtime).iter(|| async {
            futures_util::future::join_all((0..64).map(|_| app.call("echo", arguments.clone()))).await
        });
    });
    let call = runtime.block_on(app.call("echo", arguments)).expect("it is recorded");
    criterion.bench_function("write an answer", |bench| {
        bench.iter(|| serde_json::to_vec(&ToolCall::from(black_box(&*call))));
    });
}

/// Ten policies that do not match, as for most calls.
fn policies(criterion: &mut Criterion) {
    let conditions = [
        "tool.name == 'pay' && args.amount > 100",
        "tool.name.startsWith('deploy.')",
        "tool.annotations.destructive && now.getHours() < 6 && tool.name == 'drop'",
        "has(args.to) && !args.to.endsWith('@example.com')",
        "'finance' in tool.groups",
        "args.count > 1000",
        "args.text.contains('password')",
        "caller.subject == 'mallory'",
        "session.id == 'none'",
        "call.priority > 9",
    ];
    let compile = |(index, when): (usize, &&str)| {
        let definition = json!({"name": format!("p{index}"), "when": when, "effect": "deny"});
        let definition = serde_json::from_value(definition).expect("it is a policy");
        Arc::new(Policy::compile(definition, PolicySource::Api, Time(0)).expect("it compiles"))
    };
    let policies: Vec<Arc<Policy>> = conditions.iter().enumerate().map(compile).collect();
    let arguments = Arc::new(reading::parse(ARGUMENTS.as_bytes()).expect("it is JSON"));
    let call: Call =
        CallRecord::accepted(uuid::Uuid::nil(), "echo".into(), None, arguments.clone(), Time(0), "node".into()).into();
    let definition = json!({"name": "echo", "input_schema": schema(), "executor": {"type": "builtin", "name": "echo"}});
    let definition = Arc::new(read_definition(definition).expect("it is a definition"));
    let policies = Arc::new(policies);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    criterion.bench_function("ten policies that do not match", |bench| {
        bench.to_async(&runtime).iter(|| async {
            let input = Input::new(&call, Some((&definition, Source::Api)), &arguments, Time(0));
            assert_eq!(decide(black_box(policies.clone()), input, Bounds::default()).await, None);
        });
    });
}

criterion_group!(benches, parts, streams, lowering, policies, whole);
criterion_main!(benches);
