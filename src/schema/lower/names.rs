//! Aliases for property names that a vendor rejects: stable, and different from all other names in the schema.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::Target;

const MAX_CHARS: usize = 64;

/// The aliases in one schema, by original name.
#[derive(Debug, Default)]
pub(super) struct Aliases(HashMap<String, String>);

/// Returns `true` if a vendor accepts a property name.
fn is_taken(target: Target, name: &str) -> bool {
    let first_and_others = |first: fn(&u8) -> bool, others: fn(&u8) -> bool| {
        name.bytes().next().is_some_and(|byte| first(&byte)) && name.bytes().all(|byte| others(&byte))
    };
    match target {
        Target::OpenAi | Target::OpenAiStrict => true,
        _ if name.len() > MAX_CHARS => false,
        Target::Anthropic => {
            let plain: fn(&u8) -> bool = |byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
            first_and_others(plain, plain)
        }
        // The rules of Vertex AI, the stricter of Google's two APIs.
        Target::Gemini => first_and_others(
            |byte| byte.is_ascii_alphabetic() || *byte == b'_',
            |byte| byte.is_ascii_alphanumeric() || *byte == b'_',
        ),
    }
}

impl Aliases {
    pub(super) fn of(schema: &Value, target: Target) -> Self {
        if matches!(target, Target::OpenAi | Target::OpenAiStrict) {
            return Self::default();
        }
        let mut refused = BTreeSet::new();
        visit(schema, &mut |name| {
            if !is_taken(target, name) {
                refused.insert(name);
            }
        });
        let mut aliases = HashMap::with_capacity(refused.len());
        if refused.is_empty() {
            return Self(aliases);
        }
        let mut names = BTreeSet::new();
        visit(schema, &mut |name| {
            names.insert(name.to_owned());
        });
        for name in refused {
            let plain = plain(name, target);
            let numbered = (2..).map(|number| {
                let suffix = format!("_{number}");
                format!("{}{suffix}", &plain[..plain.len().min(MAX_CHARS - suffix.len())])
            });
            let free = std::iter::once(plain.clone()).chain(numbered).find(|alias| !names.contains(alias));
            let alias = free.unwrap_or(plain.clone());
            names.insert(alias.clone());
            aliases.insert(name.to_owned(), alias);
        }
        Self(aliases)
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

/// Visits every property name. Data that looks like properties is visited as well, which is harmless.
fn visit<'a>(schema: &'a Value, found: &mut impl FnMut(&'a str)) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => properties.keys().for_each(|name| found(name)),
                    ("required", Value::Array(required)) => {
                        required.iter().filter_map(Value::as_str).for_each(&mut *found);
                    }
                    _ => {}
                }
                visit(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
        _ => {}
    }
}
