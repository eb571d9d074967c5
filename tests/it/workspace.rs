//! The workspace tools and `web_fetch`, as an agent uses them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolpost::config::Config;
use toolpost::domain::process::SandboxMode;

use crate::support::{App, Backend, Options};

mod commands;
mod definitions;
mod files;
mod outside;
mod races;
mod session;
mod web;

/// Starts a service with a workspace of these files. It names the helper, because the test binary is not `toolpost`.
async fn service(files: &[(&str, &str)]) -> (App, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), files);
    (serving(folder.path(), helper).await, folder)
}

/// Starts a service with this workspace.
async fn serving(folder: &Path, configure: fn(&mut Config)) -> App {
    let workspace = Some(folder.to_owned());
    App::start_with(Backend::Sqlite, Options { workspace, configure: Some(configure), ..Options::default() }).await
}

/// Runs commands with a best-effort sandbox, so that the tests also run on kernels without confinement.
fn helper(config: &mut Config) {
    config.workspace.sandbox = SandboxMode::BestEffort;
    config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
}

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Returns the relative paths of everything below a folder.
fn everything(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(folder).unwrap().display().to_string());
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_text": old, "new_text": new})
}
