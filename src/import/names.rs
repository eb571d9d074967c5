//! Names of tools and of arguments.

use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a tool.
const LONGEST_TOOL: usize = 128;
/// Longest name of an argument: what every vendor takes.
const LONGEST_ARGUMENT: usize = 64;

/// Names that are each given once.
#[derive(Debug, Default)]
pub struct Unique {
    given: BTreeSet<String>,
    /// The last number of a name that is wanted again and again.
    numbers: BTreeMap<String, usize>,
}

impl Unique {
    /// This name, or the first of `NAME_2`, `NAME_3`, … that is not given yet.
    pub fn take(&mut self, name: &str, longest: usize) -> String {
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

    /// Whether this name is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// A name for a tool.
    pub fn tool(&mut self, name: &str) -> String {
        self.take(name, LONGEST_TOOL)
    }

    /// A name for an argument: its own, or with its place before it where another has that.
    pub fn argument(&mut self, name: &str, place: &str) -> String {
        let plain = cleaned(name);
        let plain = if plain.is_empty() { place.to_owned() } else { plain };
        let free = !self.has(cut(&plain, LONGEST_ARGUMENT));
        let wanted = if free { plain } else { format!("{place}_{plain}") };
        self.take(&wanted, LONGEST_ARGUMENT)
    }
}

/// Only letters, digits, `_`, `.` and `-`; what stands between them is one `_`.
#[must_use]
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

/// The name of a tool: the operation's id, else `get_pets_id`.
#[must_use]
pub fn of_operation(id: Option<&str>, method: &str, path: &str) -> String {
    let own = id.map(cleaned).filter(|name| !name.is_empty());
    own.unwrap_or_else(|| cleaned(format!("{method}/{}", path.trim_matches('/')).trim_end_matches('/')))
}

/// The prefix with a separator behind it.
#[must_use]
pub fn prefixed(prefix: &str, name: &str) -> String {
    let between = if prefix.is_empty() || prefix.ends_with(['_', '.', '-']) { "" } else { "_" };
    format!("{prefix}{between}{name}")
}

/// The name is ASCII.
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
        let given = given.map(|(name, place)| names.argument(name, place));
        assert_eq!(given, ["id", "query_id", "query_id_2", "filter_name", "query", "query_query"]);
    }
}
