//! Golden files: reviewed contents that must not change by accident.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

/// Returns the path of a file of the project.
pub fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares `found` with the project's file `path`, or writes the file if `UPDATE_FIXTURES=1` is set; `how` says how to
/// update it.
pub fn same_as_file(path: &str, found: &str, how: &str) {
    let file = project_file(path);
    if env::var_os("UPDATE_FIXTURES").is_some_and(|value| value == "1") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, found).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let differs = kept.lines().zip(found.lines()).position(|(kept, found)| kept != found);
    let line = differs.unwrap_or_else(|| kept.lines().count().min(found.lines().count()));
    assert!(
        kept == found,
        "{path} differs at line {}:\n  kept:  {}\n  found: {}\nIf that is meant: {how}",
        line + 1,
        kept.lines().nth(line).unwrap_or("(end)"),
        found.lines().nth(line).unwrap_or("(end)"),
    );
}

/// Compares JSON with `tests/fixtures/NAME.json`.
pub fn same_json(name: &str, found: &Value) {
    let text = serde_json::to_string_pretty(found).unwrap() + "\n";
    same_as_file(&format!("tests/fixtures/{name}.json"), &text, HOW);
}

/// Compares bytes of a stream with `tests/fixtures/NAME.sse`.
pub fn same_stream(name: &str, found: &str) {
    same_as_file(&format!("tests/fixtures/{name}.sse"), found, HOW);
}

const HOW: &str = "UPDATE_FIXTURES=1 cargo test --test it wire";
