//! Tests of the rule for callable tools: active groups, no group, and the session's own switches and tools.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::json;

use super::{Lookup, View, restriction};
use crate::registry::{Snapshot, ToolRecord};
use toolpost_core::domain::{Code, Group, Groups, NameSeparator, Session, Time, ToolDefinition};

const GROUPS: [&str; 4] = ["a", "b", "c", "d"];

/// Returns the groups of the tool of this number: one for each bit.
fn groups_of(number: usize) -> Vec<&'static str> {
    GROUPS.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1).map(|(_, group)| *group).collect()
}

/// A tool for every combination of groups.
static TOOLS: LazyLock<BTreeMap<String, Arc<ToolRecord>>> = LazyLock::new(|| {
    let tools = (0..16).map(|number| {
        let definition = json!({
            "name": format!("tool.{number:02}"), "description": "Does it.", "groups": groups_of(number),
            "input_schema": {"type": "object"}, "executor": {"type": "builtin", "name": "echo"},
        });
        (serde_json::from_value::<ToolDefinition>(definition).unwrap(), Time(0))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let registry = runtime.block_on(crate::registry::tests::tools(0)).registry;
    registry.show_files(tools.collect()).unwrap();
    let all = registry.default_catalog().snapshot().all().to_vec();
    all.into_iter().filter(|entry| entry.name.starts_with("tool.")).map(|e| (e.name.to_string(), e)).collect()
});

fn snapshot(active: [bool; 4]) -> Snapshot {
    let group = |(name, active): (&str, bool)| (name.to_owned(), Arc::new(Group { active, ..Group::named(name) }));
    let groups: Groups = GROUPS.into_iter().zip(active).map(group).collect();
    let tools = TOOLS.iter().map(|(name, tool)| (name.as_str().into(), Some(tool.clone()))).collect();
    Snapshot::default().with_changes(tools, Arc::new(groups), &NameSeparator::default())
}

fn session(switches: &[(&str, bool)], tools: Option<&[&str]>) -> Session {
    let groups = switches.iter().map(|(name, active)| ((*name).to_owned(), *active)).collect();
    let tools = tools.map(|tools| tools.iter().map(|name| (*name).to_owned()).collect());
    Session { groups, tools, ..Session::new("s".into(), Time(0)) }
}

fn names(list: &[Arc<ToolRecord>]) -> Vec<String> {
    list.iter().map(|entry| entry.name.to_string()).collect()
}

proptest! {
    #[test]
    fn tool_is_available_if_any_of_its_groups_is_active(
        active in any::<[bool; 4]>(),
        switches in any::<[Option<bool>; 4]>(),
        own in proptest::option::of(any::<[bool; 16]>()),
        has_session in any::<bool>(),
    ) {
        let own: Option<Vec<String>> = own.map(|own| {
            (0..16).filter(|number| own[*number]).map(|number| format!("tool.{number:02}")).collect()
        });
        let switched = GROUPS.into_iter().zip(switches).filter_map(|(name, switch)| Some((name.to_owned(), switch?)));
        let session = Session { groups: switched.collect(), tools: own.clone(), ..Session::new("s".into(), Time(0)) };
        let session = Some(&session).filter(|_| has_session);
        let snapshot = snapshot(active);
        let view = View::new(&snapshot, session, None);
        let is_on = |bit: usize| if has_session { switches[bit].unwrap_or(active[bit]) } else { active[bit] };
        let mut expected = Vec::new();
        for number in 0..16 {
            let name = format!("tool.{number:02}");
            let in_group = number == 0 || (0..4).any(|bit| number >> bit & 1 == 1 && is_on(bit));
            let is_had = !has_session || own.as_ref().is_none_or(|own| own.contains(&name));
            match view.find(&name) {
                Lookup::Available(entry) => prop_assert!(in_group && is_had && *entry.name == *name),
                Lookup::Unavailable(entry) => prop_assert!(!(in_group && is_had) && *entry.name == *name),
                Lookup::Missing => prop_assert!(false, "{} is missing", name),
            }
            if in_group && is_had {
                expected.push(name);
            }
        }
        prop_assert_eq!(names(&view.list()), expected.clone());
        let mut found: Vec<String> = view.search("does").iter().map(|(entry, _)| entry.name.to_string()).collect();
        found.sort();
        prop_assert_eq!(found, expected.clone());
        let listed = view.not_found("nothing", None);
        prop_assert_eq!(&listed.details.unwrap()["available_tools"], &json!(expected));
        if !has_session {
            prop_assert_eq!(names(snapshot.list()), expected);
        }
        prop_assert_eq!(snapshot.all().len(), 16);
    }
}

#[test]
fn unknown_name_is_missing_and_alias_is_found() {
    let snapshot = snapshot([false; 4]);
    let view = View::from(&snapshot);
    assert!(matches!(view.find("tool.99"), Lookup::Missing));
    let entry = snapshot.get("tool.03").unwrap();
    let alias = snapshot.name_for(entry, Some(toolpost_core::domain::Vendor::OpenAi)).unwrap();
    assert_ne!(alias, "tool.03");
    assert!(matches!(view.find(alias), Lookup::Unavailable(entry) if &*entry.name == "tool.03"));
    let session = session(&[("b", true)], None);
    let view = View::new(&snapshot, Some(&session), None);
    assert!(matches!(view.find(alias), Lookup::Available(entry) if &*entry.name == "tool.03"));
}

#[test]
fn empty_session_has_no_tools_and_unknown_names_are_ignored() {
    let snapshot = snapshot([true; 4]);
    let none = session(&[], Some(&[]));
    assert_eq!(View::new(&snapshot, Some(&none), None).list().len(), 0);
    let other = session(&[("x", false)], Some(&["tool.01", "no.such"]));
    assert_eq!(names(&View::new(&snapshot, Some(&other), None).list()), ["tool.01"]);
}

#[test]
fn session_switch_of_a_group_takes_precedence() {
    let snapshot = snapshot([true, false, true, false]);
    let session = session(&[("a", false), ("d", true)], None);
    let listed = |view: View<'_>| view.groups().map(|(group, active)| (group.name.clone(), active)).collect::<Vec<_>>();
    let expected = |active: [bool; 4]| GROUPS.map(str::to_owned).into_iter().zip(active).collect::<Vec<_>>();
    assert_eq!(listed(View::from(&snapshot)), expected([true, false, true, false]));
    assert_eq!(listed(View::new(&snapshot, Some(&session), None)), expected([false, false, true, true]));
    let members: Vec<&str> = View::from(&snapshot).members("d").collect();
    assert_eq!(members.len(), 8);
    assert!(members.contains(&"tool.08") && !members.contains(&"tool.07"));
}

#[test]
fn unavailable_tool_has_the_fixed_message() {
    let failure = toolpost_core::domain::Failure::unavailable("x");
    assert_eq!((failure.code, &*failure.text), (Code::ToolUnavailable, "Error: Tool \"x\" is not available"));
    assert!(!failure.retryable);
}

fn restricted<'a>(session: &'a mut Session, tools: Option<&[&str]>) -> Option<&'a [String]> {
    session.tools = tools.map(|tools| tools.iter().map(|&name| name.to_owned()).collect());
    restriction(session)
}

#[test]
fn session_is_restricted_by_other_tools_or_an_empty_list() {
    let mut session = Session::new("s".into(), Time(0));
    assert_eq!(restricted(&mut session, None), None);
    assert_eq!(restricted(&mut session, Some(&["new_task", "attempt_completion"])), None);
    assert_eq!(restricted(&mut session, Some(&[])), Some(&[][..]));
    let both = ["new_task".to_owned(), "echo".to_owned()];
    assert_eq!(restricted(&mut session, Some(&["new_task", "echo"])), Some(&both[..]));
}
