//! The links between documents, and the table of contents of the guide.

use std::collections::BTreeSet;
use std::path::Path;

use super::{documents, files};
use crate::support::fixture::project_file;

/// Returns the text of a document without its code blocks, in which links are only examples.
fn prose(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut is_code = false;
    let mut found = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// Returns the targets of the links and images of a Markdown text that stay within the project.
fn targets(text: &str) -> Vec<&str> {
    let all = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    all.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// Returns the anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let kept: String = heading.to_lowercase().chars().filter(is_kept).collect();
    kept.replace(' ', "-")
}

fn anchors(path: &Path) -> BTreeSet<String> {
    let text = prose(path);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn links_lead_to_existing_files_and_headings() {
    for path in documents() {
        for target in targets(&prose(&path)) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(file.exists(), "{} links to {target}", path.display());
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            let is_found = heading.is_empty() || !is_page || anchors(&file).contains(heading);
            assert!(is_found, "{} links to a missing heading: {target}", path.display());
        }
    }
}

#[test]
fn every_page_is_in_one_index() {
    let folder = project_file("docs");
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let listed = targets(&summary);
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), unique.len(), "a page is listed twice");
    // Decisions are for contributors. They are not part of the guide, and have their own index.
    let decisions = std::fs::read_to_string(folder.join("decisions/README.md")).unwrap();
    let decisions: BTreeSet<&str> = targets(&decisions).into_iter().chain(["README.md"]).collect();
    for page in files(&folder, "md") {
        let name = page.strip_prefix(&folder).unwrap().to_str().unwrap();
        let is_listed = match name.strip_prefix("decisions/") {
            Some(decision) => decisions.contains(decision),
            None => unique.contains(name) || name == "SUMMARY.md",
        };
        assert!(is_listed, "docs/{name} is not in SUMMARY.md or the index of decisions");
    }
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor("What a stop does"), "what-a-stop-does");
    assert_eq!(anchor("A tool that is a `program`, quickly"), "a-tool-that-is-a-program-quickly");
    assert_eq!(anchor("Models' formats (JSON_Schema)"), "models-formats-json_schema");
}
