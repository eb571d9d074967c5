//! Deployment files, parsed as their tools parse them and checked against the service.

use std::fs;

use serde::Deserialize;
use serde_json::Value;
use toolpost::config::Config;

use crate::support::fixture::project_file;

mod compose;
mod image;
mod kubernetes;

/// Returns the minimum grace period in seconds: the drain time, plus a few seconds for streams and the journal.
fn drain_s() -> u64 {
    Config::default().server.drain_ms / 1000 + 5
}

/// Reads a file of the project.
fn text(path: &str) -> String {
    fs::read_to_string(project_file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Parses the documents of a YAML file.
fn yaml(path: &str) -> Vec<Value> {
    let text = text(path);
    let documents = yaml_serde::Deserializer::from_str(&text);
    documents.map(|document| Value::deserialize(document).unwrap_or_else(|error| panic!("{path}: {error}"))).collect()
}

/// Returns the value at a pointer. Panics if it is missing.
fn at<'a>(document: &'a Value, pointer: &str) -> &'a Value {
    document.pointer(pointer).unwrap_or_else(|| panic!("nothing at {pointer} of {document:#}"))
}

/// Checks that the settings are known and valid, and returns the resulting configuration.
fn assert_settings(toml: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    fs::write(&file, toml).unwrap();
    Config::load(Some(&file)).unwrap_or_else(|error| panic!("{error}: {toml}"))
}

/// Checks that the service knows an environment variable.
fn assert_known(name: &str) {
    if let Some(setting) = name.strip_prefix("TOOLPOST__") {
        let defaults: toml::Table = toolpost::config::DEFAULTS.parse().unwrap();
        let (section, key) = setting.split_once("__").unwrap();
        let section = defaults.get(&section.to_lowercase()).and_then(toml::Value::as_table);
        assert!(section.is_some_and(|section| section.contains_key(&key.to_lowercase())), "{name}");
        return;
    }
    let is_secret = name.starts_with("TOOLPOST_SECRET_");
    let sources = ["src/cli/options.rs", "src/cli/serve.rs"].map(text).concat();
    assert!(is_secret || sources.contains(&format!("\"{name}\"")), "{name}");
}
