//! Globs over the names of tools: `*`, `?`, `[a-z]` and `{mail,post}`.

use globset::Glob;

/// Longest glob, in characters.
const LONGEST: usize = 256;

/// Reads a glob.
///
/// # Errors
/// What is wrong with it. A character that no tool's name has is a mistake: it would never fit.
pub fn glob(text: &str) -> Result<Glob, String> {
    if !(1..=LONGEST).contains(&text.chars().count()) {
        return Err(format!("a glob has 1 to {LONGEST} characters"));
    }
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_.-*?[]!^{},".contains(letter);
    if let Some(other) = text.chars().find(|letter| !is_known(*letter)) {
        return Err(format!("is no glob of names: none has {other:?}"));
    }
    Glob::new(text).map_err(|error| format!("is no glob: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_made_of_what_names_are_made_of() {
        for good in ["*", "mail_*", "a?c", "[a-z]x", "[!a]", "{mail,post}.*", "get-weather"] {
            assert!(glob(good).is_ok(), "{good}");
        }
        for bad in ["", "mail *", "a\\*", "[", "ä", &"a".repeat(257)] {
            assert!(glob(bad).is_err(), "{bad}");
        }
    }
}
