//! Preservation of tool annotations in rmcp. Its type keeps five members and drops all others, so the annotations are
//! moved to `_meta`, which rmcp preserves.

use serde_json::{Map, Value};

/// The member of `_meta` that holds the annotations.
pub const CARRIER: &str = "toolpost/annotations";
/// The members that rmcp keeps.
const KNOWN: [&str; 5] = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Copies the annotations of every tool in a result of `tools/list` to `_meta`.
pub fn pack_all(result: &mut Value) {
    tools(result).for_each(pack);
}

/// Restores the annotations of every tool in a result of `tools/list`.
pub fn unpack_all(result: &mut Value) {
    tools(result).for_each(unpack);
}

/// Copies the annotations of a tool to `_meta`, if rmcp would drop some of them.
pub fn pack(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    if let Some(Value::Object(meta)) = tool.get_mut("_meta") {
        // A server must not be able to set the restored annotations.
        meta.shift_remove(CARRIER);
    }
    let annotations = tool.get("annotations").and_then(Value::as_object);
    let Some(annotations) = annotations.filter(|all| all.keys().any(|name| !KNOWN.contains(&name.as_str()))).cloned()
    else {
        return;
    };
    if let Value::Object(meta) = tool.entry("_meta").or_insert_with(|| Map::new().into()) {
        meta.insert(CARRIER.to_owned(), annotations.into());
    }
}

/// Restores the annotations of a tool.
pub fn unpack(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    let Some(Value::Object(meta)) = tool.get_mut("_meta") else { return };
    let Some(annotations) = meta.shift_remove(CARRIER) else { return };
    if meta.is_empty() {
        tool.shift_remove("_meta");
    }
    tool.insert("annotations".to_owned(), annotations);
}

/// Returns the members that rmcp keeps. All existing pins were computed from these.
pub fn known(annotations: &Value) -> Value {
    let Value::Object(members) = annotations else { return annotations.clone() };
    let is_known = |(name, value): &(&String, &Value)| KNOWN.contains(&name.as_str()) && !value.is_null();
    members.iter().filter(is_known).map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
}

fn tools(result: &mut Value) -> impl Iterator<Item = &mut Value> {
    result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use rmcp::model::Tool;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_annotation_passes_through_rmcp() {
        for (annotations, meta) in [
            (json!({"readOnlyHint": true, "vendor/x": {"a": [1]}, "priority": 0.5}), json!({"own": 1})),
            (json!({"vendor/x": null}), json!({"own": 1, CARRIER: {"title": "not ours"}})),
            (json!({"readOnlyHint": true}), json!({CARRIER: {"title": "not ours"}, "own": 1})),
        ] {
            let tool =
                json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations, "_meta": meta});
            let mut packed = json!({ "tools": [tool] });
            pack_all(&mut packed);
            let typed: Tool = serde_json::from_value(packed["tools"][0].take()).unwrap();
            let mut unpacked = json!({ "tools": [typed] });
            unpack_all(&mut unpacked);
            let tool = &unpacked["tools"][0];
            assert_eq!((&tool["annotations"], &tool["_meta"]), (&annotations, &json!({"own": 1})));
        }
        let mut plain = json!({"name": "t", "annotations": {"x": 1}});
        pack(&mut plain);
        unpack(&mut plain);
        assert_eq!(plain, json!({"name": "t", "annotations": {"x": 1}}));
    }

    #[test]
    fn pins_cover_the_known_annotations() {
        let annotations = json!({"readOnlyHint": true, "title": null, "x": 1});
        assert_eq!(known(&annotations), json!({"readOnlyHint": true}));
    }
}
