//! Globs over tool names: `*`, `?`, `[a-z]` and `{mail,post}`.

use globset::Glob;

/// Maximum length of a glob, in characters.
const MAX_CHARS: usize = 256;

/// Parses a glob. A character that no tool name contains is rejected, because the glob would never match.
///
/// # Errors
/// Returns the reason if the glob is invalid.
pub fn glob(text: &str) -> Result<Glob, String> {
    if !(1..=MAX_CHARS).contains(&text.chars().count()) {
        return Err(format!("a glob must have 1 to {MAX_CHARS} characters"));
    }
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_.-*?[]!^{},".contains(letter);
    if let Some(other) = text.chars().find(|letter| !is_known(*letter)) {
        return Err(format!("is not a valid glob: tool names cannot contain {other:?}"));
    }
    Glob::new(text).map_err(|error| format!("is not a valid glob: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_accepts_only_characters_of_names() {
        for good in ["*", "mail_*", "a?c", "[a-z]x", "[!a]", "{mail,post}.*", "get-weather"] {
            assert!(glob(good).is_ok(), "{good}");
        }
        for bad in ["", "mail *", "a\\*", "[", "ä", &"a".repeat(257)] {
            assert!(glob(bad).is_err(), "{bad}");
        }
    }
}
