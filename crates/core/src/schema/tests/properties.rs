use proptest::prelude::*;

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..10).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,6}".prop_map(Value::String),
        prop::sample::select(vec!["1", "true", " 2.0", "{\"a\":\"1\"}", "[\"1\"]", "null", "abc", ""])
            .prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "a/b", "~"]).prop_map(str::to_owned)
}

/// Generates typical and unusual schemas.
fn any_schema() -> impl Strategy<Value = Value> {
    let kinds = ["string", "integer", "number", "boolean", "null", "array", "object"];
    let leaf = prop_oneof![
        prop::sample::select(kinds.to_vec()).prop_map(|kind| json!({"type": kind})),
        prop::sample::subsequence(kinds.to_vec(), 1..3).prop_map(|kinds| json!({"type": kinds})),
        (prop::sample::select(kinds.to_vec()), any_json())
            .prop_map(|(kind, value)| json!({"type": kind, "default": value})),
        prop::collection::vec(any_json(), 1..3).prop_map(|mut values| {
            values.dedup();
            json!({"enum": [values[0]]})
        }),
        any_json().prop_map(|value| json!({"const": value})),
        Just(json!({"type": "integer", "minimum": 2})),
        Just(json!({"$ref": "#/$defs/shared"})),
        Just(json!({"$ref": "#"})),
        Just(json!(true)),
        Just(json!(false)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            prop::collection::vec((name(), inner.clone()), 0..4).prop_map(|members| {
                json!({"type": "object", "properties": members.into_iter().collect::<serde_json::Map<_, _>>()})
            }),
            (name(), inner.clone(), inner.clone()).prop_map(|(name, one, other)| {
                json!({"type": "object", "properties": {name.as_str(): one}, "additionalProperties": other, "required": [name]})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            some.clone().prop_map(|some| json!({"anyOf": some})),
            some.clone().prop_map(|some| json!({"oneOf": some})),
            some.prop_map(|some| json!({"allOf": some})),
            (inner.clone(), inner.clone()).prop_map(|(when, then)| json!({"if": when, "then": then})),
            inner.prop_map(|not| json!({"not": not})),
        ]
    })
}

fn any_input() -> impl Strategy<Value = Value> {
    (prop::collection::vec((name(), any_schema()), 0..4), any_schema()).prop_map(|(members, shared)| {
        let properties: serde_json::Map<String, Value> = members.into_iter().collect();
        json!({"type": "object", "properties": properties, "$defs": {"shared": shared}})
    })
}

fn any_arguments() -> impl Strategy<Value = Value> {
    prop::collection::vec((name(), any_json()), 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// Generates documents with keywords of JSON Schema in arbitrary places.
fn any_nonsense() -> impl Strategy<Value = Value> {
    let words = vec![
        "$ref",
        "$id",
        "id",
        "$schema",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "type",
        "properties",
        "items",
        "allOf",
        "anyOf",
        "not",
        "if",
        "then",
        "required",
        "enum",
        "default",
        "pattern",
        "patternProperties",
        "$defs",
        "dependencies",
        "prefixItems",
        "format",
        "minimum",
        "$recursiveRef",
        "$recursiveAnchor",
        "additionalProperties",
    ];
    let texts = vec![
        "#",
        "#/",
        "#a",
        "#/$defs/a",
        "http://[",
        "urn:x",
        "#%ff",
        "object",
        "(",
        "a{9999}",
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "uuid",
        "x y",
        "",
    ];
    let leaf = prop_oneof![any_json(), prop::sample::select(texts).prop_map(|text| json!(text))];
    let inner = leaf.prop_recursive(5, 48, 5, move |inner| {
        let key = prop::sample::select(words.clone()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    inner.prop_map(|mut schema| {
        if let Some(object) = schema.as_object_mut() {
            object.insert("type".to_owned(), json!("object"));
        }
        schema
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn checked_arguments_are_valid_and_stable(schema in any_input(), arguments in any_arguments()) {
        let Ok(compiled) = compile(&schema, Role::Input) else { return Ok(()) };
        let given = Arc::new(arguments);
        for coerce in [false, true] {
            match compiled.check(&given, coerce) {
                Ok(checked) => {
                    prop_assert!(compiled.violations(&checked.arguments).is_empty());
                    let again = compiled.check(&checked.arguments, coerce).unwrap();
                    prop_assert_eq!(&again.arguments, &checked.arguments);
                    prop_assert!(again.coerced.is_empty());
                }
                Err(violations) => {
                    prop_assert!((1..=20).contains(&violations.len()));
                    for violation in violations {
                        prop_assert!(serde_json::to_string(&violation).unwrap().len() < 500);
                    }
                }
            }
        }
    }

    #[test]
    fn valid_arguments_are_never_coerced(schema in any_input(), arguments in any_arguments()) {
        let Ok(compiled) = compile(&schema, Role::Input) else { return Ok(()) };
        if compiled.violations(&arguments).is_empty() {
            let checked = compiled.check(&Arc::new(arguments.clone()), true).unwrap();
            prop_assert!(checked.coerced.is_empty());
            for (name, value) in arguments.as_object().unwrap() {
                prop_assert!(checked.arguments.get(name).is_some_and(|kept| kept == value || kept.is_object() || kept.is_array()));
            }
        }
    }

    #[test]
    fn no_schema_causes_a_panic(schema in any_nonsense(), value in any_json()) {
        for role in [Role::Input, Role::Output] {
            if let Ok(compiled) = compile(&schema, role) {
                let _ = compiled.check(&Arc::new(value.clone()), true);
                let _ = compiled.violations(&value);
            }
        }
    }
}
