use super::*;

#[test]
fn valid_arguments_are_returned_unchanged() {
    for compiled in [of_x(json!({"type": "string"})), of_x(json!({"type": "string", "default": "d"}))] {
        let given = Arc::new(json!({"x": "y"}));
        let checked = compiled.check(&given, true).unwrap();
        assert!(Arc::ptr_eq(&checked.arguments, &given));
        assert!(checked.coerced.is_empty());
    }
}

#[test]
fn defaults_fill_absent_properties() {
    let compiled = input(json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 1},
            "b": {"type": "object", "properties": {"c": {"default": null}}},
            "d": {"type": "array", "items": {"properties": {"e": {"default": "f"}}}},
            "r": {"$ref": "#/$defs/r"},
            "o": {"type": "object", "default": {}, "properties": {"p": {"default": true}}}
        },
        "allOf": [{"properties": {"g": {"default": 2}}}],
        "anyOf": [{"properties": {"h": {"default": "never"}}}],
        "$defs": {"r": {"type": "string", "default": "s"}}
    }));
    for coerce in [true, false] {
        let checked = compiled.check(&Arc::new(json!({"b": {}, "d": [{}, 1]})), coerce).unwrap();
        let filled = json!({"a": 1, "b": {"c": null}, "d": [{"e": "f"}, 1], "r": "s", "o": {"p": true}, "g": 2});
        assert_eq!(*checked.arguments, filled);
        assert!(checked.coerced.is_empty());
    }
    assert_eq!(checked(&compiled, json!({})).arguments.get("b"), None, "only an existing object is filled");
}

#[test]
fn default_that_breaks_its_own_schema_is_skipped() {
    let compiled = input(json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": "none"}, "b": {"enum": ["x"], "default": "y"}, "c": {"type": "string", "default": "z"}
    }}));
    assert_eq!(*checked(&compiled, json!({})).arguments, json!({"c": "z"}));
}

#[test]
fn defaults_that_break_the_whole_schema_are_skipped() {
    let compiled = input(json!({"type": "object", "maxProperties": 1, "properties": {"a": {"default": 1}, "b": {}}}));
    assert_eq!(*checked(&compiled, json!({})).arguments, json!({"a": 1}));
    assert_eq!(*checked(&compiled, json!({"b": 1})).arguments, json!({"b": 1}));
}

#[test]
fn required_property_with_a_default_must_be_present() {
    let compiled = input(json!({"type": "object", "properties": {"a": {"default": 1}}, "required": ["a"]}));
    let violations = compiled.check(&Arc::new(json!({})), true).unwrap_err();
    assert_eq!(violations[0].property.as_deref(), Some("a"));
}

#[test]
fn endless_defaults_are_skipped() {
    let compiled = input(json!({"type": "object", "properties": {
        "child": {"$ref": "#", "default": {}}, "n": {"default": 1}
    }}));
    assert_eq!(*checked(&compiled, json!({"child": {}})).arguments, json!({"child": {"n": 1}, "n": 1}));
    let large = "x".repeat(100_000);
    let compiled = of_x(json!({"type": "array", "items": {"properties": {"big": {"default": large}}}}));
    let many = json!({"x": vec![json!({}); 1_000]});
    assert_eq!(*checked(&compiled, many.clone()).arguments, many);
}
