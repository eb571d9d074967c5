//! Tests of parsing documents.

use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Value, String> {
    parse(text.as_bytes(), Bounds::SENT).map_err(|error| error.message)
}

#[test]
fn json_and_yaml_give_the_same_value() {
    let value = json!({"openapi": "3.0.0", "n": [1, -2, 1.5, true, null, "é"], "responses": {"200": {"x": "y"}}});
    let yaml = "openapi: 3.0.0\nn: [1, -2, 1.5, true, ~, é]\nresponses:\n  200: {x: y}\n";
    for text in [
        value.to_string(),
        format!("\u{feff}{value:#}"),
        yaml.to_owned(),
        format!("{{{}}}", "openapi: 3.0.0, n: [1, -2, 1.5, true, ~, é], responses: {200: {x: y}}"),
    ] {
        assert_eq!(read(&text), Ok(value.clone()), "{text}");
    }
}

#[test]
fn anchors_and_merge_keys_are_expanded() {
    let text = "base: &b {a: 1, b: 2}\nmore: &m {c: 3}\nx: {<<: *b, b: 4}\ny: {<<: [*b, *m]}\n";
    let read = read(text).unwrap();
    assert_eq!((&read["x"], &read["y"]), (&json!({"b": 4, "a": 1}), &json!({"a": 1, "b": 2, "c": 3})));
}

#[test]
fn invalid_document_is_rejected_with_reason_and_location() {
    for (text, expected) in [
        ("{\"a\": tru}", "not valid JSON: expected ident at line 1 column 10"),
        ("a: [1", "not valid YAML"),
        ("a: 'x", "not valid YAML"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: 123456789012345678901234567890", "beyond 64 bits"),
        ("a: .inf", "not a JSON number"),
        ("a: !x 1", "tags"),
        ("? [a]\n: 1", "a key must be a string"),
        ("a: *nobody", "unknown anchor"),
    ] {
        assert!(read(text).as_ref().is_err_and(|message| message.contains(expected)), "{text}: {:?}", read(text));
    }
    assert!(read(&"[".repeat(5000)).is_err());
    assert!(read(&format!("{}1", "- ".repeat(5000))).is_err());
    assert!(parse(&[0xff, 0xfe, 0x00], Bounds::SENT).is_err());
}

#[test]
fn bounds_beyond_64_bits_are_replaced_in_json_and_yaml() {
    let schema = |schema: &str| {
        (
            format!("{{\"components\":{{\"schemas\":{{\"default\":{schema}}}}}}}"),
            format!("components:\n  schemas:\n    default: {}\n", schema.replace('"', "").replace(':', ": ")),
        )
    };
    let long = "-9223372036854776000";
    let (json, yaml) = schema(&format!("{{\"minimum\":{long},\"maximum\":5}}"));
    for text in [json, yaml] {
        let document = super::read(text.as_bytes(), Bounds::SENT).unwrap();
        assert_eq!(document.value["components"]["schemas"]["default"], json!({"minimum": i64::MIN, "maximum": 5}));
        assert_eq!(document.warnings.len(), 1, "{text}");
        assert!(document.warnings[0].contains(long) && document.warnings[0].contains("minimum"));
    }
    let (json, yaml) = schema(&format!("{{\"minimum\":{long},\"exclusiveMinimum\":true}}"));
    for text in [json, yaml] {
        let value = read(&text).unwrap();
        assert_eq!(value.pointer("/components/schemas/default/minimum").unwrap().to_string(), "-9.223372036854778e+18");
    }
    for keyword in ["default", "const", "multipleOf", "x"] {
        let (json, yaml) = schema(&format!("{{\"{keyword}\":{long}}}"));
        for text in [json, yaml] {
            assert!(read(&text).unwrap_err().contains("beyond 64 bits"), "{text}");
        }
    }
}

#[test]
fn expansion_of_a_document_is_bounded() {
    let bounds = Bounds { bytes: 4 * 1024 * 1024, nodes: 500_000 };
    let read = |text: &str| parse(text.as_bytes(), bounds).map_err(|error| error.message);
    // Nine lines expand to a billion values.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", ")));
    }
    assert!(
        read(&bomb).unwrap_err().contains("not valid YAML: repetition limit")
            || read(&bomb).unwrap_err().contains("values")
    );
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 60].join(", "));
    assert!(read(&long).unwrap_err().contains("aliases expanded"), "{}", read(&long).unwrap_err());
    let many = format!("a: [{}]", vec!["1"; 600_000].join(","));
    assert_eq!(read(&many).unwrap_err(), "the document has more than 500000 values");
    assert!(read(&format!("a: [{}]", ",".repeat(2_000_000))).unwrap_err().contains("more than 500000 values"));
    assert!(read(&"x".repeat(5_000_000)).unwrap_err().contains("5000000 bytes, the maximum is 4194304"));
}
