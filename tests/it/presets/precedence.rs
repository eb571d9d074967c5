//! Precedence of the sources of an argument: preset, model, schema.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// The sources of a value for one argument.
#[derive(Debug, Clone, Copy)]
struct ValueSources {
    preset: Option<bool>,
    model: bool,
    default: bool,
    stored: Option<bool>,
}

fn value_sources() -> impl Strategy<Value = ValueSources> {
    (any::<Option<bool>>(), any::<bool>(), any::<bool>(), any::<Option<bool>>())
        .prop_map(|(preset, model, default, stored)| ValueSources { preset, model, default, stored })
}

/// Returns the value that the tool should receive.
fn expected(sources: ValueSources) -> Option<&'static str> {
    let from_model = sources.model.then_some("model");
    let from_schema = sources.default.then_some("schema");
    match (sources.stored.map(|it| ("stored", it)), sources.preset.map(|it| ("preset", it))) {
        (Some((value, is_overridable)), _) | (None, Some((value, is_overridable))) => {
            if is_overridable {
                from_model.or(Some(value))
            } else {
                Some(value)
            }
        }
        (None, None) => from_model.or(from_schema),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preset_precedes_the_model_and_the_model_precedes_the_schema() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    for round in 0..24 {
        let all = prop::collection::vec(value_sources(), 1..6).new_tree(&mut runner).unwrap().current();
        let name = format!("t{round}");
        let (mut properties, mut presets, mut stored, mut sent) = (json!({}), json!({}), json!({}), json!({}));
        for (index, sources) in all.iter().enumerate() {
            let argument = format!("a{index}");
            properties[&argument] = if sources.default { json!({"default": "schema"}) } else { json!({}) };
            if let Some(overridable) = sources.preset {
                presets[&argument] = json!({"value": "preset", "overridable": overridable});
            }
            if let Some(overridable) = sources.stored {
                stored[&argument] = json!({"value": "stored", "overridable": overridable});
            }
            if sources.model {
                sent[&argument] = "model".into();
            }
        }
        let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        let executor = json!({"type": "http", "url": server.url("/")});
        app.register(json!({"name": name, "input_schema": schema, "presets": presets, "executor": executor})).await;
        app.put(&format!("/tools/{name}/presets"), &stored).await.ok();
        let call = app.call(&name, sent).await;
        assert_eq!(call["status"], "SUCCESS", "{call}");
        let got = &last(&server)["arguments"];
        for (index, sources) in all.iter().enumerate() {
            let argument = format!("a{index}");
            assert_eq!(got.get(&argument).and_then(Value::as_str), expected(*sources), "{sources:?} in {got}");
            // A hidden value appears nowhere else.
            let is_hidden = sources.stored.or(sources.preset) == Some(false);
            assert!(!is_hidden || call["effective_arguments"].get(&argument).is_none(), "{call}");
        }
    }
}
