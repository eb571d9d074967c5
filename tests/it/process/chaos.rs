//! Programs that do not stop or that use too much: their calls end as specified, no process is left, and other calls
//! are not affected. Each program has its own limits, with and without limits of the service.

use serde_json::json;

use super::cleanup::FAMILY;
use super::*;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Client, Node, bounded};

/// The expected end of a call.
enum Ends {
    /// Success with this output.
    Well(&'static str),
    /// A failure with this code and this text in its output.
    Badly(&'static str, &'static str),
}
use Ends::{Badly, Well};

const BROKE: &str = "TOOL_EXECUTION_ERROR";
/// Maximum memory of the service at the end, in KiB: far less than the programs wrote.
const MEMORY_KIB: u64 = 512 * 1024;

/// The name, the script, the limits, the timeout in milliseconds, and the expected end.
const TROUBLE: [(&str, &str, &str, u32, Ends); 11] = [
    (
        "many_children",
        "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait",
        r#"{"processes": 20}"#,
        20_000,
        Badly(BROKE, "more than 20 processes"),
    ),
    (
        // 63 shells and the same number of sleepers, in separate sessions.
        "fork_bomb",
        r#"export BOMB='[ $1 -gt 0 ] && for i in 1 2; do setsid sh -c "$BOMB" sh $(($1 - 1)) & done; sleep 1000'
           sh -c "$BOMB" sh 5"#,
        r#"{"processes": 20}"#,
        20_000,
        Badly(BROKE, "more than 20 processes"),
    ),
    ("double_fork", "(sh -c 'sleep 1000 &' &); sleep 0.1; printf done", "{}", 20_000, Well("done")),
    (
        "daemons",
        "(setsid sh -c 'setsid sleep 1000 & exec sleep 1000' &); sleep 0.1; printf done",
        "{}",
        20_000,
        Well("done"),
    ),
    ("deaf", "trap '' TERM INT HUP; while :; do sleep 1; done", "{}", 700, Badly("TOOL_TIMEOUT", "700ms")),
    ("stopped", "kill -STOP $$", "{}", 700, Badly("TOOL_TIMEOUT", "700ms")),
    ("family", FAMILY, "{}", 700, Badly("TOOL_TIMEOUT", "700ms")),
    ("pipes_closed", "exec <&- >&- 2>&-; sleep 0.2; exit 3", "{}", 20_000, Badly(BROKE, "exited with code 3")),
    ("pipes_held", "setsid sleep 1000 & printf done", "{}", 20_000, Well("done")),
    ("a_gibibyte", "head -c 1073741824 /dev/zero", "{}", 20_000, Badly(BROKE, "larger than 16777216 bytes")),
    ("a_gibibyte_of_errors", "head -c 1073741824 /dev/zero >&2; printf done", "{}", 20_000, Well("done")),
];

async fn trouble(client: Client, name: &str, ends: &Ends) {
    let call = bounded(name, client.call(name, json!({}))).await;
    match ends {
        Well(output) => assert_eq!(succeeded(&call), *output, "{name}"),
        Badly(code, words) => assert!(failed(&call, code).contains(words), "{name}: {call:#}"),
    }
}

async fn survive(sandbox: &str) {
    let mark = mark();
    let mut node = Node::start(Backend::Sqlite, &[("TOOLPOST__PROCESS__REGISTRATION", "true")]).await;
    for (name, script, limits, timeout_ms, _) in &TROUBLE {
        let limits: Value = serde_json::from_str(limits).unwrap();
        let executor = json!({"env": {"MARK": mark}, "limits": limits, "sandbox": sandbox});
        let tool = program(name, &["sh", "-c", script], executor);
        node.register(with(tool, json!({"limits": {"timeout_ms": timeout_ms}}))).await;
    }
    node.register(program("cat", &["cat"], json!({"sandbox": sandbox}))).await;
    let all = TROUBLE.iter().map(|(name, .., ends)| trouble(node.clone(), name, ends));
    let mut all = std::pin::pin!(futures_util::future::join_all(all));
    let rounds = std::cell::Cell::new(0);
    let others = async {
        loop {
            rounds.set(rounds.get() + 1);
            succeeded(&node.call("echo", json!({"text": "hi"})).await);
            let call = node.call("cat", json!({"text": "hi"})).await;
            assert_eq!(call["structured"]["arguments"], json!({"text": "hi"}), "{call:#}");
        }
    };
    tokio::select! {
        _ = &mut all => {}
        () = others => {}
    }
    assert!(rounds.get() > 1, "others have had their turns");
    wait_for_none(&mark).await;
    let id = node.id();
    eventually("everybody's end, and that all took leave", || async { below(id).is_empty().then_some(()) }).await;
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    assert!(peak < MEMORY_KIB, "it has taken {peak} KiB");
    node.signal("TERM");
    assert_eq!(node.end().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_programs_leave_nothing_and_affect_no_other() {
    survive("best_effort").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_without_namespaces() {
    survive("off").await;
}
