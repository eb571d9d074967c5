//! Names with values: the query, cookies and forms.

use serde_json::{Map, Value};

use super::body::JsonTemplate;
use super::styles::Styles;
use super::template::{Arguments, text_of};
use crate::domain::json::pointer_token;

/// Names with templates for their values.
#[derive(Debug, Clone, Default)]
pub struct Fields(pub Vec<(String, JsonTemplate)>);

impl Fields {
    /// Reads them; what is wrong is added to `faults`.
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

    /// Names and texts of what has a value, encoded; `null` has none. An argument that stands alone is written in its style.
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
