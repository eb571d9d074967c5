//! Names of tools and of arguments.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a tool name.
const MAX_TOOL_NAME_LENGTH: usize = 128;
/// Maximum length of an argument name, as accepted by every vendor.
const MAX_ARGUMENT_NAME_LENGTH: usize = 64;

/// A generator of unique names.
#[derive(Debug, Default)]
pub struct Unique {
    given: BTreeSet<String>,
    /// The last number that was appended to each name.
    numbers: BTreeMap<String, usize>,
}

impl Unique {
    /// Reserves and returns this name, or the first of `NAME_2`, `NAME_3`, … that is free.
    pub fn reserve(&mut self, name: &str, longest: usize) -> String {
        let mut candidate = cut(name, longest).to_owned();
        if self.given.insert(candidate.clone()) {
            return candidate;
        }
        let number = self.numbers.entry(candidate.clone()).or_insert(1);
        while !self.given.insert(candidate.clone()) {
            *number += 1;
            let suffix = format!("_{number}");
            candidate = format!("{}{suffix}", cut(name, longest.saturating_sub(suffix.len())));
        }
        candidate
    }

    /// Returns `true` if this name is reserved.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// Reserves a name for a tool.
    pub fn tool(&mut self, name: &str) -> String {
        self.reserve(name, MAX_TOOL_NAME_LENGTH)
    }

    /// Reserves a name for an argument: its own, or prefixed with its location if that is taken.
    pub fn argument(&mut self, name: &str, location: &str) -> String {
        let plain = cleaned(name);
        let plain = if plain.is_empty() { location.to_owned() } else { plain };
        let free = !self.has(cut(&plain, MAX_ARGUMENT_NAME_LENGTH));
        let wanted = if free { plain } else { format!("{location}_{plain}") };
        self.reserve(&wanted, MAX_ARGUMENT_NAME_LENGTH)
    }
}

/// Keeps letters, digits, `_`, `.` and `-`; replaces each run of other characters with one `_`.
pub fn cleaned(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-') {
            name.push(letter);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let is_ours = |text: &str| text.starts_with('_');
    if !is_ours(text) {
        name = name.trim_start_matches('_').to_owned();
    }
    if !text.ends_with('_') {
        name.truncate(name.trim_end_matches('_').len());
    }
    name
}

/// Returns the name of a tool: the `operationId`, or else a name such as `get_pets_id`.
pub fn of_operation(id: Option<&str>, method: &str, path: &str) -> String {
    let own = id.map(cleaned).filter(|name| !name.is_empty());
    own.unwrap_or_else(|| cleaned(format!("{method}/{}", path.trim_matches('/')).trim_end_matches('/')))
}

/// Returns the name with a prefix and a separator.
pub fn prefixed(prefix: &str, name: &str) -> String {
    let between = if prefix.is_empty() || prefix.ends_with(['_', '.', '-']) { "" } else { "_" };
    format!("{prefix}{between}{name}")
}

/// Truncates a name, which must be ASCII.
fn cut(name: &str, longest: usize) -> &str {
    name.get(..longest).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_by_their_operation() {
        for (id, method, path, name) in [
            (Some("getPetById"), "get", "/x", "getPetById"),
            (Some("pets/list all"), "get", "/x", "pets_list_all"),
            (Some("_x_"), "get", "/x", "_x_"),
            (Some("北京"), "get", "/pets/{petId}/photo", "get_pets_petId_photo"),
            (None, "delete", "/", "delete"),
            (None, "post", "/a.b/{c}-{d}/", "post_a.b_c_-_d"),
        ] {
            assert_eq!(of_operation(id, method, path), name);
        }
        assert_eq!(
            (prefixed("shop", "x"), prefixed("shop.", "x"), prefixed("", "x")),
            ("shop_x".into(), "shop.x".into(), "x".into())
        );
    }

    #[test]
    fn names_are_unique_and_bounded() {
        let mut names = Unique::default();
        assert_eq!(
            [names.tool("a"), names.tool("a"), names.tool("a_2"), names.tool("a")],
            ["a", "a_2", "a_2_2", "a_3"]
        );
        let long = "x".repeat(200);
        assert_eq!((names.tool(&long).len(), names.tool(&long).len()), (128, 128));
        let mut names = Unique::default();
        let given = [
            ("id", "path"),
            ("id", "query"),
            ("id", "query"),
            ("filter[name]", "query"),
            ("[]", "query"),
            ("[]", "query"),
        ];
        let given = given.map(|(name, location)| names.argument(name, location));
        assert_eq!(given, ["id", "query_id", "query_id_2", "filter_name", "query", "query_query"]);
    }
}
