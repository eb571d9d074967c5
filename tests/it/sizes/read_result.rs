//! `read_result`: gives a model the truncated parts.

use serde_json::{Value, json};

use super::{lines, saying};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend};

/// Returns the arguments in a notice or in the last line of a part.
fn way_on(output: &str) -> Option<Value> {
    let start = output.rfind("{\"call_id\"")?;
    let end = start + output[start..].find('}')?;
    serde_json::from_str(&output[start..=end]).ok()
}

on_both_databases!(
    async fn following_the_notice_gives_the_whole(backend: Backend) {
        let app = App::with_egress(backend).await;
        let text = format!("{}{}\n{}", lines(3000), "ü".repeat(60_000), lines(3000));
        let _server = saying(&app, "t", &text, json!({})).await;
        let call = app.call("t", json!({})).await;
        let output = succeeded(&call);
        let (kept, _) = output.split_once("[… ").unwrap();
        let (mut read, mut next) = (kept.to_owned(), way_on(output));
        while let Some(arguments) = next {
            let goes_on_within = |way: &Value| way.get("column").is_some();
            let call = app.call("read_result", arguments).await;
            let part = succeeded(&call);
            assert_eq!(call["metadata"], json!({}), "a part is never cut itself");
            next = way_on(part);
            let shown = part.rsplit_once("[the result has ").map_or(part, |(shown, _)| shown);
            let is_within = next.as_ref().is_some_and(goes_on_within);
            read.push_str(if is_within { shown.strip_suffix('\n').unwrap() } else { shown });
        }
        assert!(read == text, "{} of {} bytes", read.len(), text.len());
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_found_by_number_and_by_pattern() {
    let app = App::with_egress(Backend::Sqlite).await;
    let _server = saying(&app, "t", &lines(5000), json!({})).await;
    let call = app.call("t", json!({})).await;
    let id = call["id"].clone();
    let some = app.call("read_result", json!({"call_id": id, "offset": 4000, "limit": 2})).await;
    assert!(
        succeeded(&some).starts_with("line 4000\nline 4001\n[the result has 5,000 lines; continue with "),
        "{some}"
    );
    let found = app.call("read_result", json!({"call_id": id, "pattern": "^LINE (7|4999)$"})).await;
    assert_eq!(succeeded(&found), "[0 matching lines; the result has 5,000 lines]");
    let found = app.call("read_result", json!({"call_id": id, "pattern": "(?i)^LINE (7|4999)$"})).await;
    assert_eq!(succeeded(&found), "7: line 7\n4999: line 4999\n[2 matching lines; the result has 5,000 lines]");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_result_is_explained_with_a_hint() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"a": 1})).await;
    let id = call["id"].as_str().unwrap();
    for (arguments, expected) in [
        (
            json!({"call_id": "call_abc"}),
            "call \"call_abc\" was not found outside of sessions; call_id is the id in the notice",
        ),
        (json!({"call_id": "0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f"}), "was not found outside of sessions"),
        (json!({"call_id": id, "offset": 2}), "offset 2 is past the end of the result (1 line)"),
        (json!({"call_id": id, "pattern": "("}), "the pattern is not a valid regular expression"),
    ] {
        let call = app.call("read_result", arguments).await;
        let output = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(output.contains(expected), "{output}");
    }
    failed(&app.call("read_result", json!({"call_id": id, "offset": 0})).await, "TOOL_VALIDATION_ERROR");
}

on_both_databases!(
    async fn session_reads_its_own_calls_only(backend: Backend) {
        let app = App::start(backend).await;
        let call = async |session: Value| {
            let call = app.call_with(json!({"name": "echo", "arguments": {"of": session}, "session": session})).await;
            call["id"].clone()
        };
        let ids = [call(json!(null)).await, call(json!("a")).await, call(json!("b")).await];
        for (index, session) in [json!(null), json!("a"), json!("b")].iter().enumerate() {
            for (other, id) in ids.iter().enumerate() {
                let body = json!({"name": "read_result", "arguments": {"call_id": id}, "session": session});
                let read = app.call_with(body).await;
                let is_own = index == other;
                assert_eq!(read["status"], if is_own { "SUCCESS" } else { "ERROR" }, "{session} reads {id}: {read}");
            }
        }
        // A new session with the id of a deleted session has none of its calls.
        assert!(app.delete("/sessions/a").await.status < 300);
        let body = json!({"name": "read_result", "arguments": {"call_id": ids[1]}, "session": "a"});
        assert_eq!(app.call_with(body).await["status"], "ERROR");
    }
);
