//! Aliases for property names that a vendor rejects: stable, and different from all other names in the schema.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::Target;

const MAX_CHARS: usize = 64;

/// The aliases in one schema, by original name.
#[derive(Debug, Default)]
pub(super) struct Aliases(HashMap<String, String>);

/// Returns `true` if a vendor accepts a property name.
fn is_taken(target: Target, name: &str) -> bool {
    let consists_of = |others: &[u8]| {
        let mut bytes = name.bytes();
        (1..=MAX_CHARS).contains(&name.len())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
    };
    match target {
        Target::OpenAi | Target::OpenAiStrict => true,
        Target::Anthropic => consists_of(b"_.-"),
        // The rules of Vertex AI, the stricter of Google's two APIs.
        Target::Gemini => consists_of(b"_") && !name.starts_with(|first: char| first.is_ascii_digit()),
    }
}

impl Aliases {
    pub(super) fn of(schema: &Value, target: Target) -> Self {
        let (mut names, mut aliases) = (BTreeSet::new(), Self::default());
        collect_names(schema, &mut names);
        let refused: Vec<&str> = names.iter().copied().filter(|name| !is_taken(target, name)).collect();
        let mut given = HashSet::new();
        for name in refused {
            let plain = plain(name, target);
            let numbered = (2..).map(|number| {
                let suffix = format!("_{number}");
                format!("{}{suffix}", &plain[..plain.len().min(MAX_CHARS - suffix.len())])
            });
            let is_free = |alias: &String| !names.contains(alias.as_str()) && !given.contains(alias);
            let alias = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or(plain.clone());
            given.insert(alias.clone());
            aliases.0.insert(name.to_owned(), alias);
        }
        aliases
    }

    /// Returns `true` if every name is accepted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the vendor's name of a property.
    pub(super) fn name<'n>(&'n self, name: &'n str) -> &'n str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

fn plain(name: &str, target: Target) -> String {
    let keeps = |letter: char| letter.is_ascii_alphanumeric() || target == Target::Anthropic && ".-".contains(letter);
    let mut plain: String =
        name.chars().map(|letter| if keeps(letter) { letter } else { '_' }).take(MAX_CHARS).collect();
    if !is_taken(target, &plain) {
        plain.insert(0, '_');
        plain.truncate(MAX_CHARS);
    }
    plain
}

/// Collects every property name. Data that looks like properties is read as well, which is harmless.
fn collect_names<'a>(schema: &'a Value, names: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => names.extend(properties.keys().map(String::as_str)),
                    ("required", Value::Array(required)) => names.extend(required.iter().filter_map(Value::as_str)),
                    _ => {}
                }
                collect_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}
