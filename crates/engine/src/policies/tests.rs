//! Tests of the evaluation.

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::{Call, Identity, Scopes, Source, ToolDefinition, tool};

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

fn verdict_of(policies: &[Arc<Policy>], input: &Input) -> Option<Verdict> {
    evaluate(policies, input, input.size(), Bounds::default())
}

/// Evaluates one condition on a call of `pay` at 2026-01-01T02:00:00Z.
fn holds(when: &str, arguments: &Value, source: Source) -> Result<bool, String> {
    let (call, pay) = (call(arguments), Arc::new(pay()));
    let now = Time(1_767_232_800_000_000);
    let input = Input::new(&call, Some((&pay, source)), &call.arguments, now);
    match verdict_of(&[policy("p", when, PolicyEffect::Allow, 0)], &input) {
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
fn failed_evaluation_denies() {
    for (when, arguments) in [
        ("args.amount > 100", json!({})),
        ("args.amount > 100", json!({"amount": "much"})),
        ("args.amount", json!({"amount": 1})),
        ("1 / args.amount == 1", json!({"amount": 0})),
        ("args.l.all(x, args.l.all(y, args.l.all(z, x == y)))", json!({"l": vec![1; 100]})),
        ("args.text == ''", json!({"text": "x".repeat(input::MAX_ARGUMENTS)})),
    ] {
        assert!(holds(when, &arguments, Source::Api).is_err(), "{when}");
    }
    let arguments = json!({});
    let call = call(&arguments);
    let input = Input::new(&call, None, &call.arguments, Time(0));
    let verdict = verdict_of(&[policy("p", "args.x == 1", PolicyEffect::Allow, 0)], &input).unwrap();
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
    let input = Input::new(&call, None, &call.arguments, Time(0));
    assert_eq!(verdict_of(&all[1..], &input).unwrap().policy, "high");
    assert_eq!(verdict_of(&all[..0], &input), None);
}

/// Returns the error of a condition, which names the bound.
fn exceeded(when: &str, arguments: &Value) -> String {
    let error = holds(when, arguments, Source::Api).expect_err(when);
    assert!(error.contains("more than"), "{when}: {error}");
    error
}

#[test]
fn constant_patterns_are_compiled_once() {
    let paths: Vec<String> = (0..10_000).map(|n| format!("/srv/data-{n:06}/file.txt")).collect();
    let when = r"args.paths.all(path, path.matches('^/srv/[\\w-]{1,64}/[\\w.-]{1,128}$'))";
    assert_eq!(holds(when, &json!({"paths": &paths[..9000]}), Source::Api), Ok(true));
    let refused = Condition::compile("args.a.matches('(')").unwrap_err();
    assert!(refused.message.contains("pattern is invalid") && refused.column > 1, "{refused}");
}

#[test]
fn patterns_of_arguments_are_compiled_within_the_bounds() {
    let when = "args.l.exists(x, args.text.matches(x))";
    assert_eq!(holds(when, &json!({"l": ["^b", "^a", "^a"], "text": "abc"}), Source::Api), Ok(true));
    let patterns: Vec<String> = (0..200).map(|n| format!("^x{n}$")).collect();
    exceeded(when, &json!({"l": patterns, "text": "abc"}));
}

#[test]
fn memory_of_an_evaluation_is_bounded() {
    let arguments = json!({"l": vec![1; 20_000], "big": "x".repeat(150_000), "m": {"a": {"b": vec![1; 1000]}}});
    for when in [
        "args.l.map(x, args.big + 'x').size() > 0",
        "args.l.map(x, [args.big + 'x']).size() > 0",
        "args.l.map(x, args.m).size() > 0",
        "args.l.map(x, {'k': args.m}).size() > 0",
        "args.l.map(x, args.l + args.l).size() > 0",
        "args.l.map(x, string(bytes(args.big))).size() > 0",
        "args.l.map(x, args.l.map(y, y)).size() > 0",
        // Errors that operators and macros hide do not hide the bound.
        "args.l.all(x, args.big + 'x' != '') || true",
        "args.l.exists(x, args.l.map(y, args.big + 'x').size() == x) || true",
    ] {
        exceeded(when, &arguments);
    }
}

#[test]
fn steps_of_an_evaluation_are_bounded() {
    let arguments = json!({"l": vec![1; 20_000], "a": "x".repeat(100_000), "b": "x".repeat(100_000), "one": [1]});
    for when in [
        "args.l.all(x, args.l.all(y, x == y))",
        "args.l.all(x, args.l.all(y, true))",
        "args.l.all(x, 1 in args.l && 2 in args.l || true)",
        "args.l.all(x, args.a == args.b)",
        "args.l.all(x, args.a.contains('y') || true)",
        "args.l.all(x, size(args.a) > 1)",
        "args.l.all(x, args.a.matches('x+y') || true)",
        "args.l.exists(x, args.l.exists(y, args.l.exists(z, 1 / (x - 1) == 2)))",
        "args.l.filter(x, args.l.exists_one(y, y == x)).size() == 0",
    ] {
        exceeded(when, &arguments);
    }
}

#[test]
fn ordinary_conditions_about_many_values_are_within_the_bounds() {
    let items: Vec<Value> =
        (0..1000).map(|n| json!({"n": n, "tags": ["a", "b"], "name": format!("item {n}")})).collect();
    let arguments = json!({"items": items, "text": "word ".repeat(20_000)});
    for when in [
        "args.items.all(i, i.n < 1000 && i.name.startsWith('item') && 'a' in i.tags)",
        "args.items.filter(i, i.n % 2 == 0).map(i, i.name + '!').size() == 500",
        "args.items.exists(i, i.tags.exists(t, t == 'b') && args.items.size() == 1000)",
        "args.text.matches('word') && args.text.contains('word') && args.text.size() == 100000",
    ] {
        assert_eq!(holds(when, &arguments, Source::Api), Ok(true), "{when}");
    }
}

#[tokio::test]
async fn long_evaluations_leave_the_async_threads_free() {
    let arguments = json!({"l": vec![1; 20_000]});
    let call = call(&arguments);
    let input = Input::new(&call, None, &call.arguments, Time(0));
    let policies = Arc::new(vec![policy("slow", "args.l.all(x, args.l.all(y, true))", PolicyEffect::Allow, 0)]);
    let decided = decide(policies, input, Bounds::default());
    tokio::pin!(decided);
    // The runtime of this test has one thread: the evaluation does not run on it.
    assert!(futures_util::poll!(&mut decided).is_pending());
    let verdict = decided.await.unwrap();
    assert_eq!((verdict.policy.as_str(), verdict.effect), ("slow", PolicyEffect::Deny));
}
