//! The README, the guide and the other documents: their links are valid, and their commands work.

use std::path::{Path, PathBuf};

use crate::support::fixture::project_file;

mod commands;
mod links;

/// Returns the files with this extension below a folder, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns all documents of the project: the README and its neighbors, `docs` and the examples.
fn documents() -> Vec<PathBuf> {
    let top = std::fs::read_dir(project_file("")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = top.filter(|path| path.extension().is_some_and(|own| own == "md")).collect();
    found.sort();
    found.extend(files(&project_file("docs"), "md"));
    found.push(project_file("examples/README.md"));
    found
}
