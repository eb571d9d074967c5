//! Resource limits of programs.

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let app = service().await;
    for (limits, script, end) in [
        (json!({"cpu_ms": 1000}), "while :; do :; done", "killed by signal 24"),
        (json!({"open_files": 20}), "ulimit -n; exit 7", "20\n\nCommand exited with code 7"),
        (json!({"memory_bytes": 1 << 28}), "ulimit -d; exit 7", "262144\n\nCommand exited with code 7"),
        (json!({"file_bytes": 4096}), "head -c 100000 /dev/zero > file && exit 0; wc -c < file; exit 7", "code 7"),
        (
            json!({"memory_bytes": 1 << 28}),
            "exec python3 -c 'x = bytearray(1 << 29)'",
            "MemoryError\n\nCommand exited with code 1",
        ),
    ] {
        let call = shell_with(&app, script, json!({"limits": limits})).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(text.ends_with(end), "{limits}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_limits_are_inherited() {
    let configure: fn(&mut Config) = |config| {
        open(config);
        config.process.limits.open_files = Some(33);
        config.process.limits.memory_bytes = Some(1 << 29);
    };
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await;
    let call = shell_with(&app, "ulimit -n; ulimit -d", json!({"limits": {"memory_bytes": 0, "processes": 7}})).await;
    assert_eq!(succeeded(&call), "33\nunlimited\n");
    let limits = json!({"processes": 7, "file_bytes": 1 << 30, "open_files": 33});
    assert_eq!(call["details"]["sandbox"]["limits"], limits);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_processes_as_are_allowed_may_be() {
    let app = service().await;
    let script = |seconds: f32| format!("for i in 1 2 3; do sleep {seconds} & done; wait; printf done");
    assert_eq!(succeeded(&shell_with(&app, &script(0.2), json!({"limits": {"processes": 4}})).await), "done");
    let more = shell_with(&app, &script(1000.0), json!({"limits": {"processes": 3}})).await;
    assert!(failed(&more, "TOOL_EXECUTION_ERROR").ends_with("more than 3 processes"), "{more:#}");
}
