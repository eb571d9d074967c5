//! Serialization of arrays and objects as text, for the path, query, headers, cookies and forms.

use std::collections::BTreeMap;

use serde_json::Value;

use super::template::text_of;
use toolpost_core::domain::serialization::{Style, ValueStyle};

/// Declared styles by argument name. Other arguments are written as text or compact JSON.
#[derive(Debug, Clone, Default)]
pub struct Styles(pub BTreeMap<String, ValueStyle>);

impl Styles {
    /// Writes an argument as one text. `encode` is applied to the values, not to the separators.
    #[must_use]
    pub fn text(&self, argument: &str, value: &Value, encode: impl Fn(&str) -> String) -> String {
        match self.0.get(argument) {
            Some(style) => joined(*style, value, encode),
            None => encode(&text_of(value)),
        }
    }

    /// Writes an argument as encoded name-value pairs; none for `null` and empty values.
    #[must_use]
    pub fn pairs(
        &self,
        argument: &str,
        parameter: &str,
        value: &Value,
        encode: impl Fn(&str) -> String,
    ) -> Vec<(String, String)> {
        let Some(style) = self.0.get(argument) else {
            return if value.is_null() { Vec::new() } else { vec![(encode(parameter), encode(&text_of(value)))] };
        };
        let pair = |name: &str, value: &Value| (encode(name), encode(&text_of(value)));
        match (style.style, value) {
            (_, Value::Null) => Vec::new(),
            (Style::Json, _) => vec![(encode(parameter), encode(&value.to_string()))],
            (Style::Repeat, Value::Array(items)) => present(items).map(|item| pair(parameter, item)).collect(),
            (Style::Repeat, _) => vec![pair(parameter, value)],
            (_, Value::Array(items)) if items.iter().all(Value::is_null) => Vec::new(),
            (_, Value::Object(members)) if members.values().all(Value::is_null) => Vec::new(),
            (Style::DeepObject, _) => {
                let mut pairs = Vec::new();
                deep(&mut pairs, &encode(parameter), value, &encode);
                pairs
            }
            (_, Value::Array(items)) if style.explode => present(items).map(|item| pair(parameter, item)).collect(),
            (_, Value::Object(members)) if style.explode => {
                members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| pair(name, value)).collect()
            }
            _ => vec![(encode(parameter), joined(*style, value, encode))],
        }
    }
}

fn present(items: &[Value]) -> impl Iterator<Item = &Value> {
    items.iter().filter(|item| !item.is_null())
}

fn joined(style: ValueStyle, value: &Value, encode: impl Fn(&str) -> String) -> String {
    let separator = match (style.style, style.explode) {
        (Style::Json | Style::DeepObject, _) => return encode(&value.to_string()),
        (Style::Repeat, _) => return encode(&text_of(value)),
        (Style::SpaceDelimited, _) => encode(" "),
        (Style::TabDelimited, _) => encode("\t"),
        (Style::PipeDelimited, _) => encode("|"),
        (Style::Label, true) => ".".to_owned(),
        (Style::Label | Style::Simple | Style::Form, _) => ",".to_owned(),
    };
    let text = |value: &Value| encode(&text_of(value));
    let texts: Vec<String> = match value {
        Value::Array(items) => present(items).map(text).collect(),
        Value::Object(members) => {
            let between = if style.explode { "=" } else { &*separator };
            let present = members.iter().filter(|(_, value)| !value.is_null());
            present.map(|(name, value)| format!("{}{between}{}", encode(name), text(value))).collect()
        }
        scalar => vec![text(scalar)],
    };
    let prefix = if style.style == Style::Label { "." } else { "" };
    format!("{prefix}{}", texts.join(&separator))
}

/// Adds `name[key]=value` and `name[]=value` pairs, the bracket notation of common web frameworks. Elements that have
/// names themselves are numbered (`name[0][key]=value`), because with `name[][key]` a server cannot tell where an element
/// begins.
fn deep(pairs: &mut Vec<(String, String)>, name: &str, value: &Value, encode: &impl Fn(&str) -> String) {
    match value {
        Value::Null => {}
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            present(items).enumerate().for_each(|(index, item)| deep(pairs, &format!("{name}[{index}]"), item, encode));
        }
        Value::Array(items) => items.iter().for_each(|item| deep(pairs, &format!("{name}[]"), item, encode)),
        Value::Object(members) => {
            for (key, member) in members {
                deep(pairs, &format!("{name}[{}]", encode(key)), member, encode);
            }
        }
        scalar => pairs.push((name.to_owned(), encode(&text_of(scalar)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::target::encode_component;
    use super::*;

    fn styles(style: Style, explode: bool) -> Styles {
        Styles([("a".to_owned(), ValueStyle { style, explode })].into())
    }

    /// The examples of the OpenAPI specification (parameter object, style examples), with text that must be encoded.
    #[test]
    fn every_style_is_written_as_openapi_has_it() {
        let (array, object) = (json!(["b,c", null, 5]), json!({"R": 100, "G&": "é", "n": null}));
        for (style, explode, of_array, of_object) in [
            (Style::Simple, false, "b%2Cc,5", "R,100,G%26,%C3%A9"),
            (Style::Simple, true, "b%2Cc,5", "R=100,G%26=%C3%A9"),
            (Style::Label, false, ".b%2Cc,5", ".R,100,G%26,%C3%A9"),
            (Style::Label, true, ".b%2Cc.5", ".R=100.G%26=%C3%A9"),
            (Style::PipeDelimited, false, "b%2Cc%7C5", "R%7C100%7CG%26%7C%C3%A9"),
            (Style::SpaceDelimited, false, "b%2Cc%205", "R%20100%20G%26%20%C3%A9"),
            (Style::TabDelimited, false, "b%2Cc%095", "R%09100%09G%26%09%C3%A9"),
        ] {
            let styles = styles(style, explode);
            assert_eq!(styles.text("a", &array, encode_component), of_array, "{style:?} {explode}");
            assert_eq!(styles.text("a", &object, encode_component), of_object, "{style:?} {explode}");
        }
        assert_eq!(styles(Style::Label, false).text("a", &json!(5), encode_component), ".5");
        assert_eq!(styles(Style::Simple, false).text("other", &json!([1, "x"]), str::to_owned), "[1,\"x\"]");
        assert_eq!(styles(Style::Simple, false).text("a", &json!([1, "x y"]), str::to_owned), "1,x y");
    }

    #[test]
    fn arrays_are_one_or_several_parameters() {
        let pairs = |style, explode, value: Value| {
            let pairs = styles(style, explode).pairs("a", "p q", &value, encode_component);
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
        };
        assert_eq!(pairs(Style::Form, true, json!(["x&", 1, null])), "p%20q=x%26&p%20q=1");
        assert_eq!(pairs(Style::Form, false, json!(["x&", 1])), "p%20q=x%26,1");
        assert_eq!(pairs(Style::Form, true, json!({"k=": 1, "l": [2], "n": null})), "k%3D=1&l=%5B2%5D");
        assert_eq!(pairs(Style::Form, false, json!({"k": 1})), "p%20q=k,1");
        assert_eq!(pairs(Style::PipeDelimited, false, json!([1, 2])), "p%20q=1%7C2");
        let deep = json!({"k": {"l": 1, "m": [true, "é"]}, "n": null});
        assert_eq!(pairs(Style::DeepObject, true, deep), "p%20q[k][l]=1&p%20q[k][m][]=true&p%20q[k][m][]=%C3%A9");
        let items = json!([{"k": 1, "l": [true]}, null, {"k": 2}, "x", [3, 4]]);
        let expected = "p%20q[0][k]=1&p%20q[0][l][]=true&p%20q[1][k]=2&p%20q[2]=x&p%20q[3][]=3&p%20q[3][]=4";
        assert_eq!(pairs(Style::DeepObject, true, items), expected);
        assert_eq!(pairs(Style::Json, false, json!("x")), "p%20q=%22x%22");
        assert_eq!(pairs(Style::Repeat, false, json!(["x", {"k": 1}, null])), "p%20q=x&p%20q=%7B%22k%22%3A1%7D");
        assert_eq!(pairs(Style::Repeat, false, json!({"k": "x"})), "p%20q=%7B%22k%22%3A%22x%22%7D");
        assert_eq!(pairs(Style::Repeat, false, json!("x")), "p%20q=x");
        assert_eq!(pairs(Style::Repeat, false, json!([])), "");
        for style in [Style::Form, Style::DeepObject, Style::PipeDelimited] {
            assert_eq!(pairs(style, true, json!("x")), "p%20q=x");
            for nothing in [json!(null), json!([]), json!({}), json!([null]), json!({"k": null})] {
                assert_eq!(pairs(style, true, nothing.clone()), "");
                assert_eq!(pairs(style, false, nothing), "");
            }
        }
    }
}
