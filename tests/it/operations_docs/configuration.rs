//! `configuration.md` matches the defaults file and lists every flag and variable.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolpost::config::DEFAULTS;
use toolpost::config::reference::{SHORT, Section, reference, sections};

use crate::cli::program::{Home, Program};
use crate::support::fixture::{project_file, same_as_file};

#[test]
fn reference_equals_the_defaults_file() {
    let how = "UPDATE_FIXTURES=1 cargo test --test it operations_docs";
    same_as_file("docs/operations/configuration.md", &reference(), how);
}

/// Returns the settings of a table with their sections.
fn settings(name: &str, table: &Map<String, Value>) -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for (key, value) in table {
        let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        match value {
            Value::Object(inner) => found.extend(settings(&path, inner)),
            value => drop(found.insert((name.to_owned(), key.clone(), value.to_string()))),
        }
    }
    found
}

/// Parses a TOML value.
fn of_toml(text: &str) -> Value {
    toml::from_str::<Value>(&format!("it = {text}")).unwrap()["it"].take()
}

fn described() -> Vec<Section> {
    sections(DEFAULTS)
}

#[test]
fn every_setting_has_a_default_and_its_own_description() {
    let defaults: Map<String, Value> = toml::from_str(DEFAULTS).unwrap();
    let mut found = BTreeSet::new();
    for Section { name, settings, .. } in described() {
        for setting in settings {
            assert!(setting.meaning.len() > 10, "{name}.{} is not explained", setting.key);
            found.insert((name.clone(), setting.key, of_toml(&setting.default).to_string()));
        }
    }
    assert_eq!(found, settings("", &defaults));
}

#[test]
fn every_section_without_settings_is_described() {
    for Section { name, about, settings } in described() {
        assert!(!settings.is_empty() || about.contains("```toml"), "{name}");
    }
}

#[test]
fn every_variable_of_the_reference_sets_something() {
    let home = Home::new();
    let variables: Vec<(String, String)> = described()
        .into_iter()
        .flat_map(|section| {
            let Section { name, settings, .. } = section;
            settings.into_iter().map(move |setting| (setting.variable(&name), setting.default))
        })
        // The test needs its own database.
        .filter(|(name, _)| name != "TOOLPOST__STORE__DATABASE_URL")
        // The environment cannot express an empty list.
        .map(|(name, default)| {
            let one = match &name {
                name if name.ends_with("_ORIGINS") => "https://a.example.com",
                name if name.ends_with("_PORTS") => "6379",
                _ => "127.0.0.1",
            };
            let default = if default == "[]" { format!("[\"{one}\"]") } else { default };
            (name, default)
        })
        .collect();
    assert!(variables.len() > 50);
    let plain = |default: &str| match of_toml(default) {
        Value::String(text) => text,
        Value::Array(list) => list.iter().map(|one| one.as_str().unwrap()).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    };
    let with = |more: &[(&str, &str)]| {
        let mut command = home.command(&["tools", "list"]);
        command.envs(variables.iter().map(|(name, default)| (name, plain(default)))).envs(more.iter().copied());
        Program::start(&mut command).end()
    };
    // Valid settings are accepted; unknown and invalid settings are rejected.
    let ended = with(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = with(&[("TOOLPOST__SERVER__LISTNE", "127.0.0.1:1")]);
    assert!(ended.code == Some(2) && ended.err.contains("listne"), "{ended:?}");
    let ended = with(&[("TOOLPOST__PROCESS__LIMITS__CPU_MS", "soon")]);
    assert!(ended.code == Some(2) && ended.err.contains("cpu_ms"), "{ended:?}");
}

/// Returns the words of a text that `is_one` accepts.
fn words(text: &str, is_one: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let ends = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_';
    text.split(ends).filter(|word| is_one(word)).collect()
}

#[test]
fn reference_lists_exactly_the_flags_of_the_service() {
    let help = Home::new().run(&["serve", "--help"]).out;
    let is_flag = |word: &str| word.starts_with("--") && word.len() > 2;
    let mut flags = words(&help, is_flag);
    assert!(flags.remove("--help"));
    let named: BTreeSet<&str> = SHORT.iter().filter_map(|short| short.flag?.split(' ').next()).collect();
    assert_eq!(flags, named);
    let is_variable = |word: &str| word.starts_with("TOOLPOST_") || word == "DATABASE_URL";
    let known: BTreeSet<&str> = SHORT.iter().flat_map(|short| short.variables).copied().collect();
    let forgotten: Vec<&str> = words(&help, is_variable).into_iter().filter(|name| !known.contains(name)).collect();
    assert_eq!(forgotten, [] as [&str; 0]);
}

#[test]
fn reference_lists_every_variable_of_the_program() {
    let known: BTreeSet<&str> = SHORT.iter().flat_map(|short| short.variables).copied().collect();
    let mut read = BTreeSet::new();
    for file in ["cli/options.rs", "cli/serve.rs", "cli/doctor.rs", "cli/import.rs", "cli/remote.rs"] {
        let text = std::fs::read_to_string(project_file("src").join(file)).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let is_name = |word: &&str| {
            word.contains('_')
                && !word.starts_with("CARGO_")
                && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        read.extend(code.split('"').filter(is_name).map(str::to_owned));
    }
    assert!(read.len() > 10, "{read:?}");
    for name in &read {
        assert!(known.contains(name.as_str()), "{name} is not in the reference");
    }
}
