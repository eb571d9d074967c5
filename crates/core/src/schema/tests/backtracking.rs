//! Patterns that need backtracking.

use serde_json::json;

use super::{checked, input, of_x, wrong};

#[test]
fn look_around_and_back_references_are_matched() {
    let email = of_x(
        json!({"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"}),
    );
    checked(&email, json!({"x": "ada.l@example.com"}));
    let found = wrong(&email, json!({"x": "ada..l@example.com"}));
    assert_eq!((found[0].pointer.as_str(), found[0].keyword.as_str()), ("/x", "pattern"));
    assert!(found[0].message.starts_with("must match the pattern \"^(?!"), "{}", found[0].message);
    let twice = of_x(json!({"pattern": r"^(?<half>ab+)-\k<half>$"}));
    checked(&twice, json!({"x": "abb-abb"}));
    wrong(&twice, json!({"x": "abb-ab"}));
    let behind = of_x(json!({"pattern": r"(?<=\$)\d+"}));
    checked(&behind, json!({"x": "cost: $10"}));
    wrong(&behind, json!({"x": "cost: 10"}));
}

#[test]
fn linear_patterns_next_to_backtracking_ones_are_unchanged() {
    let both =
        input(json!({"type": "object", "properties": {"a": {"pattern": "^(?!x)"}, "b": {"pattern": "^[a-z]+$"}}}));
    checked(&both, json!({"a": "y", "b": "z"}));
    let found = wrong(&both, json!({"a": "y", "b": "1"}));
    assert_eq!(found[0].message, "must match the pattern \"^[a-z]+$\" (got \"1\")");
}

#[test]
fn names_are_matched_too() {
    let names = input(json!({"type": "object", "patternProperties": {"^(?!x-)": {"type": "integer"}},
        "additionalProperties": false}));
    checked(&names, json!({"a": 1}));
    wrong(&names, json!({"x-a": 1}));
    assert_eq!(checked(&names, json!({"a": "1"})).arguments, json!({"a": 1}).into());
    let many: serde_json::Map<_, _> = (0..5000).map(|n| (format!("name_{n}"), json!(1))).collect();
    let found = wrong(&names, json!(many));
    assert!(found[0].message.contains("backtracks"), "{}", found[0].message);
}

#[test]
fn text_that_reaches_the_step_limit_is_invalid_even_under_not() {
    let hostile = format!("{}!", "a".repeat(3000));
    let pattern = json!({"pattern": r"^(?=a)(a|aa)+\1$"});
    for schema in [pattern.clone(), json!({"not": pattern})] {
        let compiled = of_x(schema);
        let found = wrong(&compiled, json!({"x": hostile}));
        assert!(!found.is_empty());
        assert!(!compiled.is_valid(&json!({"x": hostile})));
        // The bound belongs to one check.
        checked(&of_x(json!({"pattern": "^(?=a)(a+)+$"})), json!({"x": "aaa"}));
    }
    let found = wrong(&of_x(json!({"pattern": r"^(?=a)(a|aa)+\1$"})), json!({"x": hostile}));
    assert!(found[0].message.contains("too long to be matched"), "{}", found[0].message);
}

#[test]
fn total_matching_work_is_bounded() {
    let list = of_x(json!({"items": {"pattern": r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z.]+$"}}));
    let many: Vec<_> = (0..10_000).map(|n| format!("user.{}@example.com", "x".repeat(n % 7 + 1))).collect();
    checked(&list, json!({"x": many}));
    let hostile = of_x(json!({"items": {"pattern": r"^(?=a)(a|aa)+\1$"}}));
    let many = vec![format!("{}!", "a".repeat(1000)); 10_000];
    wrong(&hostile, json!({"x": many}));
}

#[test]
fn long_text_is_matched_if_that_takes_few_steps() {
    let not_blank = of_x(json!({"pattern": r"^(?!\s*$).+"}));
    checked(&not_blank, json!({"x": "word ".repeat(200_000)}));
    wrong(&not_blank, json!({"x": "   "}));
}
