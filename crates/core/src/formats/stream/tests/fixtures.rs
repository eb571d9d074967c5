//! Recorded streams of vendors, and their calls.

use serde_json::json;

use super::*;

#[test]
fn golden_streams_yield_their_calls() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams");
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let Value::Object(expected) = json::parse(&expected).unwrap() else { panic!("an object") };
    assert_eq!(expected.len(), 4);
    for (file, expected) in expected {
        let parsed = story(&std::fs::read_to_string(folder.join(&file)).unwrap());
        let calls: Vec<Value> = parsed
            .calls
            .iter()
            .map(|call| {
                json!([
                    call.id,
                    call.name,
                    format!("{:?}", call.kind),
                    call.closed.clone().unwrap_or_else(|| "cut off".into())
                ])
            })
            .collect();
        assert_eq!(json!({"ended": parsed.ended, "calls": calls}), expected, "{file}");
        assert_eq!(parsed.broken, None);
    }
}
