//! JSON templates: the body, the query and the cookies of an HTTP tool.

use serde_json::{Map, Value};

use super::styles::Styles;
use super::template::{Arguments, Template, text_of};
use toolpost_core::domain::json::pointer_token;

/// A JSON value with placeholders (`{name}`) in its strings. Keys have no placeholders.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonTemplate {
    /// A value without placeholders.
    Fixed(Value),
    /// Exactly `"{name}"`: the argument in its own type.
    Typed(String),
    /// A string that contains arguments as text.
    Text(Template),
    /// An array.
    Array(Vec<JsonTemplate>),
    /// An object, in the declared order.
    Object(Fields),
}

/// A list of names and templates of their values: an object, a query, cookies or a form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields(pub Vec<(String, JsonTemplate)>);

impl JsonTemplate {
    /// Parses a template. Errors are added to `faults` with the pointer of the invalid string.
    pub fn parse(value: &Value, pointer: &str, faults: &mut Vec<(String, String)>) -> Self {
        match value {
            Value::String(text) => match Template::parse(text) {
                Ok(template) => match template.sole() {
                    Some(name) => Self::Typed(name.to_owned()),
                    None => Self::Text(template),
                },
                Err(fault) => {
                    faults.push((pointer.to_owned(), fault));
                    Self::Fixed(Value::Null)
                }
            },
            Value::Array(items) => {
                let parsed = items.iter().enumerate();
                Self::Array(parsed.map(|(at, item)| Self::parse(item, &format!("{pointer}/{at}"), faults)).collect())
            }
            Value::Object(members) => Self::Object(Fields::parse(members, pointer, faults)),
            other => Self::Fixed(other.clone()),
        }
    }

    /// Calls `visit` with the pointer and the name of every placeholder.
    pub fn names<'t>(&'t self, pointer: &str, visit: &mut impl FnMut(&str, &'t str)) {
        match self {
            Self::Fixed(_) => {}
            Self::Typed(name) => visit(pointer, name),
            Self::Text(template) => template.names().for_each(|name| visit(pointer, name)),
            Self::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    item.names(&format!("{pointer}/{at}"), visit);
                }
            }
            Self::Object(members) => members.names(pointer, visit),
        }
    }

    /// Renders the value with the arguments. Members and elements whose argument is absent are omitted; `None` if the
    /// argument of the value itself is absent.
    #[must_use]
    pub fn render(&self, arguments: &Arguments) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Typed(name) => arguments.get(name).cloned(),
            Self::Text(template) => template.render(arguments).ok().map(Value::String),
            Self::Array(items) => Some(items.iter().filter_map(|item| item.render(arguments)).collect()),
            Self::Object(members) => {
                let rendered =
                    members.0.iter().filter_map(|(key, member)| Some((key.clone(), member.render(arguments)?)));
                Some(Value::Object(rendered.collect()))
            }
        }
    }
}

impl Fields {
    /// Parses the fields of an object. Errors are added to `faults`.
    pub fn parse(object: &Map<String, Value>, pointer: &str, faults: &mut Vec<(String, String)>) -> Self {
        let mut parse =
            |name: &String, value| JsonTemplate::parse(value, &format!("{pointer}/{}", pointer_token(name)), faults);
        Self(object.iter().map(|(name, value)| (name.clone(), parse(name, value))).collect())
    }

    /// Calls `visit` with the pointer and the name of every placeholder.
    pub fn names<'t>(&'t self, pointer: &str, visit: &mut impl FnMut(&str, &'t str)) {
        for (name, value) in &self.0 {
            value.names(&format!("{pointer}/{}", pointer_token(name)), visit);
        }
    }

    /// Renders the fields as encoded names and texts, without `null` values. A value that is exactly one argument is
    /// written in the style of that argument.
    #[must_use]
    pub fn pairs(
        &self,
        arguments: &Arguments,
        styles: &Styles,
        encode: impl Fn(&str) -> String,
    ) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (name, template) in &self.0 {
            match template {
                JsonTemplate::Typed(argument) => {
                    let value = arguments.get(argument).unwrap_or(&Value::Null);
                    pairs.extend(styles.pairs(argument, name, value, &encode));
                }
                template => {
                    let value = template.render(arguments).filter(|value| !value.is_null());
                    pairs.extend(value.map(|value| (encode(name), encode(&text_of(&value)))));
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: Value, arguments: Value) -> Option<Value> {
        let mut faults = Vec::new();
        let template = JsonTemplate::parse(&template, "", &mut faults);
        assert_eq!(faults, []);
        template.render(arguments.as_object().unwrap())
    }

    #[test]
    fn lone_placeholder_keeps_its_type_and_one_in_text_becomes_text() {
        let template =
            json!({"n": "{n}", "t": "n={n}", "list": ["{s}", 1, true, null], "deep": {"o": "{o}", "{s}": "{{s}}"}});
        assert_eq!(
            rendered(template, json!({"n": 5, "s": "\"}{", "o": {"k": [null]}})),
            Some(json!({"n": 5, "t": "n=5", "list": ["\"}{", 1, true, null],
                "deep": {"o": {"k": [null]}, "{s}": "{s}"}}))
        );
    }

    #[test]
    fn absent_arguments_are_omitted_and_null_is_kept() {
        let template = json!({"a": "{a}", "b": "x{a}", "c": ["{a}", 2], "d": "{d}", "e": {"f": "{a}"}});
        assert_eq!(rendered(template, json!({"d": null})), Some(json!({"c": [2], "d": null, "e": {}})));
        assert_eq!(rendered(json!("{a}"), json!({})), None);
    }

    #[test]
    fn faults_and_names_have_pointers() {
        let mut faults = Vec::new();
        let template = JsonTemplate::parse(&json!({"a/b": ["{x}", "{"], "c": "{y}{z}"}), "/body", &mut faults);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].0, "/body/a~1b/1");
        let mut names = Vec::new();
        template.names("/body", &mut |pointer, name| names.push(format!("{pointer}={name}")));
        assert_eq!(names, ["/body/a~1b/0=x", "/body/c=y", "/body/c=z"]);
    }
}
