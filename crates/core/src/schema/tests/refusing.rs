use super::*;

/// Returns an object schema with additional members at its root.
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
fn input_schema_must_be_an_object() {
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
fn invalid_schema_is_rejected_with_its_location() {
    assert_refused(root(json!({"properties": {"a": {"type": "float"}}})), "/properties/a/type", "\"number\"");
    assert_refused(root(json!({"properties": {"a": {"type": "dict"}}})), "/properties/a/type", "\"object\"");
    assert_refused(root(json!({"properties": {"a": {"type": "any"}}})), "/properties/a/type", "omit \"type\"");
    assert_refused(root(json!({"properties": {"a": {"type": ["string", "strnig"]}}})), "/properties/a/type/1", "type");
    assert_refused(root(json!({"properties": {"a~/b": {"minLength": -1}}})), "/properties/a~0~1b/minLength", "0");
    assert_refused(root(json!({"properties": {"a": "string"}})), "/properties/a", "schema");
    assert_refused(root(json!({"required": "a"})), "/required", "array");
    assert_refused(root(json!({"$schema": "https://example.org/mine"})), "/$schema", "draft");
}

#[test]
fn every_official_draft_is_supported() {
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
fn external_references_are_rejected() {
    for to in ["https://example.org/a.json", "file:///etc/passwd", "other.json#/a", "", "/a"] {
        for keyword in ["$ref", "$dynamicRef"] {
            let error = refused(root(json!({"properties": {"a": {keyword: to}}})));
            assert_eq!(error.pointer, format!("/properties/a/{keyword}"), "{error}");
        }
    }
    assert_refused(root(json!({"properties": {"a": {"$ref": "#/$defs/b"}}})), "/properties/a/$ref", "does not exist");
    assert_refused(root(json!({"properties": {"a": {"$ref": "#b"}}})), "/properties/a/$ref", "does not exist");
}

#[test]
fn data_is_not_read_as_a_schema() {
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

/// Covers embedded resources, and `$recursiveRef` in a draft that does not know it.
#[test]
fn references_by_identity_are_followed() {
    let list = json!({"$id": "list", "type": "array", "items": {"$dynamicRef": "#item"},
        "$defs": {"item": {"$dynamicAnchor": "item"}}});
    let one = input(root(json!({"properties": {"a": {"$ref": "list"}}, "$defs": {"list": list}})));
    assert!(one.check(&Arc::new(json!({"a": ["x", 1]})), false).is_ok());
    // The outermost anchor counts, and the anchor of the document is always the outermost.
    let outer = json!({"list": list, "own": {"$dynamicAnchor": "item", "type": "integer"}});
    let by_root = input(root(json!({"properties": {"a": {"$ref": "list"}}, "$defs": outer})));
    assert_eq!(wrong(&by_root, json!({"a": [1, "x"]}))[0].pointer, "/a/1");
    // The target depends on the dynamic scope, which only the validator knows.
    let texts =
        json!({"$id": "texts", "$ref": "list", "$defs": {"item": {"$dynamicAnchor": "item", "type": "string"}}});
    let by_way = input(root(
        json!({"properties": {"a": {"$ref": "texts"}, "b": {"$ref": "list"}}, "$defs": {"list": list, "texts": texts}}),
    ));
    assert_eq!(wrong(&by_way, json!({"a": [[]]}))[0].pointer, "/a/0");
    assert!(by_way.check(&Arc::new(json!({"a": ["x"], "b": [[]]})), false).is_ok());

    let tree = input(root(json!({"properties": {"x": {"type": "integer"}, "below": {"$recursiveRef": "#"}}})));
    assert_eq!(wrong(&tree, json!({"below": {"below": {"x": "no"}}}))[0].pointer, "/below/below/x");
    let old = "http://json-schema.org/draft-04/schema#";
    let draft_4 = input(root(
        json!({"$schema": old, "id": "urn:x:root", "properties": {"a": {"$ref": "urn:x:part#/definitions/n"},
        "b": {"$ref": "urn:x:root#/properties/a"}}, "definitions": {"part": {"id": "urn:x:part", "definitions": {"n": {"type": "integer"}}}}}),
    ));
    assert_eq!(wrong(&draft_4, json!({"a": "x", "b": "y"})).len(), 2);
}

#[test]
fn references_by_identity_are_bounded_and_checked() {
    let own = |more: Value| {
        let mut schema = root(more);
        schema["$id"] = json!("https://example.com/s.json");
        schema
    };
    let of_a = |to: &str| own(json!({"properties": {"a": {"$ref": to}}}));
    assert_refused(of_a("other.json"), "/properties/a/$ref", "outside");
    assert_refused(of_a("https://example.com/s.json#/$defs/b"), "/properties/a/$ref", "does not exist");
    assert_refused(of_a("s.json#b"), "/properties/a/$ref", "does not exist");
    assert_refused(own(json!({"allOf": [{"$ref": "s.json"}]})), "", "endlessly");
    let definitions = (0..14).map(|step| {
        let next = json!({"$ref": format!("s.json#/$defs/s{}", step + 1)});
        (format!("s{step}"), json!({"allOf": [next, next]}))
    });
    let mut definitions: serde_json::Map<String, Value> = definitions.collect();
    definitions.insert("s14".to_owned(), json!({"type": "string"}));
    let doubling = own(json!({"properties": {"x": {"$ref": "s.json#/$defs/s0"}}, "$defs": definitions}));
    assert!(refused(doubling).message.contains("10000"));
    // Data is not a schema, even if it looks like an identity.
    let data = own(json!({"properties": {"a": {"const": {"$id": "b.json"}}, "b": {"$ref": "b.json"}}}));
    assert_refused(data, "/properties/b/$ref", "outside");
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
fn patterns_are_expressions_and_small() {
    let pattern = |pattern: &str| root(json!({"properties": {"a": {"pattern": pattern}}}));
    assert_refused(pattern("(?=a)(a{1000}){1000}"), "/properties/a/pattern", "too large");
    assert_refused(pattern("(a{1000}){1000}"), "/properties/a/pattern", "too large");
    assert_refused(pattern("(a"), "/properties/a/pattern", "not a regular expression");
    let names = root(json!({"patternProperties": {"(?=a/": {}}}));
    assert_refused(names, "/patternProperties/(?=a~1", "not a regular expression");
    for good in
        [r"^\d{4}-\d{2}$", r"^[\p{L}\s'-]{1,100}$", r"^(a+)+$", r"^\w{1,64}$", r"\\1", r"^[^\s@]+@[^\s@]+\.[^\s@]+$"]
    {
        input(pattern(good));
    }
}

#[test]
fn recursive_trees_are_accepted_and_endless_schemas_rejected() {
    let tree = input(root(json!({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})));
    assert_eq!(wrong(&tree, json!({"children": [{"children": [1]}]}))[0].pointer, "/children/0/children/0");
    for endless in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"anyOf": [{"$ref": "#/$defs/c"}]}, "c": {"$ref": "#/$defs/b"}}}),
    ] {
        assert!(refused(root(endless)).message.contains("endlessly"));
    }
}

#[test]
fn exponential_references_are_bounded() {
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
fn branching_recursion_is_validated_in_bounded_time() {
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
fn unusual_identifiers_do_not_panic() {
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
