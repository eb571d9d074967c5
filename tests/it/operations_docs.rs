//! The operations manual, `docs/operations`: it is complete and correct, and its commands work.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::fixture::project_file;

mod backup;
mod configuration;
mod runbook;

fn page(name: &str) -> String {
    std::fs::read_to_string(project_file(&format!("docs/operations/{name}"))).unwrap()
}

/// Returns the project files that a Markdown text links to, without anchors.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://")).map(|target| target.split('#').next().unwrap()).collect()
}

#[test]
fn every_page_is_in_the_index_and_every_link_resolves() {
    let folder = project_file("docs/operations");
    let pages: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    let index = page("README.md");
    let listed: BTreeSet<&str> = links(&index).into_iter().collect();
    for name in pages.iter().filter(|name| *name != "README.md") {
        assert!(listed.contains(name.as_str()), "{name} is not in the index");
    }
    for name in &pages {
        let text = page(name);
        for target in links(&text).into_iter().filter(|target| !target.is_empty()) {
            assert!(folder.join(Path::new(target)).exists(), "{name} leads to {target}");
        }
    }
}
