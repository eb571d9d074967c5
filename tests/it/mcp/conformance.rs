//! The official conformance suite: all scenarios that a revision requires pass. The exceptions among the others are
//! listed.

use tokio::process::Command;

use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::McpLowering;

use super::node;
use crate::support::LIMIT;
use crate::support::fixture::project_file;

mod asks;
mod data;
mod prompts;
mod resources;
mod rounds;
mod server;
mod tools;

/// Scenarios that no revision requires and that do not pass. All are about tools that Toolpost does not have: tools
/// that query their client while they run as a task, that can only be called as tasks, or that fail with a protocol
/// error.
const NOT_PASSED: [&str; 5] = [
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-required-task-error",
];

/// Returns the output of the suite for this revision.
async fn judged(revision: &str) -> String {
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".to_owned();
    // The suite checks that keywords arrive as they were defined.
    config.mcp.lowering = McpLowering::Exact;
    let builder = tools::tools().into_iter().fold(App::builder(config), |builder, tool| builder.tool(tool));
    let app = builder.start().await.expect("the service starts");
    let (address, _serving) = server::serve(&app).await;
    let suite = project_file("tests/clients/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut command = Command::new(node());
    command
        .arg(suite)
        .args(["server", "--url", &format!("http://{address}/mcp"), "--requirements", revision])
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("the suite ends");
    let output = output.expect("`scripts/test` installs the conformance suite");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("=== SUMMARY ==="), "{}\n{text}\n{error}", output.status);
    text
}

/// Returns the scenarios with this mark in the summary.
fn marked<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let summary = text.split("=== SUMMARY ===").nth(1).unwrap_or_default();
    let scored = summary.split("\nTotal:").next().unwrap_or_default().lines();
    scored.filter_map(|line| line.trim().strip_prefix(mark)?.trim().split(':').next()).collect()
}

async fn passes(revision: &str, least: usize, not_passed: &[&str]) {
    let text = judged(revision).await;
    let (mut failed, passed) = (marked(&text, "✗"), marked(&text, "✓").len());
    failed.sort_unstable();
    assert_eq!(failed, not_passed, "{text}");
    assert!(passed >= least, "only {passed} scenarios passed:\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn suite_passes_for_2025_11_25() {
    passes("2025-11-25", 30, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn suite_passes_for_2026_07_28() {
    passes("2026-07-28", 37, &NOT_PASSED).await;
}
