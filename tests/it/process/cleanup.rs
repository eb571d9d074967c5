//! No process or file of a program is left when its call has ended, for any kind of end.

use serde_json::json;

use super::*;
use crate::support::Node;
use crate::support::shapes::{failed, succeeded};

/// A script that starts children, children that leave the group and the session, and a child that ignores SIGTERM: at
/// least five processes, including the script.
pub const FAMILY: &str = "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &)
    sh -c 'trap \"\" TERM; while :; do sleep 1; done' & wait";

fn family(name: &str, mark: &str) -> Value {
    program(name, &["sh", "-c", FAMILY], json!({"env": {"MARK": mark}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn any_clock_ends_them_all() {
    let (app, mark) = (service().await, mark());
    for clock in ["timeout_ms", "idle_timeout_ms"] {
        app.register(with(family(clock, &mark), json!({"limits": {clock: 1000}}))).await;
        failed(&app.call(clock, json!({})).await, "TOOL_TIMEOUT");
        wait_for_none(&mark).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_them_all_and_the_folder_goes() {
    let (app, mark) = (service().await, mark());
    app.register(family("slow", &mark)).await;
    let id = app.accepted(json!({"name": "slow", "wait": "accepted"})).await;
    wait_for_some(&mark, 5).await;
    let folder = std::env::temp_dir().join(format!("toolpost-{id}-1"));
    assert!(folder.is_dir());
    app.cancel(&id).await;
    failed(&app.ended(&id).await, "CANCELLED");
    wait_for_none(&mark).await;
    eventually("the folder to go", || async { (!folder.exists()).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_can_end_cleanly_when_terminated() {
    let (app, folder) = (service().await, tempfile::tempdir().unwrap());
    let script = "trap 'echo bye > said; exit' TERM; echo > ready; while :; do sleep 0.05; done";
    app.register(program("polite", &["sh", "-c", script], json!({"cwd": folder.path()}))).await;
    let id = app.accepted(json!({"name": "polite", "wait": "accepted"})).await;
    let is_there = |name: &str| folder.path().join(name).exists().then_some(());
    eventually("the program to be ready", || async { is_there("ready") }).await;
    app.cancel(&id).await;
    eventually("its last word", || async { is_there("said") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn child_that_holds_the_pipe_does_not_hold_the_call() {
    let (app, mark) = (service().await, mark());
    for script in ["sleep 1000 & printf done", "(setsid sleep 1000 &) ; printf done"] {
        let call = shell_with(&app, script, json!({"env": {"MARK": mark}})).await;
        assert_eq!(succeeded(&call), "done");
        assert_eq!(marked(&mark), [0; 0], "what it left behind is no more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_end_with_the_service() {
    for (signal, sandbox) in [("KILL", "best_effort"), ("KILL", "off"), ("TERM", "best_effort")] {
        let mark = mark();
        let settings = [("TOOLPOST__PROCESS__REGISTRATION", "true"), ("TOOLPOST__SERVER__DRAIN_MS", "100")];
        let mut node = Node::start(Backend::Sqlite, &settings).await;
        let executor = json!({"env": {"MARK": mark}, "sandbox": sandbox});
        node.register(program("slow", &["sh", "-c", FAMILY], executor)).await;
        let id = node.accepted(json!({"name": "slow", "wait": "accepted"})).await;
        let service = node.id();
        // At least seven processes and the two helpers.
        eventually("all of them", || async { (below(service).len() >= 9).then_some(()) }).await;
        let line = |id: &u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let all: Vec<(u32, Vec<u8>)> = below(service).into_iter().map(|id| (id, line(&id))).collect();
        node.signal(signal);
        node.end().await;
        wait_for_none(&mark).await;
        let is_there = |(id, words): &(u32, Vec<u8>)| !words.is_empty() && line(id) == *words;
        eventually("the end of its helpers", || async { (!all.iter().any(is_there)).then_some(()) }).await;
        let folder = std::env::temp_dir().join(format!("toolpost-{id}-1"));
        eventually("the folder to go", || async { (!folder.exists()).then_some(()) }).await;
    }
}

/// Returns the helpers of a program, which are its ancestors below the service: the inner helper, then the outer helper
/// that supervises it.
fn helpers(program: u32) -> Vec<u32> {
    let ancestors = std::iter::successors(parent(program), |id| parent(*id));
    ancestors.take_while(|id| *id != std::process::id() && *id != 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_end_with_any_of_their_helpers() {
    let app = service().await;
    for sandbox in ["best_effort", "off"] {
        for (which, expected) in ["helper has ended", "Command was stopped"].into_iter().enumerate() {
            let (mark, name) = (mark(), format!("orphans_{sandbox}_{which}"));
            let argv = ["sh", "-c", FAMILY, "root"];
            app.register(program(&name, &argv, json!({"env": {"MARK": mark}, "sandbox": sandbox}))).await;
            let id = app.accepted(json!({"name": name, "wait": "accepted"})).await;
            wait_for_some(&mark, 5).await;
            let helpers = helpers(started_as(&mark, &argv).unwrap());
            assert_eq!(helpers.len(), 2);
            kill(helpers[which]);
            let call = app.ended(&id).await;
            assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains(expected), "{call:#}");
            wait_for_none(&mark).await;
            let folder = std::env::temp_dir().join(format!("toolpost-{id}-1"));
            eventually("the folder to go", || async { (!folder.exists()).then_some(()) }).await;
        }
    }
}
