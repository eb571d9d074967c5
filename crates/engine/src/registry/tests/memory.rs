//! Tests of the work and the memory of a registration. They count copies and compilations, not time.

use std::sync::Arc;

use serde_json::json;

use super::{Tools, tools};
use crate::registry::checked::write_of;
use crate::registry::fetched::FetchedDefinition;
use crate::registry::{Snapshot, ToolRecord, checked};
use toolpost_core::domain::{Tenant, Time, ToolDefinition};
use toolpost_store::store::tools::{Precondition, StoredTool, ToolWrite};

fn write(name: &str, max_length: usize) -> ToolWrite {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": max_length}}});
    let executor = json!({"type": "builtin", "name": "echo"});
    let tool = json!({"name": name, "input_schema": schema, "executor": executor, "groups": []});
    let tool: ToolDefinition = serde_json::from_value(tool).unwrap();
    write_of(&tool, &FetchedDefinition::default(), Precondition::Absent).unwrap()
}

async fn register(app: &Tools, writes: Vec<ToolWrite>) -> Arc<Snapshot> {
    let commit = app.store.put_tools(writes, Time(1)).await.unwrap().unwrap();
    app.registry.apply(&app.store, commit).await.unwrap();
    app.registry.default_catalog().snapshot().clone()
}

fn tool<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Arc<ToolRecord> {
    snapshot.get(name).unwrap()
}

#[tokio::test]
async fn registration_among_3000_tools_copies_one_bucket_and_compiles_nothing() {
    let app = tools(0).await;
    let many = (0..3000).map(|number| write(&format!("a.tool_{number}"), number)).collect();
    let before = register(&app, many).await;
    let after = register(&app, vec![write("one.more", 1)]).await;
    assert_eq!(after.len(), before.len() + 1);
    assert!((0..3000).map(|number| format!("a.tool_{number}")).all(|name| {
        let record = tool(&after, &name);
        Arc::ptr_eq(record, tool(&before, &name)) && !record.is_compiled()
    }));
    assert_eq!(after.copied_buckets(&before), 1);
    assert!(!after.has_lists(), "lists are created on request");
    assert_eq!(&*after.find("one__more").unwrap().name, "one.more");
    assert_eq!(after.all().len(), after.len());
}

#[tokio::test]
async fn record_is_small() {
    // With its text, its names and its places in the maps, a tool stays below 2 KiB.
    assert!(size_of::<ToolRecord>() <= 400, "{}", size_of::<ToolRecord>());
}

#[tokio::test]
async fn tools_with_equal_schemas_share_one_validator() {
    let app = tools(0).await;
    let snapshot = register(&app, vec![write("a", 5), write("b", 5), write("c", 6)]).await;
    let [a, b, c] = ["a", "b", "c"].map(|name| tool(&snapshot, name).entry().unwrap());
    assert!(Arc::ptr_eq(&a.input, &b.input) && !Arc::ptr_eq(&a.input, &c.input));
    assert!(Arc::ptr_eq(&a, &tool(&snapshot, "a").entry().unwrap()), "a compiled tool is used again");
}

#[tokio::test]
async fn compiled_tools_are_dropped_above_the_limit_and_compiled_again() {
    let app = tools(40_000).await;
    let names: Vec<String> = (0..20).map(|number| format!("tool_{number}")).collect();
    let snapshot = register(&app, names.iter().map(|name| write(name, name.len())).collect()).await;
    for name in names.iter().chain(&names) {
        assert!(tool(&snapshot, name).entry().is_ok(), "{name}");
    }
    let compiled = names.iter().filter(|name| tool(&snapshot, name).is_compiled()).count();
    assert!((1..10).contains(&compiled), "{compiled}");
}

#[tokio::test]
async fn stored_definition_is_checked_unless_its_mark_matches() {
    let app = tools(0).await;
    let ToolWrite { definition: valid, checked, .. } = write("a", 1);
    let invalid = valid.replace("maxLength", "$ref");
    let stored = |definition: &str, checked: Option<String>| {
        let (definition, at) = (definition.to_owned(), Time(1));
        let tool = StoredTool { name: "a".into(), definition, revision: 1, created_at: at, updated_at: at, checked };
        app.registry.record(&tool)
    };
    assert!(stored(&valid, checked.clone()).is_ok() && stored(&valid, None).is_ok());
    assert!(stored(&invalid, checked).is_err(), "the mark of another text");
    assert!(stored(&invalid, None).is_err());
    let trusted = stored(&invalid, Some(checked::mark(&invalid))).unwrap();
    assert!(Arc::new(trusted).entry().is_err(), "a definition that cannot be compiled is a failure of its calls");
}

#[tokio::test]
async fn commit_after_an_unknown_change_reads_all_tools() {
    let app = tools(0).await;
    register(&app, vec![write("a", 1)]).await;
    let registry = &app.registry;
    let first = app.store.put_tools(vec![write("b", 1)], Time(1)).await.unwrap().unwrap();
    let second = app.store.put_tools(vec![write("c", 1)], Time(1)).await.unwrap().unwrap();
    registry.apply(&app.store, second).await.unwrap();
    assert!(registry.default_catalog().snapshot().get("b").is_some(), "the earlier change was read");
    registry.apply(&app.store, first).await.unwrap();
    let deleted = app.store.delete_tool("a", None).await.unwrap().unwrap();
    registry.apply(&app.store, deleted).await.unwrap();
    let snapshot = registry.default_catalog().snapshot().clone();
    assert!(snapshot.get("a").is_none() && snapshot.get("b").is_some() && snapshot.get("c").is_some());
}

#[tokio::test]
async fn change_during_the_first_read_of_a_tenant_is_not_lost() {
    let app = tools(0).await;
    let (registry, store) = (&app.registry, app.store.stores().for_tenant(&Tenant::stored("t")));
    let loading = registry.load(store.tenant());
    let read = registry.read(&store).await.unwrap();
    store.put_tools(vec![write("a", 1)], Time(1)).await.unwrap().unwrap();
    // What the follower of changes does.
    assert!(registry.is_in_use(store.tenant()));
    registry.reload(&store).await.unwrap();
    let catalog = registry.publish_stored(store.tenant(), read);
    drop(loading);
    assert!(catalog.snapshot().get("a").is_some());
    assert!(registry.is_in_use(store.tenant()) && !registry.is_in_use(&Tenant::stored("other")));
}
