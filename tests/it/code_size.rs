//! Maximum sizes of functions, files, documents and the crate.
//!
//! A size above its target may only fall. `UPDATE_FIXTURES=1 cargo test --test it code_size` records lower sizes.

use std::fs;
use std::sync::LazyLock;

use regex::Regex;

use crate::architecture::{Source, sources};
use crate::support::fixture::project_file;
use crate::support::ratchet::{self, Figure};
use crate::support::scan;

const FUNCTION_LINES: usize = 60;
const FILE_LINES: usize = 400;
/// Maximum number of files above [`FILE_LINES`].
const LONG_FILES: usize = 4;
const CODE_LINES: usize = 47_000;
const README_LINES: usize = 220;
const ARCHITECTURE_LINES: usize = 260;

/// Returns the names of the functions in a text, each with the line of its `fn` and the number of its lines.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn\s+(\w+)").unwrap());
    let code = scan::code(text, &scan::tokens(text));
    let functions = FUNCTION.captures_iter(&code).filter_map(|found| {
        let start = found.get(0).unwrap().start();
        // The body begins at the first brace; a declaration ends at a semicolon. Array types also contain semicolons.
        let mut depth = 0;
        let body = start
            + code[start..].find(|letter| {
                depth += i32::from("([".contains(letter)) - i32::from(")]".contains(letter));
                depth == 0 && "{;".contains(letter)
            })?;
        depth = 0;
        let end = code[body..].find(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            depth == 0
        })?;
        let (first, last) = (scan::line_of(&code, start), scan::line_of(&code, body + end));
        Some((found[1].to_owned(), first, last - first + 1))
    });
    functions.collect()
}

/// Overwrites `#[cfg(test)] mod … { … }` with empty lines.
fn without_tests(text: &str) -> String {
    let (mut is_test, mut before) = (false, "");
    let lines = text.lines().map(|line| {
        is_test |= before == "#[cfg(test)]" && line.contains("mod ") && line.ends_with('{');
        before = line;
        let kept = if is_test { "" } else { line };
        is_test &= line != "}";
        kept
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn read(file: &str) -> String {
    fs::read_to_string(project_file(file)).unwrap()
}

fn name(source: &Source) -> String {
    source.path.strip_prefix(project_file("")).unwrap().display().to_string()
}

#[test]
fn sizes_are_within_their_bounds() {
    let figure = |name: &str, count, target, hint: &str, places| Figure {
        name: name.to_owned(),
        count,
        target,
        hint: hint.to_owned(),
        places,
    };
    let sources = sources();
    let mut long_functions = Vec::new();
    for source in &sources {
        let file = name(source);
        let text = without_tests(&read(&file));
        let long = functions(&text).into_iter().filter(|(.., lines)| *lines > FUNCTION_LINES);
        long_functions.extend(long.map(|(name, line, lines)| format!("{file}:{line}: {name} has {lines} lines")));
    }
    let long_files = sources.iter().filter(|source| source.lines > FILE_LINES);
    let long_files: Vec<String> =
        long_files.map(|source| format!("{}: {} lines", name(source), source.lines)).collect();
    let is_code = |line: &&String| !line.trim().is_empty();
    let code_lines = sources.iter().map(|source| source.code.iter().filter(is_code).count()).sum();
    let document = |file: &str| read(file).lines().count();
    ratchet::check(
        "code_size",
        &[
            figure("long functions", long_functions.len(), 0, "Split them into steps with names.", long_functions),
            figure("long files", long_files.len(), LONG_FILES, "Split them by their ideas.", long_files),
            figure("lines of code", code_lines, CODE_LINES, "Remove what is not needed.", Vec::new()),
            figure("README.md", document("README.md"), README_LINES, "Move details to docs/.", Vec::new()),
            figure(
                "ARCHITECTURE.md",
                document("ARCHITECTURE.md"),
                ARCHITECTURE_LINES,
                "Move details to docs/.",
                Vec::new(),
            ),
        ],
    );
}

#[test]
fn functions_are_measured_with_their_bodies() {
    let text = "trait T {\n    fn declared(&self);\n    fn given(&self) {\n        // }\n        \"}\";\n    }\n}\n\
        fn long<const N: usize>(\n    x: [u8; N],\n)\nwhere\n    A: B,\n{\n    if x { y }\n}\n";
    let found = functions(text);
    let found: Vec<_> = found.iter().map(|(name, line, lines)| (&**name, *line, *lines)).collect();
    assert_eq!(found, [("declared", 2, 1), ("given", 3, 4), ("long", 8, 8)]);
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod other;\nfn d() {}";
    let kept = without_tests(text);
    let kept: Vec<_> = functions(&kept).into_iter().map(|(name, line, _)| (name, line)).collect();
    assert_eq!(kept, [("a".to_owned(), 1), ("c".to_owned(), 6), ("d".to_owned(), 9)]);
}
