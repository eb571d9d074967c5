//! The house as it is meant to be: floors, no circles, SQL in one place, files of a size to read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::fixture::project_file;

/// Which module stands on which floor; a module imports lower floors, or its own without a circle.
const FLOORS: [(&str, u8); 24] = [
    ("domain", 0),
    ("fault", 0),
    ("schema", 1),
    ("formats", 1),
    ("import", 1),
    // Settings are values: whoever joins or shows them may read them.
    ("config", 1),
    // Counts and tells; whoever does something may say so.
    ("telemetry", 1),
    ("store", 2),
    ("events", 2),
    ("dispatch", 2),
    ("executor", 3),
    ("policy", 3),
    ("tool", 3),
    ("registry", 3),
    ("hooks", 3),
    // A caller with the store and the tools that are theirs.
    ("access", 4),
    ("upstreams", 4),
    ("callbacks", 4),
    ("auth", 5),
    ("engine", 5),
    // Joins every concrete type; `http` and `mcp` serve what it has joined.
    ("app", 6),
    ("http", 7),
    ("mcp", 7),
    ("lifecycle", 8),
];
/// Modules above all floors, which nothing imports.
const ROOFS: [&str; 3] = ["cli", "main", "lib"];
/// Who may read the settings.
const READ_SETTINGS: [&str; 5] = ["app", "http", "telemetry", "cli", "main"];
/// What SQL begins with.
const SQL: [&str; 7] =
    ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE ", "ON CONFLICT ", "BEGIN IMMEDIATE", "sqlx::"];
const LONGEST_FILE: usize = 600;

/// A source file without its tests.
struct Source {
    path: PathBuf,
    /// The module of the crate's root that it belongs to.
    module: String,
    lines: usize,
    code: Vec<String>,
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&project_file("src"), &mut paths);
    paths.sort();
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    let kept = texts.into_iter().filter(|(path, _)| !is_test(path));
    let sources: Vec<Source> = kept
        .map(|(path, text)| {
            let relative = path.strip_prefix(project_file("src")).unwrap().with_extension("");
            let module = relative.iter().next().unwrap().to_str().unwrap().to_owned();
            Source { module, lines: text.lines().count(), code: code(&text), path }
        })
        .collect();
    assert!(sources.len() > 50);
    sources
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Files (without their extension) that are only there for tests: `#[cfg(test)] mod NAME;`.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let names = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]").filter_map(|pair| {
        let (_, name) = pair[1].strip_suffix(';')?.split_once("mod ")?;
        Some(path.with_extension("").join(name))
    });
    names.collect()
}

/// The lines without comments and without `#[cfg(test)] mod … { … }`.
fn code(text: &str) -> Vec<String> {
    let (mut kept, mut lines) = (Vec::new(), text.lines().peekable());
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{')) {
            lines.by_ref().find(|line| *line == "}");
        } else if !line.trim_start().starts_with("//") {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// The modules that a source names: `crate::a::…`, and each of `crate::{a::…, b}`.
fn imports(source: &Source) -> BTreeSet<String> {
    let text = source.code.join("\n");
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => drop(found.insert(first_word(rest))),
            Some(list) => {
                let (mut depth, mut begins) = (1, true);
                for (at, letter) in list.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => begins = true,
                        letter if begins && letter.is_alphabetic() => {
                            found.insert(first_word(&list[at..]));
                            begins = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    found.remove(&source.module);
    found
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

fn floor_of(module: &str) -> u8 {
    if ROOFS.contains(&module) {
        return u8::MAX;
    }
    let floor = FLOORS.iter().find(|(name, _)| *name == module);
    floor.unwrap_or_else(|| panic!("`{module}` has no floor yet: give it one here and in ARCHITECTURE.md")).1
}

#[test]
fn modules_import_lower_floors_or_their_own() {
    for source in sources() {
        for import in imports(&source) {
            let (own, other) = (floor_of(&source.module), floor_of(&import));
            assert!(other <= own, "{} (floor {own}) imports {import} (floor {other})", source.path.display());
            let may_read = import != "config" || READ_SETTINGS.contains(&&*source.module);
            assert!(may_read, "{} reads the settings; it should be given what it needs", source.path.display());
        }
    }
}

#[test]
fn modules_have_no_circle() {
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        left.entry(source.module.clone()).or_default().extend(imports(&source));
    }
    // Whoever imports nothing that is left goes; what cannot go stands in a circle.
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let before = left.len();
        left.retain(|_, imports| imports.iter().any(|import| names.contains(import)));
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "circles among {left:#?}");
}

#[test]
fn sql_stands_in_the_store_only() {
    for source in sources().iter().filter(|source| source.module != "store") {
        for line in &source.code {
            let found = SQL.iter().find(|sql| line.contains(**sql));
            assert!(found.is_none(), "{}: {line}", source.path.display());
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for source in sources() {
        assert!(source.lines <= LONGEST_FILE, "{} has {} lines", source.path.display(), source.lines);
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "use crate::a::B;\nuse crate::{b::{C, D}, c, own};\n// crate::x\nlet y = crate::d::e();\n\
        #[cfg(test)]\nmod tests {\n    use crate::f;\n}\nuse $crate::g::H;";
    let source = Source { path: PathBuf::new(), module: "own".into(), lines: 1, code: code(text) };
    assert_eq!(imports(&source).into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "g"]);
}
