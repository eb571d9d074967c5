//! The agent session in the guide, word for word.

use super::*;
use crate::support::fixture::project_file;
use crate::support::shapes::succeeded;

/// Returns the section of the guide with this heading.
fn section(heading: &str) -> String {
    let readme = fs::read_to_string(project_file("docs/guide/workspace.md")).unwrap();
    let start = readme.find(heading).unwrap_or_else(|| panic!("no {heading:?} in the guide"));
    let rest = &readme[start + heading.len()..];
    rest[..rest.find("\n## ").unwrap_or(rest.len())].to_owned()
}

/// Returns the text between two lines.
fn between<'t>(text: &'t str, first: &str, last: &str) -> &'t str {
    let start = text.find(first).unwrap_or_else(|| panic!("no {first:?} in {text}")) + first.len();
    &text[start..start + text[start..].find(last).unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_of_the_guide_fixes_and_runs_its_file() {
    let section = section("\n## Files and commands\n");
    let script = between(&section, "cat > demo/src/greet.sh <<'END'\n", "END\n");
    let (app, folder) = service(&[("src/greet.sh", script)]).await;
    let calls = section.lines().filter_map(|line| line.strip_prefix("call ")?.strip_suffix('\'')?.split_once(" '"));
    let mut outputs = Vec::new();
    for (name, arguments) in calls {
        let call = app.call(name, serde_json::from_str(arguments).unwrap()).await;
        outputs.push((name.to_owned(), succeeded(&call).to_owned()));
    }
    let outputs: Vec<(&str, &str)> = outputs.iter().map(|(name, output)| (name.as_str(), output.as_str())).collect();
    let expected = [
        ("list", "src/greet.sh (27 bytes)"),
        ("search", "src/greet.sh:2: echo \"Helo, $1!\"\n[1 matching line in 1 file]"),
        ("read", script),
        ("edit", "Edited src/greet.sh: line 2"),
        ("bash", "Hello, Ada!\n"),
        ("read", "echo \"Hello, $1!\"\n"),
    ];
    assert_eq!(outputs, expected);
    // The guide shows these outputs.
    for (_, output) in expected {
        assert!(output == script || output.lines().all(|line| section.contains(line)), "{output}");
    }
    assert_eq!(everything(folder.path()), ["src", "src/greet.sh"]);
}
