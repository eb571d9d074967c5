//! Named values of the query, cookies and forms.

use serde_json::{Map, Value};

use super::body::JsonTemplate;
use super::styles::Styles;
use super::template::{Arguments, text_of};
use crate::domain::json::pointer_token;

/// A list of names and templates of their values.
#[derive(Debug, Clone, Default)]
pub struct Fields(pub Vec<(String, JsonTemplate)>);

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
