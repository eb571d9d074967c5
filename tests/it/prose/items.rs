//! Documented functions and types, with the first words of their documentation.

use std::sync::LazyLock;

use regex::Regex;

use super::extract::comment_blocks;
use crate::support::scan;

/// The kind of an [`Item`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    Function,
    Type,
}

/// A function or type with a doc comment.
#[derive(Debug)]
pub struct Item {
    pub kind: ItemKind,
    /// `FILE:LINE` of the doc comment, and its first line.
    pub place: String,
    pub first_word: String,
}

/// Plural nouns and other words that look like a verb in the third person, but begin doc comments as something else.
const NOT_VERBS: &str = "\
    Always Annotations Arguments As Attempts Besides Bytes Callbacks Callers Columns Commas Conditions Connections \
    Counters Credentials Days Definitions Digits Entries Errors Events Fields Files Formats Headers Hooks Hours \
    Ids Is Items Its Keys Keywords Limits Lines Members Messages Methods Metrics Microseconds Milliseconds Minutes \
    Nodes Numbers Objects Options Pages Parameters Paths Patterns Perhaps Plus Presets Properties Quotas Results \
    Rows Rules Schemas Seconds Secrets Sentences Servers Sessions Settings Slots Sometimes Strings Tasks Tenants \
    Tests Texts This Tokens Tools Types Unless Upstreams Values Variables Was Words";

/// Returns `true` for a word such as `Returns`.
pub fn is_verb(word: &str) -> bool {
    let is_capitalized = word.starts_with(|letter: char| letter.is_ascii_uppercase());
    is_capitalized && word.ends_with('s') && !word.ends_with("ss") && !NOT_VERBS.split(' ').any(|other| other == word)
}

/// Returns the documented functions and types of a source file.
pub fn documented(file: &str, text: &str) -> Vec<Item> {
    static FIRST_WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[^\w]*([A-Za-z]+)").unwrap());
    let tokens = scan::tokens(text);
    let code = scan::code(text, &tokens);
    let docs = comment_blocks(text, &tokens).into_iter().filter(|block| block.prefix == "///");
    let items = docs.filter_map(|block| {
        let kind = kind(without_attributes(&code[block.end..]))?;
        let first_word = FIRST_WORD.captures(block.lines[0]).map(|word| word[1].to_owned()).unwrap_or_default();
        Some(Item { kind, place: format!("{file}:{}:{}", block.line, block.lines[0]), first_word })
    });
    items.collect()
}

fn without_attributes(code: &str) -> &str {
    let mut rest = code.trim_start();
    while let Some(attribute) = rest.strip_prefix("#[") {
        let mut depth = 1;
        let end = attribute.find(|letter| {
            depth += i32::from(letter == '[') - i32::from(letter == ']');
            depth == 0
        });
        rest = end.map_or("", |end| attribute[end + 1..].trim_start());
    }
    rest
}

fn kind(code: &str) -> Option<ItemKind> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        let qualifiers = r"(?:pub(?:\([^)]*\))?\s+)?(?:(?:default|const|async|unsafe|extern)\s+)*";
        Regex::new(&format!(r"^{qualifiers}(fn|struct|enum|union|trait|type)\s")).unwrap()
    });
    let kind = ITEM.captures(code)?;
    Some(if &kind[1] == "fn" { ItemKind::Function } else { ItemKind::Type })
}

/// Returns the names of all types that a source file declares, each with `FILE:LINE`.
pub fn type_names(file: &str, text: &str) -> Vec<(String, String)> {
    static TYPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(?:struct|enum|union|trait|type)\s+([A-Z]\w*)").unwrap());
    let code = scan::code(text, &scan::tokens(text));
    let names = TYPE.captures_iter(&code).map(|name| name.get(1).unwrap());
    names.map(|name| (name.as_str().to_owned(), format!("{file}:{}", scan::line_of(&code, name.start())))).collect()
}

#[test]
fn documented_items_are_found() {
    let text = "/// Returns it.\n#[cfg(feature = \"]\")]\n#[doc = \"x\"]\npub(crate) const fn a() {}\n\n\
        /// A type.\n// A remark.\n#[derive(Debug)]\npub struct B {\n    /// A field.\n    c: u8,\n}\n\
        /// `d` is one.\nasync fn d() {}\n/// No item.\nconst E: u8 = 1;\n";
    let items = documented("a.rs", text);
    let found: Vec<_> = items.iter().map(|item| (item.kind, &*item.first_word, &*item.place)).collect();
    let expected = [
        (ItemKind::Function, "Returns", "a.rs:1: Returns it."),
        (ItemKind::Type, "A", "a.rs:6: A type."),
        (ItemKind::Function, "d", "a.rs:13: `d` is one."),
    ];
    assert_eq!(found, expected);
    assert_eq!(type_names("a.rs", text), [("B".to_owned(), "a.rs:9".to_owned())]);
    assert!(is_verb("Returns") && is_verb("Does") && !is_verb("Bytes") && !is_verb("The") && !is_verb("Pass"));
}
