//! Aliases for tools whose names a vendor rejects, for the vendor's models and for MCP clients.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::domain::Vendor;

/// Maximum length of a name that every vendor accepts.
const MAX_LENGTH: usize = 64;
/// Number of hex digits of an alias: usually the first, more only if that alias is already used.
const DIGITS: [usize; 4] = [8, 16, 32, 56];

/// Returns `true` if the vendor accepts the name.
#[must_use]
pub fn is_taken_by(vendor: Vendor, name: &str) -> bool {
    let is_plain = (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(is_plain);
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiResponses | Vendor::Anthropic => is_plain,
        Vendor::Gemini => is_plain && starts_validly(name),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn starts_validly(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Returns an alias that every vendor accepts for each name that some vendor rejects, by name. The alias depends only
/// on the name, unless it equals a real name or another alias. Then it is a longer one.
#[must_use]
pub fn aliases<'a>(names: impl Iterator<Item = &'a str> + Clone) -> HashMap<&'a str, String> {
    let refused = names.clone().filter(|name| !is_taken_by(Vendor::Gemini, name));
    let mut taken: HashSet<String> = HashSet::new();
    let (mut found, mut real) = (HashMap::new(), None);
    for name in refused {
        let real = real.get_or_insert_with(|| names.clone().collect::<HashSet<&str>>());
        if let Some(alias) = free(name, MAX_LENGTH, |alias| real.contains(alias) || taken.contains(alias)) {
            taken.insert(alias.clone());
            found.insert(name, alias);
        }
    }
    found
}

/// Returns the first alias of a name, of at most `length` bytes, that is not taken. Only a deliberate collision takes all of
/// them; the tool then has no alias.
#[must_use]
pub fn free(name: &str, length: usize, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    DIGITS.iter().map(|digits| alias_within(name, *digits, length)).find(|alias| !is_taken(alias))
}

/// Returns the name shown to clients of the Model Context Protocol for each tool whose name some vendor rejects, by
/// name. It is the name with its dots replaced by `separator`. If that name is longer than 64 characters or ambiguous,
/// it is the vendors' alias instead. An ambiguous name is given to no tool, so that no later list gives it another
/// meaning.
#[must_use]
pub fn over_mcp<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    aliases: &HashMap<&'a str, String>,
    separator: &str,
) -> HashMap<&'a str, String> {
    if aliases.is_empty() {
        return HashMap::new();
    }
    let mut meanings: HashMap<String, usize> = HashMap::new();
    let joined = |name: &str| name.replace('.', separator);
    let taken = names.map(str::to_owned).chain(aliases.values().cloned());
    for name in taken.chain(aliases.keys().map(|name| joined(name))) {
        *meanings.entry(name).or_default() += 1;
    }
    let shown = aliases.iter().map(|(name, alias)| {
        let joined = joined(name);
        let is_its_own = is_taken_by(Vendor::Gemini, &joined) && meanings.get(&joined) == Some(&1);
        (*name, if is_its_own { joined } else { alias.clone() })
    });
    shown.collect()
}

/// Returns the alias of a rejected name if no other tool has it as its name or alias.
#[must_use]
pub fn usual(name: &str) -> String {
    alias(name, DIGITS[0])
}

/// Returns the name over MCP of a rejected name if it is unambiguous; `None` if it is invalid with the separator.
#[must_use]
pub fn joined(name: &str, separator: &str) -> Option<String> {
    Some(name.replace('.', separator)).filter(|joined| is_taken_by(Vendor::Gemini, joined))
}

/// Returns a name that the vendor accepts, whether or not such a tool exists.
#[must_use]
pub fn shown(vendor: Vendor, name: &str) -> String {
    if is_taken_by(vendor, name) { name.to_owned() } else { alias(name, DIGITS[0]) }
}

/// Creates an alias: the cleaned and shortened name with the given number of digits of its hash.
fn alias(name: &str, digits: usize) -> String {
    alias_within(name, digits, MAX_LENGTH)
}

/// Creates an alias of at most `length` bytes. At least 58 leave room for the digits.
fn alias_within(name: &str, digits: usize, length: usize) -> String {
    use std::fmt::Write;
    let mut alias = String::with_capacity(length);
    if !starts_validly(name) {
        alias.push('_');
    }
    for letter in name.chars() {
        if alias.len() + 1 + digits >= length {
            break;
        }
        alias.push(if letter.is_ascii() && is_plain(letter as u8) { letter } else { '_' });
    }
    alias.push('_');
    for byte in &Sha256::digest(name.as_bytes())[..digits / 2] {
        let _ = write!(alias, "{byte:02x}");
    }
    alias
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: [&str; 5] = ["files.read", "9lives", "-x", "a.b", "a_b.c-d"];

    fn aliases_of<'a>(names: &[&'a str]) -> HashMap<&'a str, String> {
        aliases(names.iter().copied())
    }

    #[test]
    fn vendor_name_rules_are_applied() {
        for name in ["a", "get_weather", "get-weather", "_x", "Z9"] {
            assert!(is_taken_by(Vendor::OpenAi, name) && is_taken_by(Vendor::Gemini, name), "{name}");
        }
        for name in ["9lives", "-x"] {
            assert!(is_taken_by(Vendor::Anthropic, name) && !is_taken_by(Vendor::Gemini, name), "{name}");
        }
        let (longest, too_long) = ("a".repeat(64), "a".repeat(65));
        assert!(is_taken_by(Vendor::OpenAiResponses, &longest));
        for name in ["files.read", &too_long, "", "é"] {
            assert!(!is_taken_by(Vendor::OpenAi, name) && !is_taken_by(Vendor::Gemini, name), "{name}");
        }
    }

    #[test]
    fn alias_is_accepted_by_every_vendor_and_readable() {
        let long = "x.".repeat(64);
        for name in REFUSED.into_iter().chain([long.as_str()]) {
            let alias = &aliases_of(&[name])[name];
            for vendor in [Vendor::OpenAi, Vendor::OpenAiResponses, Vendor::Anthropic, Vendor::Gemini] {
                assert!(is_taken_by(vendor, alias), "{alias}");
            }
        }
        assert_eq!(aliases_of(&["files.read"])["files.read"], "files_read_601e4eb6");
        assert!(aliases_of(&["9lives"])["9lives"].starts_with("_9lives_"));
        assert!(aliases_of(&["plain"]).is_empty());
    }

    #[test]
    fn alias_does_not_depend_on_other_tools() {
        let alone = aliases_of(&["files.read"]);
        let among = aliases_of(&["a.b", "files.read", "files_read", "z.z"]);
        assert_eq!(alone["files.read"], among["files.read"]);
    }

    #[test]
    fn names_that_clean_to_the_same_text_have_distinct_aliases() {
        let (one, other) = ("a.".repeat(60), "a_".repeat(60));
        let found = aliases_of(&[&one, &other, "a.b", "a..b"]);
        let different: HashSet<&String> = found.values().collect();
        assert_eq!((found.len(), different.len()), (4, 4));
    }

    fn shown_over_mcp(names: &[&str]) -> HashMap<String, String> {
        let found = over_mcp(names.iter().copied(), &aliases_of(names), "__");
        found.into_iter().map(|(name, shown)| (name.to_owned(), shown)).collect()
    }

    #[test]
    fn names_over_mcp_are_legal_and_readable() {
        assert_eq!(shown_over_mcp(&["files.read", "plain"]), [("files.read".into(), "files__read".into())].into());
        assert_eq!(shown_over_mcp(&["a.b.c"])["a.b.c"], "a__b__c");
        let long = format!("a.{}", "b".repeat(62));
        for name in REFUSED.into_iter().chain([long.as_str()]) {
            let shown = &shown_over_mcp(&[name])[name];
            assert!(is_taken_by(Vendor::Gemini, shown), "{shown}");
        }
        assert_eq!(shown_over_mcp(&[&long])[&long], aliases_of(&[&long])[&*long]);
    }

    #[test]
    fn names_over_mcp_are_unambiguous() {
        let alias = aliases_of(&["files.read"])["files.read"].clone();
        let reads_like_it = alias.replacen('_', ".", 1);
        let clashes: [&[&str]; 3] = [&["a.b", "a__b"], &["a._b", "a_.b", "x"], &["files.read", &reads_like_it]];
        for names in clashes {
            let shown = over_mcp(names.iter().copied(), &aliases_of(names), if names.len() == 2 { "_" } else { "__" });
            let own = names.iter().filter(|name| !shown.contains_key(*name)).map(|name| (*name).to_owned());
            let all: HashSet<String> = shown.values().cloned().chain(own).collect();
            assert_eq!(all.len(), names.len(), "{shown:?}");
        }
        let both = shown_over_mcp(&["a._b", "a_.b"]);
        assert!(both.values().all(|shown| shown != "a___b"), "{both:?}");
        assert_eq!(shown_over_mcp(&["a.b", "a__b"])["a.b"], aliases_of(&["a.b"])["a.b"]);
    }

    #[test]
    fn alias_that_is_a_real_name_gets_longer() {
        let usual = aliases_of(&["files.read"])["files.read"].clone();
        let longer = aliases_of(&["files.read", &usual])["files.read"].clone();
        assert!(longer.len() == usual.len() + 8 && longer.starts_with(&usual), "{longer}");
        let longest = aliases_of(&["files.read", &usual, &longer])["files.read"].clone();
        assert!(longest.starts_with(&longer) && longest.len() <= 64, "{longest}");
    }
}
