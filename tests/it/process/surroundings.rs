//! What a program has around it, and what it may not do.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_what_is_declared_and_the_path() {
    let app = service_with_secret("sk-planted-1234567").await;
    let mut tool = program("env", &["env"], json!({"env": {"A": "<{city}>", "GONE": "{absent}", "P": "{preset}"}}));
    tool["presets"] = json!({"preset": {"value": "p"}});
    tool["input_schema"] = json!({"type": "object", "properties": {"city": {}, "absent": {}}});
    app.register(tool).await;
    let call = app.call("env", json!({"city": "北; $(x)"})).await;
    let mut lines: Vec<&str> = succeeded(&call).lines().filter(|line| !line.starts_with("PATH=")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=<北; $(x)>", "P=p"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_comes_to_the_program_and_to_nobody_else() {
    let app = service_with_secret("sk-planted-1234567").await;
    let secret = json!({"env": {"KEY": {"secret": "KEY"}}});
    let say = "echo ${#KEY} $KEY; echo $KEY >&2; echo \"{\\\"event\\\":\\\"progress\\\",\\\"tip\\\":\\\"$KEY\\\"}\"";
    for script in [say, &format!("{say}; exit 1"), "yes $KEY | head -c 100000 | tee /dev/stderr; exit 1"] {
        let call = shell_with(&app, script, secret.clone()).await;
        let stored = app.stored(call["id"].as_str().unwrap()).await;
        for shown in [&call, &stored] {
            assert!(!shown.to_string().contains("planted"), "{shown:#}");
        }
    }
    let call = shell_with(&app, say, secret).await;
    assert!(succeeded(&call).starts_with("18 "), "{call:#}");
    let call = shell_with(&app, "true", json!({"env": {"X": {"secret": "OTHER"}}})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("TOOLPOST_SECRET_OTHER"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_directory_is_fresh_and_goes_afterwards() {
    let app = service().await;
    let call = shell(&app, "ls -A; echo x > file; mkdir -p a/b; pwd").await;
    let folder = succeeded(&call).trim();
    assert!(folder.contains("toolpost-") && !folder.contains('\n'), "{folder}");
    assert!(!Path::new(folder).exists());
    let named = tempfile::tempdir().unwrap();
    let call = shell_with(&app, "echo x > file; pwd", json!({"cwd": named.path()})).await;
    assert_eq!(succeeded(&call).trim(), named.path().display().to_string());
    assert_eq!(fs::read_to_string(named.path().join("file")).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_descriptor_of_the_service_is_inherited() {
    let app = service().await;
    // One more is the folder that is listed.
    let call = shell(&app, "exec ls /proc/self/fd").await;
    assert_eq!(succeeded(&call).split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_enforced_is_told_and_what_is_required_is_there() {
    let app = service().await;
    let call = shell_with(&app, "true", json!({"limits": {"cpu_ms": 1500}})).await;
    let sandbox = &call["details"]["sandbox"];
    assert_eq!(sandbox["limits"]["cpu_ms"], 1500, "{call:#}");
    assert_eq!((&sandbox["network"], sandbox["landlock"].is_boolean()), (&json!("allowed"), true));
    let required = shell_with(&app, "printf ran", json!({"sandbox": "required"})).await;
    if sandbox["landlock"] == true {
        assert_eq!(succeeded(&required), "ran");
    } else {
        assert!(failed(&required, "TOOL_EXECUTION_ERROR").contains("no Landlock"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_writes_only_where_it_may() {
    let app = service().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let script = format!("echo x > inside && echo x > {} && printf written", file.display());
    assert_eq!(succeeded(&shell_with(&app, &script, json!({"write": [folder.path()]})).await), "written");
    let call = shell_with(&app, &script, json!({"write": []})).await;
    if call["details"]["sandbox"]["landlock"] == true {
        failed(&call, "TOOL_EXECUTION_ERROR");
        let read = format!("cat {}", file.display());
        failed(&shell_with(&app, &read, json!({"read": [], "write": []})).await, "TOOL_EXECUTION_ERROR");
        assert_eq!(succeeded(&shell_with(&app, &read, json!({"read": [folder.path()], "write": []})).await), "x\n");
        // The service's own memory and environment are none of its business.
        let service = format!("cat /proc/{}/environ", std::process::id());
        failed(&shell(&app, &service).await, "TOOL_EXECUTION_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_the_network_reaches_nobody() {
    let app = service().await;
    let (host, port) =
        app.url("").trim_start_matches("http://").trim_end_matches('/').rsplit_once(':').map(owned).unwrap();
    let script = format!(
        "import socket\ntry:\n  socket.create_connection(('{host}', {port}), 5)\n  print('reached', end='')\n\
         except OSError:\n  print('refused', end='')"
    );
    for (network, said) in [("allow", "reached"), ("deny", "refused")] {
        app.register(program(network, &["python3", "-c", &script], json!({"network": network}))).await;
        let call = app.call(network, json!({})).await;
        if call["details"]["sandbox"]["network"] != "not_enforced" {
            assert_eq!(succeeded(&call), said, "{call:#}");
        }
    }
}

fn owned((host, port): (&str, &str)) -> (String, String) {
    (host.to_owned(), port.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let app = service().await;
    for (limits, script, end) in [
        (json!({"cpu_ms": 1000}), "while :; do :; done", "killed by signal 24"),
        (json!({"open_files": 20}), "ulimit -n; exit 7", "20\n\nCommand exited with code 7"),
        (json!({"memory_bytes": 1 << 28}), "ulimit -d; exit 7", "262144\n\nCommand exited with code 7"),
        (json!({"file_bytes": 4096}), "head -c 100000 /dev/zero > file && exit 0; wc -c < file; exit 7", "code 7"),
        (
            json!({"processes": 8}),
            "i=0; while [ $i -lt 30 ]; do sleep 100 & i=$((i+1)); done; wait",
            "more than 8 processes",
        ),
    ] {
        let call = shell_with(&app, script, json!({"limits": limits})).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(text.ends_with(end), "{limits}: {text}");
    }
}

// Left out: it took the whole machine down with it, where the limit on processes does not hold for root.
#[cfg(any())]
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_and_others_go_on() {
    let app = service().await;
    let mark = mark();
    let bomb = json!({"env": {"MARK": mark}, "limits": {"processes": 50}});
    let call = shell_with(&app, "bomb() { bomb | bomb & wait; }; bomb", bomb).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("more than 50 processes"), "{call:#}");
    assert_eq!(marked(&mark), Vec::<String>::new());
    assert_eq!(succeeded(&shell(&app, "printf fine").await), "fine");
}
