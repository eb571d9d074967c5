//! Tests of the tools that snapshots contain for different callers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builder::EntryBuilder;
use super::definitions::{ListOptions, ScoredTool};
use super::view::{Lookup, View};
use super::{Registry, SharedCatalogs, Snapshot};
use toolpost_core::domain::{Clock, Time, ToolDefinition, Vendor};
use toolpost_core::formats::definitions::Format;
use toolpost_core::schema::lower::{Target, Unlowerable};
use toolpost_store::store::Store;
use toolpost_tool::executor::signing_key::SigningKey;
use toolpost_tool::executor::{Egress, HttpClient, Reporting, Secrets};
use toolpost_tool::tool::builtin;

mod memory;

const WHOLE: ListOptions = ListOptions { limit: usize::MAX, losses: true, scores: false, strict_only: true };

/// A registry with the standard tools, and the store of its default tenant.
pub(super) struct Tools {
    pub registry: Registry,
    pub store: Store,
}

/// Creates a registry that keeps this much of what it compiles, in bytes; 0 means no limit.
pub(super) async fn tools(compiled_bytes: usize) -> Tools {
    let clock = Clock::system();
    let reporting = Reporting::new(SigningKey::parse(&SigningKey::text_of(&[1; 32])).unwrap());
    let client = HttpClient::new(Egress::default(), Secrets::new(|_| None), clock.clone(), reporting).unwrap();
    let entries = EntryBuilder::new(builtin::standard(&clock), client, Vec::new()).with_compiled_bytes(compiled_bytes);
    let registry = Registry::new(entries, clock, SharedCatalogs::default()).unwrap();
    Tools { registry, store: Store::open("sqlite::memory:").await.unwrap() }
}

/// Creates a registry with tools of these names, which accept any object.
async fn service(names: &[&str]) -> Tools {
    let tools = tools(0).await;
    tools.registry.show_files(names.iter().map(|name| (tool(name), Time(0))).collect()).unwrap();
    tools
}

fn tool(name: &str) -> ToolDefinition {
    let executor = json!({"type": "builtin", "name": "echo"});
    serde_json::from_value(json!({"name": name, "description": "x", "executor": executor})).unwrap()
}

async fn shown(names: &[&str]) -> Arc<Snapshot> {
    service(names).await.registry.default_catalog().snapshot().clone()
}

fn alias_of(snapshot: &Snapshot, name: &str) -> String {
    snapshot.name_for(snapshot.get(name).unwrap(), Some(Vendor::Gemini)).unwrap().to_owned()
}

#[tokio::test]
async fn tool_is_found_by_its_name_and_by_its_alias() {
    let snapshot = shown(&["files.read", "files_read"]).await;
    let alias = alias_of(&snapshot, "files.read");
    assert_ne!(alias, "files.read");
    assert_eq!(&*snapshot.find(&alias).unwrap().name, "files.read");
    assert_eq!(&*snapshot.find("files.read").unwrap().name, "files.read");
    assert_eq!(&*snapshot.find("files_read").unwrap().name, "files_read");
    assert!(snapshot.get(&alias).is_none() && snapshot.find("files-read").is_none());
}

#[tokio::test]
async fn real_name_takes_precedence_over_an_alias() {
    let usual = alias_of(&*shown(&["files.read"]).await, "files.read");
    let snapshot = shown(&["files.read", &usual]).await;
    assert_eq!(*snapshot.find(&usual).unwrap().name, *usual);
    let longer = alias_of(&snapshot, "files.read");
    assert_ne!(longer, usual);
    assert_eq!(&*snapshot.find(&longer).unwrap().name, "files.read");
}

#[tokio::test]
async fn each_vendor_is_shown_names_that_it_accepts() {
    let snapshot = shown(&["9lives", "files.read"]).await;
    let name = |tool: &str, vendor| snapshot.name_for(snapshot.get(tool).unwrap(), vendor).unwrap().to_owned();
    assert_eq!(name("9lives", Some(Vendor::OpenAi)), "9lives");
    assert_ne!(name("9lives", Some(Vendor::Gemini)), "9lives");
    assert_eq!(name("files.read", None), "files.read");
    assert_eq!(name("files.read", Some(Vendor::OpenAiResponses)), name("files.read", Some(Vendor::Anthropic)));
}

#[tokio::test]
async fn unknown_tool_failure_lists_names_of_the_caller() {
    let snapshot = shown(&["files.read"]).await;
    let alias = alias_of(&snapshot, "files.read");
    let listed = |vendor| snapshot.not_found("files_rea", vendor).text;
    assert!(listed(None).contains("files.read") && !listed(None).contains(&alias), "{}", listed(None));
    let anthropic = listed(Some(Vendor::Anthropic));
    assert!(anthropic.contains(&alias) && !anthropic.contains("files.read"), "{anthropic}");
}

#[tokio::test]
async fn vendor_prefixes_are_ignored_if_no_tool_has_the_full_name() {
    let snapshot = shown(&["echo", "files.read", "functions.own"]).await;
    let view = View::from(&*snapshot);
    let found = |name: &str| match view.find(name) {
        Lookup::Available(tool) => tool.name.to_string(),
        _ => "missing".to_owned(),
    };
    assert_eq!(found("functions.echo"), "echo");
    assert_eq!(found("default_api.files.read"), "files.read");
    assert_eq!(found(&format!("default_api.{}", alias_of(&snapshot, "files.read"))), "files.read");
    assert_eq!(found("functions.own"), "functions.own");
    for unknown in ["functions.other", "echo()", "own.echo", "functions.functions.echo"] {
        assert_eq!(found(unknown), "missing", "{unknown}");
    }
}

#[tokio::test]
async fn tool_whose_name_is_within_an_unknown_name_is_suggested() {
    let snapshot = shown(&["echo", "files.read"]).await;
    for (unknown, meant) in [
        ("echo()", "echo"),
        ("Echo()", "echo"),
        ("print(echo)", "null"),
        ("mcp__toolpost__echo", "echo"),
        ("server:files.read", "files.read"),
        ("`echo`", "echo"),
    ] {
        let details = snapshot.not_found(unknown, None).details.unwrap();
        assert_eq!(details["did_you_mean"].as_str().unwrap_or("null"), meant, "{unknown}");
    }
}

#[tokio::test]
async fn tool_that_cannot_be_lowered_is_omitted_from_the_list() {
    let snapshot = shown(&["good", "hard"]).await;
    let error = Unlowerable { pointer: "/properties/x".into(), message: "the schema is too deep".into() };
    snapshot.get("hard").unwrap().entry().unwrap().refuse_to_lower(Target::Gemini, error);
    let all: Vec<ScoredTool> = ["good", "hard"].map(|name| (snapshot.get(name).unwrap().clone(), None)).into();
    let list = serde_json::to_value(snapshot.definitions(Format::Gemini, &all, WHOLE)).unwrap();
    let names: Vec<&Value> =
        list["tools"][0]["functionDeclarations"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!((names, &list["total"]), (vec![&json!("good")], &json!(1)));
    let left_out =
        json!([{"name": "hard", "pointer": "/input_schema/properties/x", "reason": "the schema is too deep"}]);
    assert_eq!(list["left_out"], left_out);
    assert_eq!(snapshot.definitions(Format::OpenAi, &all, WHOLE).left_out, []);
}

#[tokio::test]
async fn list_is_rendered_once_per_snapshot() {
    let app = service(&["a"]).await;
    let first = app.registry.default_catalog().snapshot().clone();
    assert!(first.kept(Format::OpenAi, false).is_none());
    let etag = first.rendered(Format::OpenAi, false).etag.clone();
    assert_eq!(first.kept(Format::OpenAi, false).unwrap().etag, etag);
    assert!(first.kept(Format::OpenAi, true).is_none() && first.kept(Format::Anthropic, false).is_none());
    app.registry.show_files(vec![(tool("b"), Time(0))]).unwrap();
    let second = app.registry.default_catalog().snapshot().clone();
    assert_ne!(second.rendered(Format::OpenAi, false).etag, etag);
}

#[tokio::test]
async fn list_that_reuses_texts_equals_a_new_one() {
    let formats = Format::ALL;
    let app = service(&["a", "b.c", "d"]).await;
    let current = || app.registry.default_catalog().snapshot().clone();
    let before = current();
    let old: Vec<_> = formats.iter().map(|format| before.rendered(*format, false)).collect();
    let mut changed = tool("d");
    changed.description = "Another one.".into();
    let tools = ["b.c", "c"].map(tool).into_iter().chain([changed]).map(|tool| (tool, Time(0))).collect();
    app.registry.show_files(tools).unwrap();
    // The same tools without earlier lists.
    let (after, fresh) = (current(), service(&["x"]).await);
    let mut again = tool("d");
    again.description = "Another one.".into();
    let tools = vec![(tool("b.c"), Time(0)), (tool("c"), Time(0))];
    fresh.registry.show_files(vec![(tool("d"), Time(0))]).unwrap();
    fresh.registry.show_files([tools, vec![(again, Time(0))]].concat()).unwrap();
    let expected = fresh.registry.default_catalog().snapshot().clone();
    for (format, old) in formats.iter().copied().zip(old) {
        let list = after.rendered(format, false);
        assert_eq!(list.body, expected.rendered(format, false).body, "{format:?}");
        assert_eq!(list.etag, expected.rendered(format, false).etag, "{format:?}");
        assert_ne!(list.body, old.body, "{format:?}");
        let kept = after.list().iter().filter(|tool| old.texts().contains_key(&Arc::as_ptr(tool))).count();
        assert!(
            kept > 0 && kept + 2 == after.list().len(),
            "{format:?}: texts of all tools but \"c\" and \"d\" are kept"
        );
    }
}

#[tokio::test]
async fn cached_list_equals_a_list_for_one_request() {
    let snapshot = shown(&["a", "b.c"]).await;
    let all: Vec<ScoredTool> = snapshot.list().iter().map(|tool| (tool.clone(), None)).collect();
    let options = ListOptions { losses: false, ..WHOLE };
    for format in [Format::OpenAi, Format::Anthropic, Format::Gemini, Format::Mcp] {
        let list = super::definitions::json(&snapshot.definitions(format, &all, options));
        assert_eq!(snapshot.rendered(format, false).body, list, "{format:?}");
    }
}

#[tokio::test]
async fn search_follows_the_changes_of_tools() {
    let app = service(&["letters", "zebras"]).await;
    let current = || app.registry.default_catalog().snapshot().clone();
    let before = current();
    let found = |snapshot: &Snapshot, query: &str| {
        snapshot.search_all(query).into_iter().map(|(tool, _)| tool.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((found(&before, "letters"), found(&before, "colors")), (vec!["letters".to_owned()], vec![]));
    app.registry.show_files(["colors", "zebras"].map(|name| (tool(name), Time(0))).into()).unwrap();
    let after = current();
    assert_eq!((found(&after, "letters"), found(&after, "colors")), (vec![], vec!["colors".to_owned()]));
    assert_eq!(found(&before, "letters"), ["letters"], "an earlier snapshot finds its own tools");
    assert_eq!(found(&after, "zebras"), ["zebras"]);
}
