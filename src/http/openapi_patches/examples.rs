//! Examples that work when they are executed: bodies, and the names in paths. An id that the service generates has none.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

const EXAMPLES: &str = include_str!("examples.json");

/// The examples of one operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Examples {
    /// By the name of a parameter in the path.
    #[serde(default)]
    parameters: Map<String, Value>,
    /// By media type.
    #[serde(default)]
    body: HashMap<String, Value>,
    /// By media type, several by their titles.
    #[serde(default)]
    bodies: HashMap<String, Map<String, Value>>,
}

/// Adds every example to its operation, by the operation's id.
pub(super) fn add(document: &mut Value) {
    // That it is JSON, and that each of its operations exists, is tested.
    let mut all: HashMap<String, Examples> = serde_json::from_str(EXAMPLES).unwrap_or_default();
    for operation in super::operations(document) {
        let Some(examples) = operation["operationId"].as_str().and_then(|id| all.remove(id)) else { continue };
        add_to(operation, examples);
    }
}

fn add_to(operation: &mut Map<String, Value>, Examples { parameters, body, bodies }: Examples) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let example = parameter["name"].as_str().and_then(|name| parameters.get(name));
        if let Some(example) = example.filter(|_| parameter["in"] == "path") {
            parameter["example"] = example.clone();
        }
    }
    let Some(content) = operation.get_mut("requestBody").and_then(|body| body.get_mut("content")) else { return };
    for (media_type, example) in body {
        content[media_type]["example"] = example;
    }
    for (media_type, examples) in bodies {
        let named = examples.into_iter().map(|(title, value)| {
            let key = title.to_lowercase().replace(' ', "_");
            (key, json!({ "summary": title, "value": value }))
        });
        content[media_type]["examples"] = named.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_belongs_to_an_operation_that_takes_it() {
        let all: HashMap<String, Examples> = serde_json::from_str(EXAMPLES).unwrap();
        let mut document = crate::http::openapi();
        for operation in super::super::operations(&mut document) {
            let Some(examples) = operation["operationId"].as_str().and_then(|id| all.get(id)) else { continue };
            let content = &operation.get("requestBody").map(|body| body["content"].clone()).unwrap_or_default();
            for media_type in examples.body.keys().chain(examples.bodies.keys()) {
                assert!(content[media_type]["schema"].is_object(), "{operation:?}");
            }
            let parameters = operation.get("parameters").cloned().unwrap_or_default();
            let has = |name: &String| {
                parameters.as_array().unwrap().iter().any(|one| one["in"] == "path" && one["name"] == *name)
            };
            assert!(examples.parameters.keys().all(has), "{operation:?}");
        }
        let mut document = crate::http::openapi();
        let ids: Vec<Value> = super::super::operations(&mut document).map(|one| one["operationId"].clone()).collect();
        assert!(all.keys().all(|id| ids.iter().any(|other| other == id)), "an example of no operation");
    }
}
