use super::*;

fn messages(compiled: &CompiledSchema, arguments: Value) -> Vec<String> {
    wrong(compiled, arguments).into_iter().map(|v| format!("{}: {}", v.pointer, v.message)).collect()
}

#[track_caller]
fn assert_says(schema: Value, x: Value, message: &str) {
    assert_eq!(messages(&of_x(schema), json!({"x": x})), [format!("/x: {message}")]);
}

#[test]
fn missing_and_unexpected_properties_belong_to_their_object() {
    let compiled = input(json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "at": {
            "type": "object", "properties": {"lat": {}}, "required": ["lat", "lon"], "additionalProperties": false
        }},
        "required": ["city"],
        "additionalProperties": false
    }));
    let violations = wrong(&compiled, json!({"citty": "x", "zzzz": 1, "at": {"lta": 1}}));
    let reported: Vec<(&str, Option<&str>, &str)> =
        violations.iter().map(|v| (v.pointer.as_str(), v.property.as_deref(), v.message.as_str())).collect();
    for expected in [
        ("", Some("citty"), "unexpected property \"citty\", did you mean \"city\"?"),
        ("", Some("zzzz"), "unexpected property \"zzzz\"; known properties: \"city\", \"at\""),
        ("", Some("city"), "missing required property \"city\""),
        ("/at", Some("lat"), "missing required property \"lat\""),
        ("/at", Some("lon"), "missing required property \"lon\""),
        ("/at", Some("lta"), "unexpected property \"lta\", did you mean \"lat\"?"),
    ] {
        assert!(reported.contains(&expected), "{expected:?} is not in {reported:#?}");
    }
    assert_eq!(violations.len(), 6);
    let json = serde_json::to_value(&violations[0]).unwrap();
    assert!(json["expected"] == json!(false) || json["expected"].is_array() || json["expected"].is_string(), "{json}");
}

#[test]
fn each_keyword_has_its_message() {
    assert_says(json!({"type": "integer"}), json!("x"), "must be integer, got string \"x\"");
    assert_says(json!({"type": ["integer", "null"]}), json!([1]), "must be integer or null, got array");
    assert_says(
        json!({"enum": ["C", "F"]}),
        json!("c"),
        "must be one of \"C\", \"F\" (got \"c\"), did you mean \"C\"?",
    );
    assert_says(json!({"const": 1}), json!(2), "must be 1 (got 2)");
    assert_says(json!({"minimum": 3}), json!(2), "must be at least 3 (got 2)");
    assert_says(json!({"exclusiveMaximum": 3}), json!(3), "must be less than 3 (got 3)");
    assert_says(json!({"maxLength": 1}), json!("ab"), "must have at most 1 character (got 2)");
    assert_says(json!({"minItems": 2}), json!([1]), "must have at least 2 items (got 1)");
    assert_says(json!({"uniqueItems": true}), json!([1, 1]), "must not have duplicate items");
    assert_says(json!({"pattern": "^a"}), json!("b"), "must match the pattern \"^a\" (got \"b\")");
    assert_says(
        json!({"format": "date"}),
        json!("tomorrow"),
        "must be a valid date, like \"2026-01-31\" (got \"tomorrow\")",
    );
    assert_says(json!({"not": {"const": 1}}), json!(1), "must not have this form");
}

#[test]
fn branches_are_explained_in_one_sentence() {
    let scalars = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
    assert_says(scalars, json!("x"), "must be integer or null, got string \"x\"");
    assert_says(
        json!({"oneOf": [{"const": "a"}, {"enum": ["b"]}]}),
        json!("A"),
        "must be one of \"a\", \"b\" (got \"A\"), did you mean \"a\"?",
    );
    let shapes = json!({"oneOf": [
        {"title": "Circle", "type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"title": "Square", "type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]}
    ]});
    assert_says(
        shapes.clone(),
        json!({"kind": "sqare", "a": 1}),
        "matches none of the allowed forms: \
         /kind: must be one of \"circle\", \"square\" (got \"sqare\"), did you mean \"square\"?",
    );
    assert_says(
        shapes,
        json!({"kind": "square", "a": "wide"}),
        "matches none of the allowed forms; nearest is Square: /a: must be number, got string \"wide\"",
    );
    let both = json!({"oneOf": [{"type": "integer"}, {"type": "number"}]});
    assert!(messages(&of_x(both), json!({"x": 1}))[0].contains("exactly one"));
}

#[test]
fn missing_properties_of_forms_are_named() {
    let needs = |form: &str| json!({"required": form.split(' ').collect::<Vec<_>>()});
    for keyword in ["anyOf", "oneOf"] {
        assert_says(json!({keyword: [needs("a"), needs("b")]}), json!({}), "needs `a` or `b`");
        assert_says(json!({keyword: [needs("a"), needs("b"), needs("c")]}), json!({}), "needs `a`, `b` or `c`");
        assert_says(json!({keyword: [needs("a b"), needs("c")]}), json!({"z": 1}), "needs `a` and `b`, or `c`");
        assert_says(json!({keyword: [needs("a b"), needs("c d")]}), json!({"a": 1}), "needs `b`, or `c` and `d`");
        assert_says(json!({keyword: [needs("a"), needs("a b")]}), json!({}), "needs `a`");
        let typed = json!({keyword: [
            {"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "object", "required": ["b"]},
            {"type": "string"}
        ]});
        assert_says(typed, json!({}), "needs `a` or `b`");
    }
    let schema = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"dependentRequired": {"x": ["y"]}, "required": ["x"]}]});
    let mut root = json!({"type": "object", "properties": {"x": schema}});
    root["$defs"] = json!({"a": {"allOf": [needs("a")]}});
    let wrong = wrong(&input(root), json!({"x": {"x": 1}}));
    assert_eq!((wrong[0].pointer.as_str(), wrong[0].message.as_str()), ("/x", "needs `a` or `y`"));
    assert_eq!((wrong[0].keyword.as_str(), wrong.len()), ("anyOf", 1));
    assert_eq!(wrong[0].expected, json!([{"required": ["a"]}, {"required": ["x"]}]));
}

#[test]
fn mutually_exclusive_properties_are_named() {
    let needs = |form: &str| json!({"required": form.split(' ').collect::<Vec<_>>()});
    let present = json!({"a": 1, "b": 1, "c": 1});
    let one_of = |forms: Value| json!({"oneOf": forms});
    assert_says(
        one_of(json!([needs("a"), needs("b")])),
        present.clone(),
        "`a` and `b` are mutually exclusive: give only one of them",
    );
    let three = one_of(json!([needs("a"), needs("b"), needs("c")]));
    assert_says(three.clone(), present.clone(), "`a`, `b` and `c` are mutually exclusive: give only one of them");
    assert_says(three, json!({"a": 1, "c": 1}), "`a` and `c` are mutually exclusive: give only one of them");
    let shared = one_of(json!([needs("z a b"), needs("z c")]));
    assert_says(
        shared,
        json!({"a": 1, "b": 1, "c": 1, "z": 1}),
        "`a` with `b` and `c` are mutually exclusive: give only one of them",
    );
    assert_says(
        one_of(json!([needs("a"), needs("a b")])),
        present.clone(),
        "matches more than one of the mutually exclusive forms: omit `b`",
    );
    let guarded = |own: &str, other: &str| json!({"required": [own], "not": {"required": [other]}});
    for keyword in ["anyOf", "oneOf"] {
        let forms = json!({keyword: [guarded("a", "b"), guarded("b", "a")]});
        assert_says(forms.clone(), present.clone(), "`a` and `b` are mutually exclusive: give only one of them");
        assert_says(forms, json!({}), "needs `a` or `b`");
    }
    let implied = json!({"anyOf": [{"not": needs("a")}, needs("z")]});
    assert_says(implied, present.clone(), "must not have `a`, or needs `z`");
    assert_says(json!({"not": needs("a b")}), present.clone(), "`a` and `b` are mutually exclusive: omit one of them");
    assert_says(json!({"not": {"anyOf": [needs("a"), needs("b")]}}), present.clone(), "must not have `a` or `b`");
    assert_says(json!({"not": needs("a")}), present, "must not have `a`");
}

#[test]
fn violations_of_forms_stay_small() {
    let name = |form: usize, index: usize| format!("{}{form}_{index}", "long_name_\u{1}".repeat(30));
    let forms: Vec<Value> =
        (0..100).map(|form| json!({"required": (0..50).map(|index| name(form, index)).collect::<Vec<_>>()})).collect();
    let all: serde_json::Map<String, Value> = (0..5000).map(|index| (name(index / 50, index % 50), json!(1))).collect();
    let compiled = of_x(json!({"oneOf": forms[..10]}));
    for value in [json!({}), Value::Object(all)] {
        let violation = wrong(&compiled, json!({"x": value})).remove(0);
        assert!(violation.message.contains("`long_name_"), "{violation:?}");
        assert!(serde_json::to_string(&violation).unwrap().len() < 500, "{violation:?}");
    }
}

#[test]
fn violations_are_limited_in_number_and_size() {
    let long = "y".repeat(100_000);
    let many: serde_json::Map<String, Value> = (0..100).map(|i| (format!("{long}{i}"), json!(long))).collect();
    let options: Vec<String> = (0..500).map(|i| format!("option \u{0}\u{1} number {i}")).collect();
    let compiled = input(json!({
        "type": "object",
        "properties": {"e": {"enum": options}, "o": {"anyOf": [{"type": "object", "additionalProperties": false}, {"minLength": 1_000_000}]}},
        "patternProperties": {"^y": {"type": "array"}}
    }));
    let unexpected = input(json!({"type": "object", "additionalProperties": false}));
    let mut all = wrong(&unexpected, Value::Object(many.clone()));
    all.extend(wrong(&compiled, Value::Object(many)));
    assert_eq!(all.len(), 40);
    all.extend(wrong(&compiled, json!({"e": long, "o": long})));
    all.extend(wrong(&compiled, json!({"e": "\u{0}".repeat(500), "o": {long.as_str(): long}})));
    for violation in all {
        let bytes = serde_json::to_string(&violation).unwrap().len();
        assert!(bytes < 500, "{bytes}: {violation:?}");
    }
}

#[test]
fn pointers_are_correct_for_unusual_names() {
    let compiled = input(json!({"type": "object", "additionalProperties": {"items": {"type": "integer"}}}));
    for (name, pointer) in [("a/b", "/a~1b/0"), ("~", "/~0/0"), ("\u{0}", "/\u{0}/0"), ("😀 %", "/😀 %/0"), ("", "//0")]
    {
        assert_eq!(wrong(&compiled, json!({name: ["x"]}))[0].pointer, pointer);
    }
}

#[test]
fn output_is_checked_without_coercion() {
    let compiled = compile(&json!({"type": "integer"}), Role::Output).unwrap();
    assert!(compiled.violations(&json!(1)).is_empty());
    let violation = &compiled.violations(&json!("1"))[0];
    assert_eq!(
        (violation.pointer.as_str(), violation.keyword.as_str(), &violation.expected),
        ("", "type", &json!("integer"))
    );
}

#[test]
fn keywords_without_graph_support_are_reported() {
    let compiled = input(json!({
        "type": "object",
        "allOf": [{"properties": {"a": {}}}],
        "properties": {"never": false, "c": {"contains": {"const": 1}}},
        "propertyNames": {"maxLength": 5},
        "dependentRequired": {"a": ["c"]},
        "unevaluatedProperties": false
    }));
    let reported = messages(&compiled, json!({"never": 1, "b": 1, "toolong": 1, "a": 1}));
    for part in
        ["unexpected property \"never\"", "unexpected property \"b\"", "property name \"toolong\"", "property \"c\""]
    {
        assert!(
            reported.iter().any(|message| message.contains(part) && message.starts_with(": ")),
            "{part}: {reported:#?}"
        );
    }
}
