//! Conditions of policies: any text is refused or compiled, and what is compiled is evaluated to an answer or an error.

use std::sync::Arc;

use serde_json::json;
use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Time};
use toolpost::policies::{Bounds, Condition, Evaluation, Input, Variables};

use super::driver::Target;

#[test]
fn any_expression_is_rejected_or_evaluated() {
    let items: Vec<_> = (0..20).map(|n| json!({"n": n, "tags": ["one", "two"], "price": 1.5})).collect();
    let arguments = json!({"amount": 150, "to": ["a@example.com"], "items": items, "text": "x".repeat(200)});
    let arguments = Arc::new(arguments);
    let record = CallRecord::accepted(uuid::Uuid::nil(), "pay".into(), None, arguments.clone(), Time(0), "node".into());
    let call = Call::from(record);
    let take = |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        if let Ok(condition) = Condition::compile(text) {
            let input = Input::new(&call, None, &arguments, Time(0));
            // Either is fine: a policy that cannot be evaluated denies.
            let variables = Variables::new(&input);
            let _ = condition.matches(&Evaluation::new(&variables, Bounds::default()).unwrap());
        }
        Ok(())
    };
    let words = &[
        "args",
        "tool.name",
        "now",
        " && ",
        " || ",
        "!",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "?",
        ":",
        ".all(x, ",
        ".exists(y, ",
        ".map(z, ",
        ".filter(w, ",
        "has(",
        " in ",
        "size(",
        " == ",
        " + ",
        "'text'",
        "1",
        "-1",
        "2.5",
        "null",
        "true",
        ".matches('",
        "timestamp('2026-01-01T00:00:00Z')",
        "duration('1h')",
        "0x",
        "1u",
        "b'a'",
        "r'\\",
    ];
    Target { name: "expressions", beside: &[], words, inputs: 400, take }.run();
}
