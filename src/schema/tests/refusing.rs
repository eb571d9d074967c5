use super::*;

/// An object schema with something more at its root.
fn root(more: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    schema
}

#[track_caller]
fn assert_refused(schema: Value, pointer: &str, word: &str) {
    let error = refused(schema);
    assert_eq!(error.pointer, pointer, "{error}");
    assert!(error.message.contains(word), "{error}");
}

#[test]
fn an_input_schema_is_about_an_object() {
    for (schema, pointer) in [
        (json!(true), ""),
        (json!(null), ""),
        (json!({}), ""),
        (json!({"properties": {"a": {}}}), ""),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}), ""),
        (json!({"type": "string"}), "/type"),
        (json!({"type": ["object", "null"]}), "/type"),
    ] {
        assert_refused(schema, pointer, "object");
    }
    for schema in [json!({"type": "object"}), json!({"type": ["object"]})] {
        assert!(compile(&schema, Role::Input).is_ok());
    }
    for schema in [json!(true), json!({"type": "string"}), json!({})] {
        assert!(compile(&schema, Role::Output).is_ok());
    }
}

#[test]
fn what_is_no_schema_is_refused_where_it_stands() {
    assert_refused(root(json!({"properties": {"a": {"type": "float"}}})), "/properties/a/type", "\"number\"");
    assert_refused(root(json!({"properties": {"a": {"type": "dict"}}})), "/properties/a/type", "\"object\"");
    assert_refused(root(json!({"properties": {"a": {"type": "any"}}})), "/properties/a/type", "leave \"type\" out");
    assert_refused(root(json!({"properties": {"a": {"type": ["string", "strnig"]}}})), "/properties/a/type/1", "type");
    assert_refused(root(json!({"properties": {"a~/b": {"minLength": -1}}})), "/properties/a~0~1b/minLength", "0");
    assert_refused(root(json!({"properties": {"a": "string"}})), "/properties/a", "schema");
    assert_refused(root(json!({"required": "a"})), "/required", "array");
    assert_refused(root(json!({"$schema": "https://example.org/mine"})), "/$schema", "draft");
}

#[test]
fn every_official_draft_is_known() {
    for uri in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema",
        "https://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema#",
    ] {
        let compiled = input(root(json!({"$schema": uri, "properties": {"n": {"type": "integer"}}})));
        assert!(compiled.check(&Arc::new(json!({"n": 1})), false).is_ok(), "{uri}");
    }
}

#[test]
fn drafts_keep_their_own_meaning() {
    let limits = json!({"properties": {"n": {"type": "integer", "maximum": 5, "exclusiveMaximum": true}}});
    let mut old = root(limits.clone());
    old["$schema"] = json!("http://json-schema.org/draft-04/schema#");
    assert_eq!(wrong(&input(old.clone()), json!({"n": 5})).len(), 1);
    assert_eq!(wrong(&input(old), json!({"n": 1.0})).len(), 1, "no integer in draft 4");
    assert!(compile(&root(limits), Role::Input).is_err());
}

#[test]
fn nothing_outside_the_schema_is_referred_to() {
    for to in ["https://example.org/a.json", "file:///etc/passwd", "other.json#/a", "", "/a"] {
        for keyword in ["$ref", "$dynamicRef"] {
            let error = refused(root(json!({"properties": {"a": {keyword: to}}})));
            assert_eq!(error.pointer, format!("/properties/a/{keyword}"), "{error}");
        }
    }
    assert_refused(root(json!({"properties": {"a": {"$ref": "#/$defs/b"}}})), "/properties/a/$ref", "nothing");
    assert_refused(root(json!({"properties": {"a": {"$ref": "#b"}}})), "/properties/a/$ref", "nothing");
}

#[test]
fn data_in_a_schema_is_no_schema() {
    for keyword in ["const", "default", "x-note"] {
        input(root(json!({"properties": {"a": {keyword: {"$ref": "https://example.org", "type": "float"}}}})));
    }
    input(root(json!({"properties": {"a": {"enum": [{"$ref": "x"}], "examples": [{"$ref": "x"}]}}})));
    input(root(json!({"properties": {"$ref": {"type": "string"}, "type": {"type": "string"}, "$id": {"const": 1}}})));
}

#[test]
fn local_references_of_every_kind_are_followed() {
    let schema = root(json!({
        "$id": "https://example.org/root.json",
        "properties": {
            "pointer": {"$ref": "#/$defs/a~1b%20c"},
            "anchor": {"$ref": "#here"},
            "elsewhere": {"$ref": "#/components/x"},
            "inside": {"$ref": "#/$defs/inner"}
        },
        "components": {"x": {"type": "integer"}},
        "$defs": {
            "a/b c": {"type": "integer"},
            "n": {"$anchor": "here", "type": "integer"},
            "inner": {"$id": "inner.json", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
        }
    }));
    let compiled = input(schema);
    for name in ["pointer", "anchor", "elsewhere", "inside"] {
        assert_eq!(*checked(&compiled, json!({name: "1"})).arguments, json!({name: 1}));
        assert_eq!(wrong(&compiled, json!({name: "x"}))[0].pointer, format!("/{name}"));
    }
}

#[test]
fn size_levels_and_nodes_are_bounded() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(compile(&root(json!({"default": nested(63)})), Role::Input).is_ok());
    assert_refused(root(json!({"default": nested(64)})), "", "64 levels");
    assert_refused(root(json!({"default": nested(500)})), "", "64 levels");
    assert!(compile(&root(json!({"default": vec![0; 9_990]})), Role::Input).is_ok());
    assert_refused(root(json!({"default": vec![0; 10_000]})), "", "10000 nodes");
    assert!(compile(&root(json!({"description": "x".repeat(255 * 1024)})), Role::Input).is_ok());
    assert_refused(root(json!({"description": "x".repeat(256 * 1024)})), "", "256 KiB");
}

#[test]
fn patterns_are_linear_and_small() {
    let pattern = |pattern: &str| root(json!({"properties": {"a": {"pattern": pattern}}}));
    assert_refused(pattern("^(?!x)a"), "/properties/a/pattern", "look-around");
    assert_refused(pattern(r"(a)\1"), "/properties/a/pattern", "back-reference");
    assert_refused(pattern("(a{1000}){1000}"), "/properties/a/pattern", "too large");
    assert_refused(pattern("(a"), "/properties/a/pattern", "not a regular expression");
    let names = root(json!({"patternProperties": {"(?=a)/": {}}}));
    assert_refused(names, "/patternProperties/(?=a)~1", "look-around");
    for good in
        [r"^\d{4}-\d{2}$", r"^[\p{L}\s'-]{1,100}$", r"^(a+)+$", r"^\w{1,64}$", r"\\1", r"^[^\s@]+@[^\s@]+\.[^\s@]+$"]
    {
        input(pattern(good));
    }
}

#[test]
fn trees_are_legal_and_endless_schemas_are_not() {
    let tree = input(root(json!({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})));
    assert_eq!(wrong(&tree, json!({"children": [{"children": [1]}]}))[0].pointer, "/children/0/children/0");
    for endless in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"anyOf": [{"$ref": "#/$defs/c"}]}, "c": {"$ref": "#/$defs/b"}}}),
    ] {
        assert!(refused(root(endless)).message.contains("without end"));
    }
}

#[test]
fn references_that_double_are_bounded() {
    for (keyword, below) in [("allOf", false), ("anyOf", false), ("oneOf", false), ("properties", true)] {
        let doubling = |steps: usize| {
            let definitions = (0..steps).map(|step| {
                let next = json!({"$ref": format!("#/$defs/s{}", step + 1)});
                let twice = if below { json!({"a": next, "b": next}) } else { json!([next, next]) };
                (format!("s{step}"), json!({keyword: twice}))
            });
            let mut definitions: serde_json::Map<String, Value> = definitions.collect();
            definitions.insert(format!("s{steps}"), json!({"type": "string"}));
            root(json!({"properties": {"x": {"$ref": "#/$defs/s0"}}, "$defs": definitions}))
        };
        assert!(compile(&doubling(10), Role::Input).is_ok(), "{keyword}");
        assert!(refused(doubling(14)).message.contains("10000"), "{keyword}");
    }
    // A long chain costs stack at every level.
    let chain: serde_json::Map<String, Value> = (0..1_000)
        .map(|step| (format!("s{step}"), json!({"$ref": format!("#/$defs/s{}", (step + 1) % 1_000)})))
        .collect();
    let mut chain = root(json!({"properties": {"x": {"$ref": "#/$defs/s0"}}, "$defs": chain}));
    chain["$defs"]["s999"] = json!({"type": "string"});
    assert!(refused(chain).message.contains("chain"));
}

#[test]
fn a_recursive_schema_that_branches_takes_no_long_with_any_value() {
    let branch = |name: &str| json!({"properties": {"a": {"$ref": "#/$defs/t"}}, "required": [name]});
    let schema = root(json!({
        "properties": {"a": {"$ref": "#/$defs/t"}},
        "$defs": {"t": {"anyOf": [branch("b"), branch("c"), branch("d")]}}
    }));
    let compiled = input(schema);
    let deep = (0..120).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(wrong(&compiled, deep).len(), 1);
}

#[test]
fn deep_values_and_long_chains_fit_the_stack() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let steps = 15;
        let mut definitions: serde_json::Map<String, Value> = (0..steps)
            .map(|step| (format!("s{step}"), json!({keyword: [{"$ref": format!("#/$defs/s{}", step + 1)}]})))
            .collect();
        let last = json!({"properties": {"a": {"$ref": "#/$defs/s0"}}, "additionalProperties": false});
        definitions.insert(format!("s{steps}"), last);
        let schema = root(json!({"properties": {"a": {"$ref": "#/$defs/s0"}}, "$defs": definitions}));
        let compiled = input(schema);
        let deep = |inner: Value| (0..126).fold(inner, |inner, _| json!({"a": inner}));
        assert!(compiled.check(&Arc::new(deep(json!({}))), false).is_ok());
        assert!(!wrong(&compiled, deep(json!({"b": 1}))).is_empty());
    }
}

#[test]
fn strange_identifiers_are_answered_not_panicked_over() {
    for id in [
        "#",
        "#a",
        "http://[",
        "urn:x:y",
        "https://example.org/#",
        "a b",
        "::",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            for keyword in ["$id", "id"] {
                let sub = json!({keyword: id, "type": "integer", "properties": {"y": {"$ref": "#"}}});
                let _ = compile(&root(json!({"$schema": draft, keyword: id, "properties": {"x": sub}})), Role::Input);
            }
        }
    }
}
