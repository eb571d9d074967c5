//! Nothing of a program is left when its call has ended, however that was.

use serde_json::json;

use super::*;
use crate::support::Node;
use crate::support::shapes::{failed, succeeded};

/// Children, children that have left group and session, and one that hears no SIGTERM, with this one: four at least.
const FAMILY: &str = "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &)
    sh -c 'trap \"\" TERM; while :; do sleep 1; done' & wait";

fn family(name: &str, mark: &str) -> Value {
    program(name, &["sh", "-c", FAMILY], json!({"env": {"MARK": mark}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_them_all() {
    let (app, mark) = (service().await, mark());
    app.register(with(family("slow", &mark), json!({"limits": {"timeout_ms": 2000}}))).await;
    let call = app.posted(json!({"name": "slow"}));
    wait_for_some(&mark, 5).await;
    failed(&call.await.unwrap().ok(), "TOOL_TIMEOUT");
    wait_for_none(&mark).await;
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
async fn a_program_may_end_well_when_it_is_asked_to() {
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
async fn one_that_holds_the_pipe_does_not_hold_the_call() {
    let (app, mark) = (service().await, mark());
    for script in ["sleep 1000 & printf done", "(setsid sleep 1000 &) ; printf done"] {
        let call = shell_with(&app, script, json!({"env": {"MARK": mark}})).await;
        assert_eq!(succeeded(&call), "done");
        assert_eq!(marked(&mark), Vec::<String>::new(), "what it left behind is no more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_go_with_the_service_whatever_ends_it() {
    for signal in ["KILL", "TERM"] {
        let mark = mark();
        let settings = [("TOOLPOST__PROCESS__REGISTRATION", "true"), ("TOOLPOST__SERVER__DRAIN_MS", "100")];
        let mut node = Node::start(Backend::Sqlite, &settings).await;
        node.register(family("slow", &mark)).await;
        let id = node.accepted(json!({"name": "slow", "wait": "accepted"})).await;
        wait_for_some(&mark, 5).await;
        node.signal(signal);
        node.end().await;
        wait_for_none(&mark).await;
        let folder = std::env::temp_dir().join(format!("toolpost-{id}-1"));
        eventually("the folder to go", || async { (!folder.exists()).then_some(()) }).await;
    }
}

/// The helpers of a program: its ancestors up to the service.
fn helpers(program: &str) -> Vec<String> {
    let parent = |id: &str| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|parent| parent.trim().to_owned())
    };
    let own = std::process::id().to_string();
    let ancestors = std::iter::successors(Some(program.to_owned()), |id| parent(id).filter(|parent| *parent != "0"));
    let helpers: Vec<String> = ancestors.skip(1).take_while(|id| *id != own).collect();
    assert_eq!(helpers.len(), 2, "one holds, one keeps");
    helpers
}

#[tokio::test(flavor = "multi_thread")]
async fn they_go_with_any_of_their_helpers() {
    let app = service().await;
    for sandbox in ["best_effort", "off"] {
        for which in [0, 1] {
            let (mark, name) = (mark(), format!("orphans_{sandbox}_{which}"));
            let script = format!("echo $0 > ready; {FAMILY}");
            let executor = json!({"env": {"MARK": mark}, "sandbox": sandbox});
            app.register(program(&name, &["sh", "-c", &script, "root"], executor)).await;
            let call = app.posted(json!({"name": name}));
            wait_for_some(&mark, 5).await;
            let root = marked(&mark).into_iter().find(|id| {
                fs::read(format!("/proc/{id}/cmdline")).unwrap().ends_with(b"root\0")
            });
            let helper = &helpers(&root.unwrap())[which];
            let killed = std::process::Command::new("kill").args(["-KILL", helper]).status().unwrap();
            assert!(killed.success());
            let call = call.await.unwrap().ok();
            // The inner one tells how it had to end the program, if it lives.
            let told = ["helper has ended", "killed by signal 15"][which];
            assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains(told), "{call:#}");
            wait_for_none(&mark).await;
        }
    }
}
