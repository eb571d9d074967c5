//! Truncation modes and their limits.

use serde_json::{Value, json};

use super::{lines, saying, whole};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Answer, App, Backend};

/// Returns the kept output before and after the notice.
fn kept(output: &str) -> (&str, &str) {
    let (before, rest) = output.split_once("[… ").unwrap_or_else(|| panic!("no notice in {output}"));
    let (_, after) = rest.split_once("/output]").unwrap();
    (before, after.strip_prefix('\n').unwrap_or(after))
}

on_both_databases!(
    async fn each_mode_keeps_its_part_and_the_full_output_is_served(backend: Backend) {
        let app = App::with_egress(backend).await;
        let text = lines(100);
        let _server = saying(&app, "t", &text, json!({})).await;
        for (mode, expected) in [
            (json!(null), ("line 1\nline 2\nline 3\nline 4\n", "")),
            (json!("head"), ("line 1\nline 2\nline 3\nline 4\n", "")),
            (json!("tail"), ("", "line 97\nline 98\nline 99\nline 100\n")),
            (json!("head_tail"), ("line 1\nline 2\n", "line 99\nline 100\n")),
        ] {
            let limits = json!({"max_output_lines": 4, "truncate": mode});
            let call = app.call_with(json!({"name": "t", "arguments": {}, "limits": limits})).await;
            let output = succeeded(&call);
            assert_eq!(kept(output), expected, "{mode}");
            let id = call["id"].as_str().unwrap();
            let first = if mode == "tail" { 1 } else { expected.0.lines().count() + 1 };
            let way = format!(
                "left out; read_result {{\"call_id\":\"{id}\",\"offset\":{first}}} or GET /tool-calls/{id}/output]"
            );
            assert!(output.contains("[… 96 lines (") && output.contains(&way), "{output}");
            assert_eq!(call["content"], json!([{"type": "text", "text": output}]));
            assert_eq!(call["metadata"]["truncated"]["lines"], 100);
            assert_eq!(call["metadata"]["truncated"]["left_out_lines"], 96);
            assert_eq!(app.stored(id).await, call, "it is stored as it was told");
            assert_eq!(whole(&app, &call).await, text);
            assert_eq!(app.get(&format!("/tool-calls/{id}/content/0")).await.text(), text);
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn default_is_50_kib_and_2000_lines() {
    let app = App::with_egress(Backend::Sqlite).await;
    let fits = lines(2000);
    let _fits = saying(&app, "fits", &fits, json!({})).await;
    let call = app.call("fits", json!({})).await;
    assert_eq!((succeeded(&call), &call["metadata"]), (fits.as_str(), &json!({})));
    let limits = json!({"timeout_ms": 30000, "max_output_bytes": 51200, "max_output_lines": 2000, "truncate": "head"});
    assert_eq!(call["limits"], limits);
    let _long = saying(&app, "long", &lines(2001), json!({})).await;
    let call = app.call("long", json!({})).await;
    assert_eq!(kept(succeeded(&call)).0, fits);
    let wide = "ü".repeat(30_000);
    let _wide = saying(&app, "wide", &wide, json!({})).await;
    let call = app.call("wide", json!({})).await;
    assert_eq!(kept(succeeded(&call)).0, format!("{}\n", "ü".repeat(25_600)));
    assert!(succeeded(&call).contains("\"offset\":1,\"column\":25601}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_precedes_the_tool_and_the_tool_precedes_the_session() {
    let app = App::with_egress(Backend::Sqlite).await;
    let _tool = saying(&app, "strict", &lines(50), json!({"max_output_lines": 3})).await;
    let _plain = saying(&app, "plain", &lines(50), json!({})).await;
    let session = json!({"id": "s", "limits": {"max_output_lines": 5, "truncate": "tail"}});
    assert_eq!(app.post("/sessions", &session).await.status, 201);
    let shown = async |name: &str, more: Value| {
        let body = crate::support::calls::with(json!({"name": name, "arguments": {}, "session": "s"}), more);
        let call = app.call_with(body).await;
        let (before, after) = kept(succeeded(&call));
        (before.lines().count(), after.lines().count())
    };
    assert_eq!(shown("plain", json!({})).await, (0, 5));
    assert_eq!(shown("strict", json!({})).await, (0, 3));
    assert_eq!(shown("strict", json!({"limits": {"max_output_lines": 2, "truncate": "head"}})).await, (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_limits_are_rejected_everywhere() {
    let app = App::on_sqlite().await;
    for (name, value) in [
        ("max_output_bytes", json!(0)),
        ("max_output_lines", json!(0)),
        ("max_output_lines", json!(-1)),
        ("truncate", json!("middle")),
    ] {
        let limits = json!({ name: value });
        let pointer = format!("/limits/{name}");
        let call = app.post("/tool-calls", &json!({"name": "echo", "limits": limits})).await;
        points_at(&call.problem(422), &pointer);
        let session = app.post("/sessions", &json!({"limits": limits})).await;
        points_at(&session.problem(422), &pointer);
        let executor = json!({"type": "builtin", "name": "echo"});
        let tool = json!({"name": "t", "input_schema": {"type": "object"}, "executor": executor, "limits": limits});
        points_at(&app.post("/tools", &tool).await.problem(422), &pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_stays_whole_and_a_long_failure_is_cut_too() {
    let app = App::with_egress(Backend::Sqlite).await;
    let rows = json!({"rows": (0..500).collect::<Vec<_>>()});
    let call = app.call_with(json!({"name": "echo", "arguments": rows, "limits": {"max_output_bytes": 100}})).await;
    assert_eq!(call["structured"], rows);
    assert_eq!(kept(succeeded(&call)).0, format!("{}\n", &rows.to_string()[..100]));
    assert_eq!(whole(&app, &call).await, rows.to_string());
    let broken = json!({"is_error": true, "content": [{"type": "text", "text": lines(3000)}]});
    let _server = super::answering(&app, "t", Answer::json(&broken), json!({})).await;
    let call = app.call("t", json!({})).await;
    let output = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(output.starts_with("Error executing tool \"t\": line 1\n"), "{output}");
    assert_eq!(kept(output).0.lines().count(), 2000);
    assert!(whole(&app, &call).await.ends_with("line 3000\n"));
}
