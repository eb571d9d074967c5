//! Each tool format over HTTP: its structure, its names, and the members next to the tools.

use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::shapes::{names, succeeded};
use crate::support::{App, Client};

const VENDORS: [&str; 5] = ["openai", "openai-responses", "openai-strict", "anthropic", "gemini"];

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

async fn list(app: &Client, format: &str) -> Value {
    app.get(&format!("/tools?format={format}")).await.ok()
}

/// Returns the definitions of a list, without the members around the vendor's definition.
fn definitions(list: &Value, format: &str) -> Vec<Value> {
    let tools = list["tools"].as_array().unwrap();
    match format {
        "openai" | "openai-strict" => tools.iter().map(|tool| tool["function"].clone()).collect(),
        "gemini" => tools[0]["functionDeclarations"].as_array().unwrap().clone(),
        _ => tools.clone(),
    }
}

fn named<'a>(definitions: &'a [Value], name: &str) -> &'a Value {
    let found = definitions.iter().find(|definition| definition["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {definitions:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_vendor_has_its_own_member_for_the_schema() {
    let app = App::on_sqlite().await;
    app.echo_with("weather", schema()).await;
    for (format, member) in [
        ("openai", "parameters"),
        ("openai-responses", "parameters"),
        ("openai-strict", "parameters"),
        ("anthropic", "input_schema"),
        ("gemini", "parameters"),
        ("mcp", "inputSchema"),
    ] {
        let all = definitions(&list(&app, format).await, format);
        let weather = named(&all, "weather");
        assert_eq!(weather["description"], "Answers with its arguments.", "{format}");
        assert_eq!(weather[member]["properties"]["city"]["type"], "string", "{format}: {weather:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_is_listed_in_the_native_order() {
    let app = App::on_sqlite().await;
    for name in ["m", "z", "a", "Z", "k_1"] {
        app.echo_with(name, schema()).await;
    }
    let native = app.get("/tools").await.ok();
    let expected = names(&native["tools"]);
    for format in VENDORS.into_iter().chain(["mcp"]) {
        let list = list(&app, format).await;
        let all = Value::Array(definitions(&list, format));
        assert_eq!((names(&all), &list["left_out"]), (expected.clone(), &json!([])), "{format}");
        assert_eq!(list["total"], expected.len(), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_lists_schemas_names_and_hints_unchanged() {
    let app = App::on_sqlite().await;
    let mut tool =
        echo_tool("files.read", json!({"type": "object", "properties": {"a": {"const": 1}}, "minProperties": 1}));
    tool["title"] = "Read".into();
    tool["output_schema"] = json!({"type": "object"});
    tool["annotations"] = json!({"read_only": true, "destructive": false});
    app.register(tool.clone()).await;
    let list = list(&app, "mcp").await;
    let listed = named(list["tools"].as_array().unwrap(), "files__read");
    let expected = json!({
        "name": "files__read", "title": "Read", "description": "Answers with its arguments.",
        "inputSchema": tool["input_schema"], "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true,
            "title": "Read"},
    });
    assert_eq!(*listed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn name_that_a_vendor_rejects_gets_a_callable_alias() {
    let app = App::on_sqlite().await;
    let long = "x".repeat(100);
    for name in ["files.read", &long] {
        app.echo_with(name, schema()).await;
        for format in VENDORS {
            let all = definitions(&list(&app, format).await, format);
            let names: Vec<&str> = all.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            let fits = |name: &str| {
                name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            };
            assert!(names.iter().all(|name| fits(name)), "{names:?}");
            let prefix = name.replace('.', "_");
            let alias = names.iter().find(|alias| alias.starts_with(&prefix[..10])).unwrap();
            let call = app.call(alias, json!({"city": "Rome"})).await;
            assert_eq!((succeeded(&call), call["name"].as_str().unwrap()), (r#"{"city":"Rome"}"#, name));
        }
    }
    assert!(names(&app.get("/tools").await.ok()["tools"]).contains(&"files.read"));
}

#[tokio::test(flavor = "multi_thread")]
async fn alias_survives_a_restart_and_other_tools() {
    let app = App::on_sqlite().await;
    app.echo_with("files.read", schema()).await;
    let alias = |list: Value| {
        let all = definitions(&list, "anthropic");
        let names: Vec<&str> = all.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        names.into_iter().find(|name| name.starts_with("files_read_")).unwrap().to_owned()
    };
    let before = alias(list(&app, "anthropic").await);
    app.echo_with("files_read", schema()).await;
    app.echo_with("a.files.read", schema()).await;
    let app = app.restart().await;
    assert_eq!(alias(list(&app, "anthropic").await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_are_listed_on_request() {
    let app = App::on_sqlite().await;
    let mut tool = echo_tool("talkative", schema());
    tool["description"] = "long ".repeat(300).into();
    app.register(tool).await;
    app.echo_with("brief", schema()).await;
    assert_eq!(list(&app, "openai").await.get("losses"), None);
    let list = app.get("/tools?format=openai&losses=true").await.ok();
    let lost = list["losses"].as_array().unwrap();
    assert!(lost.iter().all(|tool| tool["name"] != "brief"), "{lost:#?}");
    let talkative = named(lost, "talkative");
    let loss = named_at(&talkative["losses"], "/description");
    assert_eq!((&loss["keyword"], &loss["widens"]), (&json!("description"), &json!(false)));
    assert!(loss["message"].as_str().unwrap().contains("1023"), "{loss}");
    for format in ["native", "prompt"] {
        let with = app.get(&format!("/tools?format={format}&losses=true")).await;
        assert_eq!(with.body, app.get(&format!("/tools?format={format}")).await.body, "{format}");
    }
}

fn named_at<'a>(losses: &'a Value, pointer: &str) -> &'a Value {
    let found = losses.as_array().unwrap().iter().find(|loss| loss["pointer"] == pointer);
    found.unwrap_or_else(|| panic!("no {pointer} in {losses:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_cannot_be_strict_is_marked_unless_excluded() {
    let app = App::on_sqlite().await;
    let deep = (0..12).fold(schema(), |inner, _| json!({"type": "object", "properties": {"inner": inner}}));
    app.echo_with("deep", deep).await;
    app.echo_with("weather", schema()).await;
    // The list is kept, and then reused in part.
    for more in ["another", "one_more"] {
        app.echo_with(more, schema()).await;
        let list = list(&app, "openai-strict").await;
        let all = definitions(&list, "openai-strict");
        assert_eq!(list["left_out"], json!([]));
        assert_eq!((&named(&all, "deep")["strict"], &named(&all, "weather")["strict"]), (&json!(false), &json!(true)));
        let notes = list["not_strict"].as_array().unwrap();
        assert!(notes.len() == 1 && notes[0]["name"] == "deep" && !notes[0]["reason"].as_str().unwrap().is_empty());
    }
    let with_losses = app.get("/tools?format=openai-strict&losses=true").await.ok();
    assert_eq!(with_losses["not_strict"][0]["name"], "deep");
    let only = app.get("/tools?format=openai-strict&strict_only=true").await.ok();
    named(only["left_out"].as_array().unwrap(), "deep");
    assert!(
        only["not_strict"].is_null() && definitions(&only, "openai-strict").iter().all(|tool| tool["strict"] == true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_schema_parts_are_described_or_omitted() {
    let app = App::on_sqlite().await;
    let endless = json!({
        "type": "object", "required": ["node"], "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/node"}}}},
    });
    app.echo_with("endless", endless).await;
    app.echo_with("lossy", json!({"type": "object", "properties": {"a": {"not": {"const": 1}}}})).await;
    let list = app.get("/tools?format=gemini&losses=true").await.ok();
    let all = definitions(&list, "gemini");
    assert!(all.iter().all(|tool| tool["name"] != "endless") && all.len() == 6, "{all:#?}");
    let left_out = named(list["left_out"].as_array().unwrap(), "endless");
    assert!(left_out["pointer"].as_str().unwrap().starts_with("/input_schema"), "{left_out}");
    assert!(!left_out["reason"].as_str().unwrap().is_empty());
    let lossy = named(list["losses"].as_array().unwrap(), "lossy");
    assert!(lossy["losses"][0]["pointer"].as_str().unwrap().starts_with("/input_schema/properties/a"), "{lossy}");
    let whole = app.get("/tools?format=anthropic").await.ok();
    assert_eq!(whole["left_out"], json!([]));
    named(&definitions(&whole, "anthropic"), "endless");
}
