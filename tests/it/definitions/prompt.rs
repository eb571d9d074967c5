//! `GET /tools?format=prompt`: Markdown that describes the tools in a model's prompt.

use serde_json::json;

use crate::support::service::rust_tools;
use crate::support::{App, Backend, Options};

const FAILS: &str = "Note: this tool often fails (5 of 5 calls).";

#[tokio::test(flavor = "multi_thread")]
async fn prompt_is_markdown_with_every_tool() {
    let app = App::on_sqlite().await;
    app.echo_of("a.tool", json!({"city": {"type": "string", "description": "Where"}})).await;
    let answer = app.get("/tools?format=prompt").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/markdown; charset=utf-8"));
    let text = answer.text();
    assert!(
        text.starts_with("# Available Tools\n\nYou have access to the following 6 tool(s):\n\n## a.tool\n"),
        "{text}"
    );
    assert!(text.contains("\nParameters:\n  - city: string (optional) - Where\n"), "{text}");
    for name in ["calculate", "current_time", "echo", "read_result", "wait"] {
        assert!(text.contains(&format!("\n\n## {name}\n")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_of_a_search_has_the_matches_only() {
    let app = App::on_sqlite().await;
    let text = app.get("/tools?format=prompt&q=arithmetic").await.text();
    assert!(text.contains("following 1 tool(s)") && text.contains("\n## calculate\n"), "{text}");
    let nothing = app.get("/tools?format=prompt&q=quantum").await;
    assert_eq!((nothing.status, nothing.body.len()), (200, 0));
    assert!(nothing.header("content-type").starts_with("text/markdown"));
}

on_both_databases!(
    async fn prompt_warns_of_failing_tools_on_request(backend: Backend) {
        let options = Options { extra: rust_tools(), ..Options::default() };
        let app = App::start_with(backend, options).await;
        for _ in 0..4 {
            app.call("fails", json!({})).await;
        }
        assert!(!app.get("/tools?format=prompt&stats=true").await.text().contains("Note:"));
        app.call("fails", json!({})).await;
        assert!(app.get("/tools?format=prompt&stats=true").await.text().contains(FAILS));
        assert!(!app.get("/tools?format=prompt").await.text().contains("Note:"));
    }
);
