//! Golden imports: one document of each version, and the exact resulting definitions.

use serde_json::{Value, json};
use toolpost::import::{ImportPlan, Options, openapi};

use crate::support::fixture::same_as_file;

const HOW: &str = "UPDATE_FIXTURES=1 cargo test --test it import::golden";

fn same(name: &str, options: &Options) {
    let ImportPlan { title, offered, refused, warnings } = openapi(&super::value(name), options).unwrap();
    let offered: Vec<Value> = offered
        .iter()
        .map(|tool| {
            let mut definition = serde_json::to_value(&tool.definition).unwrap();
            // Imports never set these members.
            for usual in
                ["examples", "groups", "async", "concurrency_safe", "limits", "retry", "coerce", "output_check"]
            {
                definition.as_object_mut().unwrap().shift_remove(usual);
            }
            json!({"operation": tool.operation, "definition": definition})
        })
        .collect();
    let found = json!({"title": title, "offered": offered, "refused": refused, "warnings": warnings});
    let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
    let stem = name.split_once(".yaml").or(name.split_once(".json")).unwrap().0;
    same_as_file(&format!("tests/fixtures/import/{stem}.imported.json"), &text, HOW);
}

fn options(auth: &[&str]) -> Options {
    Options { credentials: auth.iter().map(|text| text.parse().unwrap()).collect(), ..Options::default() }
}

#[test]
fn swagger_2_0() {
    same("swagger-2.0.yaml", &options(&["basic:ann:PASSWORD", "query:api key:KEY"]));
}

#[test]
fn openapi_3_0() {
    same("openapi-3.0.yaml", &options(&[]));
}

#[test]
fn openapi_3_1() {
    let document_url = Some("https://post.example/docs/openapi.json".parse().unwrap());
    same("openapi-3.1.json", &Options { document_url, prefix: Some("post".into()), ..options(&["bearer:TOKEN"]) });
}
