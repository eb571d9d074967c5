//! Text templates with `{placeholders}`. The caller of [`Template::render_with`] chooses the encoding of values.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The arguments of a call by name.
pub type Arguments = Map<String, Value>;

/// One part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(String),
    /// The name of an argument.
    Placeholder(String),
}

/// A text with placeholders (`{name}`); `{{` and `}}` are literal braces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(pub Vec<Part>);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// Returns a message if a brace is unbalanced or a placeholder is empty.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = match rest.find(['{', '}']) {
                Some(end) if brace == "{" && rest.as_bytes()[end] == b'}' => end,
                _ => return Err(format!("unbalanced `{brace}` (write a literal brace as `{brace}{brace}`)")),
            };
            if end == 0 {
                return Err("the placeholder `{}` has no name".to_owned());
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Placeholder(rest[..end].to_owned()));
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// Returns the names of the placeholders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Placeholder(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// Returns the name if the template consists of exactly one placeholder.
    #[must_use]
    pub fn sole(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Placeholder(name)] => Some(name),
            _ => None,
        }
    }

    /// Renders the text with arguments as text.
    ///
    /// # Errors
    /// Returns the name of the first argument that is absent or `null`.
    pub fn render(&self, arguments: &Arguments) -> Result<String, &str> {
        self.render_with(arguments, |_, value| text_of(value).into_owned())
    }

    /// Renders the text with arguments written by `write`.
    ///
    /// # Errors
    /// Returns the name of the first argument that is absent or `null`.
    pub fn render_with(&self, arguments: &Arguments, write: impl Fn(&str, &Value) -> String) -> Result<String, &str> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Placeholder(name) => match arguments.get(name) {
                    None | Some(Value::Null) => return Err(name),
                    Some(value) => text.push_str(&write(name, value)),
                },
            }
        }
        Ok(text)
    }
}

/// Converts a value to text: a string unchanged, other values to compact JSON.
#[must_use]
pub fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &str, arguments: Value) -> Result<String, String> {
        let template = Template::parse(template)?;
        template.render(arguments.as_object().unwrap()).map_err(str::to_owned)
    }

    #[test]
    fn placeholders_are_replaced_by_arguments() {
        let arguments = json!({"a": "x", "n": 1.5, "o": {"k": [1]}, "b": true, "with space": "é"});
        for (template, text) in [
            ("", ""),
            ("plain", "plain"),
            ("{a}", "x"),
            ("<{a}{n}>{b}", "<x1.5>true"),
            ("{o}", "{\"k\":[1]}"),
            ("{{a}} {{{a}}} }}{{", "{a} {x} }{"),
            ("{with space}ü", "éü"),
        ] {
            assert_eq!(rendered(template, arguments.clone()).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn argument_is_never_read_as_a_template() {
        assert_eq!(rendered("{a}", json!({"a": "{b}", "b": "no"})).as_deref(), Ok("{b}"));
    }

    #[test]
    fn absent_and_null_arguments_are_missing() {
        assert_eq!(rendered("{a}", json!({})), Err("a".into()));
        assert_eq!(rendered("x{a}", json!({"a": null})), Err("a".into()));
    }

    #[test]
    fn unbalanced_braces_are_rejected() {
        for broken in ["{", "}", "{a", "a}", "{a{b}}", "{}", "x{ {", "{a}}"] {
            assert!(Template::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn sole_placeholder_is_recognized() {
        assert_eq!(Template::parse("{a}").unwrap().sole(), Some("a"));
        for other in ["{a}{b}", " {a}", "{{a}}", "a"] {
            assert_eq!(Template::parse(other).unwrap().sole(), None);
        }
    }
}
