//! `bash`: output, ends of commands, and cleanup of their processes.

use super::*;
use crate::support::eventually;
use crate::support::shapes::{failed, succeeded, violation};

async fn bash(app: &App, command: &str) -> Value {
    app.call("bash", json!({"command": command})).await
}

/// Returns the number of living processes that have this word in their environment.
fn marked(mark: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let variable = format!("MARK={mark}");
    let is_marked = |path: &std::path::PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    all.filter(is_marked).count()
}

/// Returns a word that is unique to this test.
fn mark() -> String {
    tempfile::tempdir().unwrap().path().display().to_string()
}

/// Returns a command that starts children in several groups and sessions; one of them ignores SIGTERM.
fn family(mark: &str) -> String {
    format!(
        "export MARK={mark}; echo begun; sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &)
         sh -c 'trap \"\" TERM; while :; do sleep 1; done' & wait"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_errors_keep_their_order() {
    let (app, folder) = service(&[("src/a", "x")]).await;
    let call =
        bash(&app, "echo one; echo two >&2; printf '{\"event\":\"result\",\"output\":\"no\"}\\n'; pwd; ls").await;
    let folder_path = folder.path().canonicalize().unwrap();
    let expected = format!("one\ntwo\n{{\"event\":\"result\",\"output\":\"no\"}}\n{}\nsrc\n", folder_path.display());
    assert_eq!(succeeded(&call), expected);
    assert_eq!(call["details"]["exit_code"], 0);
    assert!(call["details"]["sandbox"].is_object(), "{call:#}");
    assert_eq!(succeeded(&bash(&app, "true").await), "Done");
    assert_eq!(succeeded(&bash(&app, "cat; echo \"[${#TMPDIR}]\" | tr 0-9 n | tr -s n").await), "[n]\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_changes_the_workspace_and_its_temporary_folder_is_removed() {
    let (app, folder) = service(&[]).await;
    let call =
        bash(&app, "set -e; mkdir a; echo x > a/b; echo y > \"$TMPDIR/t\"; mktemp > /dev/null; echo $TMPDIR").await;
    let temporary = succeeded(&call).trim();
    assert!(!Path::new(temporary).exists() && temporary.contains("toolpost-"), "{temporary}");
    assert_eq!(everything(folder.path()), ["a", "a/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_command_is_an_error_with_output_and_code() {
    let (app, _folder) = service(&[]).await;
    let call = bash(&app, "echo out; echo err >&2; exit 3").await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert_eq!(text, "Error executing tool \"bash\": out\nerr\n\nCommand exited with code 3");
    assert_eq!((&call["details"]["exit_code"], &call["error"]["details"]["exit_code"]), (&json!(3), &json!(3)));
    let call = bash(&app, "no-such-program-7").await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.contains("bash: line 1: no-such-program-7: command not found"), "{text}");
    assert!(failed(&bash(&app, "kill -9 $$").await, "TOOL_EXECUTION_ERROR").ends_with("killed by signal 9"));
    assert_eq!(violation(&app.call("bash", json!({"command": "a\u{0}b"})).await)["pointer"], "/command");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_shows_its_tail_and_is_stored_completely() {
    let (app, _folder) = service(&[]).await;
    let call = bash(&app, "seq 1 5000; exit 1").await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.ends_with("4999\n5000\n\nCommand exited with code 1") && !text.contains("\n2999\n"), "{text}");
    let whole = app.get(&format!("/tool-calls/{}/output", call["id"].as_str().unwrap())).await.text();
    assert!(whole.starts_with("Error executing tool \"bash\": 1\n2\n3\n"), "{}", &whole[..100]);
    assert!(call["error"]["message"].as_str().unwrap().len() < 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_output_is_limited() {
    let (app, _folder) = service(&[]).await;
    let call = bash(&app, "yes 0123456789abcdef | head -c 40000000; echo; echo the end").await;
    assert!(succeeded(&call).ends_with("\nthe end\n"));
    let whole = app.get(&format!("/tool-calls/{}/output", call["id"].as_str().unwrap())).await;
    assert!(whole.body.len() <= 9_000_000, "{}", whole.body.len());
    assert!(whole.text().starts_with("[the first 31,"), "{}", &whole.text()[..60]);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_shown_while_the_command_runs() {
    let (app, folder) = service(&[]).await;
    let command = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done";
    let id = app.accepted(json!({"name": "bash", "arguments": {"command": command}, "wait": "accepted"})).await;
    let mut events = app.events(&format!("/tool-calls/{id}/events")).await;
    let shown = events.until(|event| event.event == "progress").await;
    let last = shown.last().unwrap();
    assert_eq!(last.data["content"][0]["text"], "begun\n", "{last:?}");
    fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(app.ended(&id).await["output"], "begun\ndone\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_ends_the_command_and_its_children() {
    let (app, _folder) = service(&[]).await;
    let mark = mark();
    let call = app.call("bash", json!({"command": family(&mark), "timeout_ms": 1500})).await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.contains("begun\n") && text.ends_with("Command timed out after 1500 ms and was stopped"), "{text}");
    assert_eq!(marked(&mark), 0, "they have gone before the call ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_the_call_applies() {
    let (app, _folder) = service(&[]).await;
    let mark = mark();
    let body = json!({"name": "bash", "arguments": {"command": family(&mark)}, "limits": {"timeout_ms": 1500}});
    let call = app.call_with(body).await;
    assert_eq!(call["status"], "ERROR", "{call:#}");
    eventually("the end of all processes", || async { (marked(&mark) == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_ends_the_command_and_its_children() {
    let (app, _folder) = service(&[]).await;
    let mark = mark();
    let body = json!({"name": "bash", "arguments": {"command": family(&mark)}, "wait": "accepted"});
    let id = app.accepted(body).await;
    eventually("the processes", || async { (marked(&mark) >= 5).then_some(()) }).await;
    app.cancel(&id).await;
    failed(&app.ended(&id).await, "CANCELLED");
    eventually("the end of all processes", || async { (marked(&mark) == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_does_not_reach_the_service() {
    let (app, folder) = service(&[]).await;
    let address = app.url("");
    let port = address.trim_end_matches('/').rsplit(':').next().unwrap();
    let call = bash(&app, &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")).await;
    if call["details"]["sandbox"]["network"] != "not_enforced" {
        assert!(!failed(&call, "TOOL_EXECUTION_ERROR").contains("\": reached"), "{call:#}");
    }
    let open = serving(folder.path(), |config| {
        helper(config);
        config.workspace.network = toolpost::domain::process::NetworkAccess::Allow;
    })
    .await;
    assert_eq!(open.get("/tools/bash").await.ok()["annotations"]["open_world"], true);
    assert_eq!(
        succeeded(&bash(&open, &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")).await),
        "reached\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn command_runs_confined_or_not_at_all_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let app = serving(folder.path(), |config| config.process.helper = env!("CARGO_BIN_EXE_toolpost").into()).await;
    let call = bash(&app, "printf ran").await;
    if call["details"]["sandbox"]["landlock"] == true {
        assert_eq!(succeeded(&call), "ran");
    } else {
        assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("required"), "{call:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_without_a_helper_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let app = serving(folder.path(), |_| {}).await;
    let call = bash(&app, "true").await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("cannot run programs"), "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_without_the_network_reaches_no_unix_socket_and_has_no_capabilities() {
    let (app, _folder) = service(&[]).await;
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let script = format!(
        "grep -h CapEff /proc/self/status; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")' \
         2> /dev/null && echo reached || echo refused",
        path.display()
    );
    let call = bash(&app, &script).await;
    let text = succeeded(&call);
    assert!(text.starts_with("CapEff:\t0000000000000000\n"), "{call:#}");
    if call["details"]["sandbox"]["unix_sockets"] == "denied" {
        assert!(text.ends_with("refused\n"), "{call:#}");
    }
}
