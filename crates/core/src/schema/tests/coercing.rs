use super::*;

/// Returns the coerced value of `x`, and the coercions as `pointer:from>to`.
fn coerced(schema: Value, x: Value) -> (Value, Vec<String>) {
    let checked = checked(&of_x(schema), json!({"x": x}));
    let listed = checked.coerced.iter().map(|c| format!("{}:{}>{}", c.pointer, c.from, c.to)).collect();
    (checked.arguments["x"].clone(), listed)
}

#[track_caller]
fn assert_coerced(schema: Value, from: Value, to: Value, listed: &[&str]) {
    let (value, coerced) = coerced(schema, from);
    assert_eq!((value, coerced), (to, listed.iter().map(|text| (*text).to_owned()).collect()));
}

#[track_caller]
fn assert_not_coerced(schema: Value, x: Value) {
    let compiled = of_x(schema);
    assert!(compiled.check(&Arc::new(json!({"x": x})), true).is_err());
}

#[test]
fn strings_are_coerced_to_booleans_and_numbers() {
    for (text, boolean) in [("true", true), ("FALSE", false), (" True ", true)] {
        assert_coerced(json!({"type": "boolean"}), json!(text), json!(boolean), &["/x:string>boolean"]);
    }
    assert_coerced(json!({"type": "integer"}), json!(" 42 "), json!(42), &["/x:string>integer"]);
    assert_coerced(json!({"type": "number"}), json!("-1.5e3"), json!(-1500.0), &["/x:string>number"]);
    assert_coerced(json!({"type": "number"}), json!("7"), json!(7), &["/x:string>integer"]);
    assert_coerced(json!({"type": "integer"}), json!("1.0"), json!(1), &["/x:string>integer"]);
    let beyond = "18446744073709551615";
    assert_coerced(json!({"type": "integer"}), json!(beyond), json!(u64::MAX), &["/x:string>integer"]);
    assert_coerced(json!({"enum": [1, 2]}), json!("2"), json!(2), &["/x:string>integer"]);
    assert_coerced(json!({"const": true}), json!("true"), json!(true), &["/x:string>boolean"]);
    assert_coerced(json!({"type": ["boolean", "null"]}), json!("true"), json!(true), &["/x:string>boolean"]);
}

#[test]
fn inexact_or_invalid_values_are_not_coerced() {
    for text in ["", " ", "yes", "1", "0", "tru"] {
        assert_not_coerced(json!({"type": "boolean"}), json!(text));
    }
    for text in ["1.5", "", "0x10", "1_000", "NaN", "+1", "01", "1 2", "123456789012345678901234567890"] {
        assert_not_coerced(json!({"type": "integer"}), json!(text));
    }
    assert_not_coerced(json!({"type": "integer", "maximum": 5}), json!("6"));
    assert_not_coerced(json!({"type": "string"}), json!(5));
    assert_not_coerced(json!({"type": "boolean"}), json!(1));
    assert_not_coerced(json!({"type": "array"}), json!("a,b"));
    assert_not_coerced(json!({"type": "object"}), json!("[1]"));
    assert_not_coerced(json!({"type": "integer"}), json!("true"));
}

#[test]
fn string_is_kept_if_the_schema_allows_it() {
    for schema in [
        json!({}),
        json!(true),
        json!({"type": "string"}),
        json!({"type": ["integer", "string"]}),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    ] {
        for text in ["5", "true", "{}", "null"] {
            assert_coerced(schema.clone(), json!(text), json!(text), &[]);
        }
    }
}

#[test]
fn null_of_an_optional_property_is_removed() {
    for kind in ["string", "integer", "boolean", "array", "object"] {
        let compiled = of_x(json!({"type": kind}));
        let checked = checked(&compiled, json!({"x": null, "y": null}));
        assert_eq!(*checked.arguments, json!({"y": null}), "y is not declared");
        assert_eq!(checked.coerced[0].to, "absent");
    }
    assert_coerced(json!({"type": ["string", "null"]}), json!(null), json!(null), &[]);
    assert_coerced(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!(null), json!(null), &[]);
    let required =
        input(json!({"type": "object", "properties": {"x": {"type": "string", "default": "d"}}, "required": ["x"]}));
    assert_eq!(wrong(&required, json!({"x": null}))[0].pointer, "/x");
    let with_default = of_x(json!({"type": "integer", "default": 3}));
    assert_eq!(*checked(&with_default, json!({"x": null})).arguments, json!({"x": 3}));
    assert_not_coerced(json!({"type": "array", "items": {"type": "string"}}), json!([null]));
}

#[test]
fn json_in_a_string_is_parsed_and_coerced() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "o": {"type": "string"}}});
    let listed = ["/x:string>object", "/x/n:string>integer", "/x/o:null>absent"];
    assert_coerced(schema, json!(r#" {"n":"1","o":null} "#), json!({"n": 1}), &listed);
    let numbers = json!({"type": "array", "items": {"type": "number"}});
    assert_coerced(numbers.clone(), json!("[1, \"2\"]"), json!([1, 2]), &["/x:string>array", "/x/1:string>integer"]);
    let violations = wrong(&of_x(numbers), json!({"x": "[1, \"b\"]"}));
    assert_eq!((violations.len(), violations[0].pointer.as_str()), (1, "/x/1"));
}

#[test]
fn nested_values_are_coerced() {
    let compiled = input(json!({
        "type": "object",
        "properties": {
            "a": {"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"$ref": "#/$defs/n"}},
            "b": {"allOf": [{"$ref": "#/$defs/o"}, {"required": ["n"]}]},
            "a~/b": {"$ref": "#/$defs/n"},
            "k": {"type": "string"}
        },
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": {"type": "number"},
        "if": {"properties": {"k": {"const": "flag"}}, "required": ["k"]},
        "then": {"properties": {"v": {"multipleOf": 2}}},
        "$defs": {"n": {"type": "integer"}, "o": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}
    }));
    let given =
        json!({"a": ["true", "1"], "b": {"n": "2"}, "a~/b": "3", "n_1": "4", "other": "5.5", "k": "6", "v": "8"});
    let checked = checked(&compiled, given);
    let mended = json!({"a": [true, 1], "b": {"n": 2}, "a~/b": 3, "n_1": 4, "other": 5.5, "k": "6", "v": 8});
    assert_eq!(*checked.arguments, mended);
    let pointers: Vec<&str> = checked.coerced.iter().map(|coercion| coercion.pointer.as_str()).collect();
    assert_eq!(pointers, ["/a/0", "/a/1", "/b/n", "/a~0~1b", "/n_1", "/other", "/v"]);
}

#[test]
fn first_branch_that_accepts_the_coerced_value_is_used() {
    let either = json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "number"}]});
    assert_coerced(either.clone(), json!("1"), json!(1), &["/x:string>integer"]);
    assert_coerced(either.clone(), json!("true"), json!(true), &["/x:string>boolean"]);
    assert_coerced(either, json!("1.5"), json!(1.5), &["/x:string>number"]);
    let shapes = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]}
    ]});
    let square = json!({"kind": "square", "a": "2"});
    assert_coerced(shapes, square, json!({"kind": "square", "a": 2}), &["/x/a:string>integer"]);
    let exclusive = json!({"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "boolean"}]});
    assert_not_coerced(exclusive, json!("1"));
    let optional = json!({"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]});
    assert_coerced(optional, json!({"n": "1"}), json!({"n": 1}), &["/x/n:string>integer"]);
}

#[test]
fn root_string_is_not_parsed_and_coercion_is_optional() {
    let compiled = of_x(json!({"type": "integer"}));
    assert!(compiled.check(&Arc::new(json!("{}")), true).is_err());
    assert!(compiled.check(&Arc::new(json!({"x": "1"})), false).is_err());
}

#[test]
fn only_remaining_violations_are_reported() {
    let compiled = input(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
        "required": ["c"]
    }));
    let violations = wrong(&compiled, json!({"a": "1", "b": "maybe"}));
    let keywords: Vec<&str> = violations.iter().map(|violation| violation.keyword.as_str()).collect();
    assert_eq!((violations.len(), keywords.contains(&"required"), keywords.contains(&"type")), (2, true, true));
}
