//! Tests of the selection and the order of hooks.

use serde_json::json;

use super::*;
use toolpost_core::domain::{Time, decode};
use toolpost_tool::executor::{Egress, Reporting, Secrets};

fn definition(value: serde_json::Value) -> HookDefinition {
    decode::read(value).unwrap()
}

fn hooks(declared: &[HookDefinition]) -> Hooks {
    hooks_of(Vec::new(), declared)
}

pub(super) fn hooks_of(own: Vec<RustHook>, declared: &[HookDefinition]) -> Hooks {
    let (clock, key) = (Clock::manual(Time(0)), SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap());
    let client =
        HttpClient::new(Egress::new([""; 0]).unwrap(), Secrets::from_env(), clock.clone(), Reporting::new(key.clone()));
    Hooks::new(client.unwrap(), key, clock, IdGenerator::counted(), own, declared).unwrap()
}

fn refused(value: serde_json::Value) -> String {
    let hook = Hook::declared("x".into(), definition(value), HookSource::Api, Time(0));
    hook.unwrap_err()[0].0.clone()
}

#[tokio::test]
async fn hooks_are_ordered_by_priority_and_registration() {
    let of = |priority: i32| definition(json!({"event": "before_tool_call", "url": "http://h/", "priority": priority}));
    let hooks = hooks(&[of(0), of(5), of(0), of(-1), of(5)]);
    let hooks_of_event = hooks.matching(HookEvent::BeforeToolCall, &Tenant::default(), "t", &[]);
    let ids: Vec<&str> = hooks_of_event.iter().map(|hook| &*hook.id).collect();
    assert_eq!(ids, ["config-2", "config-5", "config-1", "config-3", "config-4"]);
    assert!(hooks.has(HookEvent::BeforeToolCall) && !hooks.has(HookEvent::AfterToolCall));
}

#[tokio::test]
async fn hook_matches_its_tools_and_groups() {
    let of = |matches: serde_json::Value| {
        let hook = definition(json!({"event": "after_tool_call", "url": "http://h/", "match": matches}));
        move |tool: &str, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            !hooks(std::slice::from_ref(&hook))
                .matching(HookEvent::AfterToolCall, &Tenant::default(), tool, &groups)
                .is_empty()
        }
    };
    assert!(of(json!({}))("anything", &[]));
    let mail = of(json!({"tools": ["mail_*", "fs.{read,write}"]}));
    assert!(mail("mail_send", &[]) && mail("fs.read", &[]) && !mail("fs.list", &[]) && !mail("a_mail_x", &[]));
    let group = of(json!({"tools": ["*"], "groups": ["a", "b"]}));
    assert!(group("t", &["c", "b"]) && !group("t", &["c"]) && !group("t", &[]));
}

#[test]
fn invalid_hook_is_rejected_with_its_location() {
    let url = "http://h/";
    for (value, pointer) in [
        (json!({"event": "before_tool_call"}), "/url"),
        (json!({"event": "before_tool_call", "url": "ftp://h/"}), "/url"),
        (json!({"event": "before_tool_call", "url": url, "timeout_ms": 0}), "/timeout_ms"),
        (json!({"event": "before_tool_call", "url": url, "timeout_ms": 60_001}), "/timeout_ms"),
        (json!({"event": "before_tool_call", "url": url, "secret": "whsec_short"}), "/secret"),
        (json!({"event": "before_tool_call", "url": url, "match": {"tools": ["a", "[b"]}}), "/match/tools/1"),
        (json!({"event": "before_tool_call", "url": url, "options": {}}), "/options"),
        (json!({"event": "before_tool_call", "builtin": "truncate", "options": {"max_bytes": 1}}), "/event"),
        (json!({"event": "tool_result_persist", "url": url, "builtin": "truncate"}), "/builtin"),
        (json!({"event": "tool_result_persist", "builtin": "truncate"}), "/options"),
        (
            json!({"event": "tool_result_persist", "builtin": "redact", "options": {"patterns": ["("]}}),
            "/options/patterns/0",
        ),
    ] {
        assert_eq!(refused(value.clone()), pointer, "{value}");
    }
}

#[test]
fn secret_is_neither_shown_nor_stored() {
    let secret = SigningKey::text_of(&[7; 32]);
    let definition = definition(json!({"event": "after_tool_call", "url": "http://h/", "secret": secret}));
    assert!(!format!("{definition:?}").contains(&secret));
    assert!(!serde_json::to_string(&definition).unwrap().contains("secret"));
    let hook = Hook::declared("x".into(), definition, HookSource::Api, Time(0)).unwrap();
    let view = serde_json::to_value(&hook).unwrap();
    assert_eq!(view["has_secret"], true);
    assert!(!view.to_string().contains(&secret));
}
