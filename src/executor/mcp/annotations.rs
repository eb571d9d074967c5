//! Annotations of tools on their way through rmcp: its type has five members and drops all others. Meanwhile they are in
//! `_meta`, which it passes on as it is.

use serde_json::{Map, Value};

/// Where they are meanwhile.
pub const CARRIER: &str = "toolpost/annotations";
/// Members that rmcp knows.
const KNOWN: [&str; 5] = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Puts the annotations of every tool of a result of `tools/list` where rmcp keeps them.
pub fn pack_all(result: &mut Value) {
    tools(result).for_each(pack);
}

/// Puts those of every tool back.
pub fn unpack_all(result: &mut Value) {
    tools(result).for_each(unpack);
}

/// Puts a tool's annotations where rmcp keeps them, if it would not keep all.
pub fn pack(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    if let Some(Value::Object(meta)) = tool.get_mut("_meta") {
        // No server has a say in what we put back.
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

/// Puts a tool's annotations back.
pub fn unpack(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    let Some(Value::Object(meta)) = tool.get_mut("_meta") else { return };
    let Some(annotations) = meta.shift_remove(CARRIER) else { return };
    if meta.is_empty() {
        tool.shift_remove("_meta");
    }
    tool.insert("annotations".to_owned(), annotations);
}

/// The members that rmcp knows, of which all pins were made.
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
    fn pins_are_made_of_the_known_ones() {
        let annotations = json!({"readOnlyHint": true, "title": null, "x": 1});
        assert_eq!(known(&annotations), json!({"readOnlyHint": true}));
    }
}
