//! `runbook.md` has an entry for each error and warning of the log, and no others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::page;
use crate::support::fixture::project_file;

/// The macros that write to the log or to standard error, with the level in the entry.
const MACROS: [(&str, &str); 3] =
    [("tracing::error!(", "ERROR"), ("tracing::warn!(", "WARN"), ("eprintln!(", "standard error")];
/// The types whose messages explain a failed start.
const REASONS: [(&str, &str); 3] = [
    ("src/app/error.rs", "enum StartError"),
    ("crates/store/src/store/error.rs", "enum StoreError"),
    ("src/config.rs", "struct ConfigError"),
];

/// Returns the source files without their unit tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in
        ["src", "crates/core/src", "crates/engine/src", "crates/store/src", "crates/telemetry/src", "crates/tool/src"]
    {
        collect(&project_file(folder), &mut found);
    }
    assert!(found.len() > 100);
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            found.push((path, code));
        }
    }
}

/// Parses the string literal at the start of `text`. Returns its value and the rest of the text.
fn literal(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let (mut message, mut is_escaped) = (String::new(), false);
    for (index, letter) in inner.char_indices() {
        match (is_escaped, letter) {
            (true, 'n') => message.push(' '),
            (true, '\n') => {}
            (true, letter) => message.push(letter),
            (false, '\\') => {}
            (false, '"') => return Some((message, &inner[index + 1..])),
            (false, letter) => message.push(letter),
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    None
}

/// Returns the message of a log macro: the first literal that is an argument of its own and not a field's value.
fn message(arguments: &str) -> String {
    let mut rest = arguments;
    let mut before = '(';
    while let Some(letter) = rest.chars().next() {
        if let Some((message, behind)) = literal(rest) {
            if matches!(before, '(' | ',') {
                return message;
            }
            (rest, before) = (behind, '"');
            continue;
        }
        if !letter.is_whitespace() {
            before = letter;
        }
        rest = &rest[letter.len_utf8()..];
    }
    panic!("no message: {}", &arguments[..arguments.len().min(200)]);
}

/// Returns all log messages with their levels.
fn messages() -> BTreeMap<String, &'static str> {
    let mut found = BTreeMap::new();
    for (path, code) in sources() {
        for (name, level) in MACROS {
            for arguments in code.split(name).skip(1) {
                let message = message(arguments);
                // The text comes from elsewhere.
                if message == "{reason}" {
                    continue;
                }
                let known = found.insert(message.clone(), level);
                assert!(known.is_none_or(|known| known == level), "{}: {message} has two levels", path.display());
            }
        }
    }
    assert!(found.len() > 50);
    found
}

/// Returns the reasons for which a start can fail.
fn reasons() -> Vec<String> {
    let mut found = Vec::new();
    for (file, kind) in REASONS {
        let code = fs::read_to_string(project_file(file)).unwrap();
        let (before, behind) = code.split_once(kind).unwrap();
        // The message of a struct is in the attribute above it.
        let above = before.lines().last().map_or("", |_| before.rsplit("\n\n").next().unwrap());
        let body = behind.split("\n}").next().unwrap();
        for text in [above, body] {
            found.extend(text.split("#[error(").skip(1).filter_map(|rest| Some(literal(rest.trim_start())?.0)));
        }
    }
    // A variant that forwards the message of another error has no message of its own.
    found.retain(|reason| reason != "{0}");
    assert!(found.len() > 15, "{found:?}");
    found
}

/// Returns the headings and texts of the entries of a part of the page.
fn entries(part: &str) -> BTreeMap<String, String> {
    let page = page("runbook.md");
    let (_, behind) = page.split_once(&format!("\n## {part}\n")).unwrap_or_else(|| panic!("no part {part}"));
    let text = behind.split("\n## ").next().unwrap();
    let mut found = BTreeMap::new();
    for entry in text.split("\n### ").skip(1) {
        let (title, text) = entry.split_once('\n').unwrap();
        // Markdown quotes text that contains backticks with double backticks.
        let title = [("`` ", " ``"), ("`", "`")]
            .into_iter()
            .find_map(|(before, behind)| title.strip_prefix(before)?.strip_suffix(behind))
            .unwrap_or_else(|| panic!("### {title} is not quoted"))
            .to_owned();
        assert!(found.insert(title.clone(), text.trim().to_owned()).is_none(), "{title} stands twice");
    }
    found
}

#[test]
fn every_error_and_warning_has_its_entry() {
    let (messages, entries) = (messages(), entries("What the log says"));
    let forgotten: Vec<&String> = messages.keys().filter(|message| !entries.contains_key(*message)).collect();
    assert_eq!(forgotten, [] as [&String; 0], "not in docs/operations/runbook.md");
    let gone: Vec<&String> = entries.keys().filter(|title| !messages.contains_key(*title)).collect();
    assert_eq!(gone, [] as [&String; 0], "nobody says so any more");
    for (message, text) in &entries {
        let level = messages[message];
        assert!(text.starts_with(&format!("**{level}**")), "{message} is {level}");
        assert!(text.contains("**Do**"), "what to do about {message}");
    }
}

#[test]
fn every_fatal_start_error_has_its_entry() {
    let (reasons, entries) = (reasons(), entries("When it does not start"));
    let forgotten: Vec<&String> = reasons.iter().filter(|reason| !entries.contains_key(*reason)).collect();
    assert_eq!(forgotten, [] as [&String; 0], "not in docs/operations/runbook.md");
    for (title, text) in &entries {
        assert!(text.contains("**Do**"), "what to do about {title}");
    }
}

#[test]
fn messages_are_found_between_other_fields() {
    let of = |arguments: &str| message(arguments);
    assert_eq!(of("\"plain\")"), "plain");
    assert_eq!(of("id = %call.id, %error, \"said\");"), "said");
    assert_eq!(of("kind = \"own\", ?x, \"said \\\"so\\\"\")"), "said \"so\"");
    assert_eq!(of("\n    left,\n    \"over \\\n     lines\",\n)"), "over      lines");
}
