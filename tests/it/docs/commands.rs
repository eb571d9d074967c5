//! The commands of the documents, run against a real service by `scripts/run-docs`.

use std::collections::BTreeSet;

use tokio::process::Command;

use super::documents;
use crate::support::fixture::project_file;

/// Runs the commands of a page and compares their output with the page.
async fn run(page: &str) {
    let mut command = Command::new("python3");
    command.arg("scripts/run-docs").arg("--toolpost").arg(env!("CARGO_BIN_EXE_toolpost")).arg(page);
    let output = command.current_dir(project_file("")).kill_on_drop(true).output().await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
}

macro_rules! pages {
    ($($name:ident: $page:literal;)+) => {
        const PAGES: &[&str] = &[$($page),+];

        $(
            #[tokio::test(flavor = "multi_thread")]
            #[ignore = "surfaces"]
            async fn $name() {
                run($page).await;
            }
        )+
    };
}

pages! {
    readme_works: "README.md";
    getting_started_works: "docs/guide/getting-started.md";
    writing_tools_works: "docs/guide/writing-tools.md";
    tool_options_works: "docs/guide/tool-options.md";
    workspace_works: "docs/guide/workspace.md";
    importing_apis_works: "docs/guide/importing-apis.md";
    model_formats_works: "docs/guide/model-formats.md";
    events_works: "docs/guide/events.md";
    console_works: "docs/guide/console.md";
    command_line_works: "docs/guide/command-line.md";
    durable_calls_works: "docs/guide/durable-calls.md";
    sessions_works: "docs/guide/sessions.md";
    hooks_works: "docs/guide/hooks.md";
    approvals_works: "docs/guide/approvals.md";
    slack_works: "docs/guide/slack.md";
    policies_works: "docs/guide/policies.md";
    budgets_works: "docs/guide/budgets.md";
    workers_works: "docs/guide/workers.md";
    mcp_works: "docs/guide/mcp.md";
    security_works: "docs/guide/security.md";
    installation_works: "docs/operations/installation.md";
    deployment_works: "docs/operations/deployment.md";
    overload_works: "docs/operations/overload.md";
    examples_work: "examples/README.md";
}

/// Documents whose commands have their own test (`manual::backup`) or are for contributors.
const ELSEWHERE: [&str; 2] = ["docs/operations/backup.md", "CONTRIBUTING.md"];

#[test]
fn every_page_with_commands_is_executed() {
    let known: BTreeSet<&str> = PAGES.iter().copied().chain(ELSEWHERE).collect();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(project_file("")).unwrap().to_str().unwrap();
        let has_commands = text.lines().any(|line| line.trim_start().starts_with("```sh"));
        assert!(!has_commands || known.contains(name), "{name} has commands that no test runs");
    }
}
