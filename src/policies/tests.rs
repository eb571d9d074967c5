//! Tests of the evaluation.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::domain::call::CallRecord;
use crate::domain::{Call, Identity, Scopes, Source, ToolDefinition, tool};

fn policy(name: &str, when: &str, effect: PolicyEffect, priority: i32) -> Arc<Policy> {
    let definition =
        PolicyDefinition { name: name.into(), when: when.into(), effect, priority, reason: None, enabled: true };
    Arc::new(Policy::compile(definition, PolicySource::Api, Time(0)).unwrap())
}

fn pay() -> ToolDefinition {
    let definition = json!({"name": "pay", "input_schema": {"type": "object"}, "executor": {"type": "external"},
        "tags": ["money"], "groups": ["finance"], "annotations": {"read_only": true}});
    tool::read_definition(definition).unwrap()
}

fn call(arguments: &Value) -> Call {
    let record =
        CallRecord::accepted(Uuid::nil(), "pay".into(), None, Arc::new(arguments.clone()), Time(0), "n".into());
    let identity = Identity { subject: "ada".into(), key: None, scopes: Scopes::of_text("call read") };
    CallRecord { session: Some("s1".into()), priority: 7, caller: Some(identity.into()), ..record }.into()
}

/// Evaluates one condition on a call of `pay` at 2026-01-01T02:00:00Z.
fn holds(when: &str, arguments: &Value, source: Source) -> Result<bool, String> {
    let (call, pay) = (call(arguments), pay());
    let now = Time(1_767_232_800_000_000);
    let input = Input::new(&call, Some((&pay, source)), arguments, now);
    let verdict = evaluate(&[policy("p", when, PolicyEffect::Allow, 0)], &input);
    match verdict {
        None => Ok(false),
        Some(Verdict { error: Some(error), .. }) => Err(error),
        Some(_) => Ok(true),
    }
}

#[test]
fn expressions_see_the_call() {
    let arguments = json!({"amount": 150, "rate": 0.5, "to": "eve@example.org", "items": [{"n": 1}, {"n": 5}]});
    for when in [
        "tool.name == 'pay' && tool.source == 'api' && 'money' in tool.tags && 'finance' in tool.groups",
        "tool.annotations.read_only && !tool.annotations.idempotent",
        "args.amount > 100 && args.rate < 1.0 && args.rate < 1",
        "!args.to.endsWith('@example.com') && args.to.matches('^[a-z]+@')",
        "args.items.exists(item, item.n > 4) && args.items.size() == 2",
        "has(args.to) && !has(args.cc)",
        "caller.tenant == 'default' && caller.subject == 'ada' && caller.key == null && 'call' in caller.scopes",
        "session.id == 's1' && call.batch == null && call.index == 0 && call.priority == 7",
        "now.getHours() < 6 && now.getHours('Asia/Tokyo') == 11 && now > timestamp('2025-12-31T00:00:00Z')",
    ] {
        assert_eq!(holds(when, &arguments, Source::Api), Ok(true), "{when}");
    }
}

#[test]
fn hints_of_upstream_servers_do_not_count() {
    assert_eq!(holds("tool.annotations.read_only", &json!({}), Source::Mcp), Ok(false));
    assert_eq!(holds("tool.annotations.destructive", &json!({}), Source::Mcp), Ok(true));
}

#[test]
fn what_cannot_be_evaluated_is_denied() {
    for (when, arguments) in [
        ("args.amount > 100", json!({})),
        ("args.amount > 100", json!({"amount": "much"})),
        ("args.amount", json!({"amount": 1})),
        ("1 / args.amount == 1", json!({"amount": 0})),
        ("args.l.all(x, args.l.all(y, args.l.all(z, x == y)))", json!({"l": vec![1; 100]})),
        (
            "[1,1,1,1,1,1,1,1,1,1,1,1].all(x, [1,1,1,1,1,1,1,1,1,1,1,1].all(y, [1,1,1,1,1,1,1,1,1,1,1,1].all(z, x == y)))",
            json!({"l": vec![1; 30]}),
        ),
        ("args.text == ''", json!({"text": "x".repeat(input::MAX_ARGUMENTS)})),
    ] {
        assert!(holds(when, &arguments, Source::Api).is_err(), "{when}");
    }
    let arguments = json!({});
    let call = call(&arguments);
    let input = Input::new(&call, None, &arguments, Time(0));
    let verdict = evaluate(&[policy("p", "args.x == 1", PolicyEffect::Allow, 0)], &input).unwrap();
    assert_eq!((verdict.effect, verdict.error.is_some()), (PolicyEffect::Deny, true));
}

#[test]
fn first_match_decides() {
    let fixed = |name: &str, priority| {
        let one = policy(name, "true", PolicyEffect::Allow, priority);
        Arc::new(Policy {
            source: PolicySource::Config,
            condition: Condition::compile("true"),
            definition: one.definition.clone(),
            created_at: Time(0),
            updated_at: Time(0),
        })
    };
    let mut all = vec![
        policy("low", "true", PolicyEffect::Allow, -1),
        policy("high", "true", PolicyEffect::Deny, 5),
        policy("never", "false", PolicyEffect::Deny, 9),
        fixed("fixed", -100),
    ];
    sort(&mut all);
    let names: Vec<&str> = all.iter().map(|policy| policy.definition.name.as_str()).collect();
    assert_eq!(names, ["fixed", "never", "high", "low"]);
    let arguments = json!({});
    let call = call(&arguments);
    let input = Input::new(&call, None, &arguments, Time(0));
    assert_eq!(evaluate(&all[1..], &input).unwrap().policy, "high");
    assert_eq!(evaluate(&all[..0], &input), None);
}
