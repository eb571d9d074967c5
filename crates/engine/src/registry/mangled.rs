//! Names of tools as models write them: with the prefix under which a vendor shows functions to its models, or as an
//! expression of a programming language.

/// Prefixes under which vendors show functions to their models: OpenAI and Kimi (`functions.name`), and Gemini
/// (`default_api.name`).
const PREFIXES: [&str; 5] = ["functions.", "functions:", "functions/", "default_api.", "default_api:"];

/// Returns the name without a vendor's prefix; `None` if it has none. Kimi also adds the place of the call
/// (`functions.name:0`), which is removed with the prefix.
pub(super) fn without_prefix(name: &str) -> Option<&str> {
    let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let bare = match bare.rsplit_once(':') {
        Some((before, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => bare,
    };
    (!bare.is_empty()).then_some(bare)
}

/// Returns the names that may have been meant by an expression such as `echo()`, `"echo"` or `server:echo`, the longest
/// first. Each is a part of the given name and may be no name of a tool.
pub(super) fn candidates(name: &str) -> Vec<&str> {
    let called = name.split_once('(').map_or(name, |(before, _)| before);
    let is_quote = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '“' | '”');
    let plain = called.trim_matches(is_quote);
    let bare = without_prefix(plain).unwrap_or(plain);
    let last = |mark: &str| bare.rsplit_once(mark).map_or("", |(_, last)| last);
    let mut candidates = vec![bare, last("__"), last("."), last(":"), last("/")];
    candidates.retain(|candidate| !candidate.is_empty());
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.len()));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_vendors_are_removed_and_no_others() {
        for (name, bare) in [
            ("functions.echo", Some("echo")),
            ("functions.files.read", Some("files.read")),
            ("functions.echo:0", Some("echo")),
            ("default_api:echo", Some("echo")),
            ("functions.", None),
            ("functions.:0", None),
            ("my.echo", None),
            ("echo:0", None),
            ("Functions.echo", None),
        ] {
            assert_eq!(without_prefix(name), bare, "{name}");
        }
    }

    #[test]
    fn parts_of_an_expression_are_candidates() {
        for (name, expected) in [
            ("echo()", &["echo"][..]),
            ("echo({\"a\": 1})", &["echo"]),
            (" `echo` ", &["echo"]),
            ("print(default_api.echo())", &["print"]),
            ("mcp__toolpost__echo", &["mcp__toolpost__echo", "echo"]),
            ("server:files.read", &["server:files.read", "files.read", "read"]),
            ("()", &[]),
        ] {
            assert_eq!(candidates(name), expected, "{name}");
        }
    }
}
