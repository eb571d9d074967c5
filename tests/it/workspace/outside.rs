//! No path gives access to files outside the workspace or reveals them.

use std::os::unix::fs::symlink;

use super::*;
use crate::support::shapes::{failed, succeeded};

const SECRET: &str = "planted-7f3a";

/// Starts a service with a workspace next to a folder with a secret, and with links to that folder.
async fn service_beside() -> (App, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &[("out/secret.txt", SECRET), ("work/in/file.txt", "inside\n"), ("work-2/secret.txt", SECRET)]);
    let work = folder.path().join("work");
    symlink(folder.path().join("out"), work.join("absolute")).unwrap();
    symlink("../out", work.join("relative")).unwrap();
    symlink("../out/secret.txt", work.join("secret.txt")).unwrap();
    symlink("absolute", work.join("chain")).unwrap();
    symlink("loop", work.join("loop")).unwrap();
    symlink("/proc/self/root", work.join("root")).unwrap();
    symlink("in", work.join("good")).unwrap();
    (serving(&work, helper).await, folder)
}

/// Returns paths that lead outside, each to an existing folder.
fn ways_out(folder: &TempDir) -> Vec<String> {
    let absolute = |name: &str| folder.path().join(name).display().to_string();
    let mut ways: Vec<String> = [
        "../out",
        "in/../../out",
        "./.././out",
        "relative",
        "absolute",
        "chain",
        "in/../relative",
        "good/../../out",
        "/",
        "/etc",
        "root",
        "root/etc",
        "..",
        "../work-2",
        "/proc/self/cwd",
        "loop",
    ]
    .map(str::to_owned)
    .to_vec();
    ways.extend([absolute("out"), absolute("work-2"), absolute("work/../out"), absolute("work/relative")]);
    ways
}

/// Returns the text of a call without its arguments.
fn text_of(call: &Value) -> String {
    let mut call = call.clone();
    let members = call.as_object_mut().unwrap();
    members.retain(|name, _| !name.ends_with("arguments"));
    call.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leaves_the_workspace() {
    let (app, folder) = service_beside().await;
    let before = everything(folder.path());
    for way in ways_out(&folder) {
        let file = format!("{way}/secret.txt");
        for (name, arguments) in [
            ("read", json!({"path": file})),
            ("read", json!({"path": way})),
            ("list", json!({"path": way, "all": true})),
            ("search", json!({"path": way, "pattern": "planted", "all": true})),
            ("search", json!({"path": file, "pattern": "planted"})),
            ("write", json!({"path": file, "content": "x"})),
            ("write", json!({"path": format!("{way}/new/deep.txt"), "content": "x"})),
            ("edit", edit(&file, SECRET, "x")),
        ] {
            let call = app.call(name, arguments).await;
            let text = failed(&call, "TOOL_EXECUTION_ERROR");
            assert!(!text_of(&call).contains("planted-"), "{name} {way}: {call:#}");
            assert!(!text.contains("os error"), "{name} {way}: {text}");
        }
    }
    assert_eq!(everything(folder.path()), before);
    assert_eq!(fs::read_to_string(folder.path().join("out/secret.txt")).unwrap(), SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn external_link_is_reported_and_an_internal_one_is_followed() {
    let (app, folder) = service_beside().await;
    let call = app.call("read", json!({"path": "secret.txt"})).await;
    let expected = "\"secret.txt\" leads out of the workspace through a symbolic link";
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").ends_with(expected), "{call:#}");
    let call = app.call("read", json!({"path": "../out/secret.txt"})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("is outside of the workspace"), "{call:#}");
    // `..` removes the previous component of the path and does not follow the link.
    assert!(succeeded(&app.call("list", json!({"path": "absolute/.."})).await).contains("in/"));
    let call = app.call("read", json!({"path": "loop"})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("too many levels of symbolic links"), "{call:#}");
    assert_eq!(succeeded(&app.call("read", json!({"path": "good/file.txt"})).await), "inside\n");
    succeeded(&app.call("write", json!({"path": "good/file.txt", "content": "changed"})).await);
    assert_eq!(fs::read_to_string(folder.path().join("work/in/file.txt")).unwrap(), "changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_searches_of_all_do_not_follow_links() {
    let (app, _folder) = service_beside().await;
    let list = app.call("list", json!({"depth": 64, "all": true})).await;
    assert!(succeeded(&list).contains("relative -> ../out") && !succeeded(&list).contains("relative/"), "{list:#}");
    let search = app.call("search", json!({"pattern": "planted|inside", "all": true})).await;
    assert_eq!(succeeded(&search), "in/file.txt:1: inside\n[1 matching line in 1 file]");
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_reads_and_writes_nothing_outside() {
    let (app, folder) = service_beside().await;
    let before = everything(folder.path());
    let out = folder.path().join("out").display().to_string();
    for command in [
        format!("cat {out}/secret.txt"),
        "cat ../out/secret.txt".to_owned(),
        "cat relative/secret.txt".to_owned(),
        format!("echo x > {out}/new"),
        "echo x > relative/new".to_owned(),
        "ln -s ../out mine && echo x > mine/new; rm mine; exit 1".to_owned(),
        "mv in ../moved".to_owned(),
        "cp -r relative copy; rm -rf copy; exit 1".to_owned(),
        "echo x > /tmp/toolpost-outside".to_owned(),
    ] {
        let call = app.call("bash", json!({"command": command})).await;
        if call["details"]["sandbox"]["landlock"] != true {
            return;
        }
        failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(!call.to_string().contains("planted-"), "{command}: {call:#}");
    }
    assert_eq!(everything(folder.path()), before);
    assert!(!Path::new("/tmp/toolpost-outside").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn pipe_instead_of_a_file_does_not_hang() {
    let (app, folder) = service(&[("a", "x\n")]).await;
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for (name, arguments) in [
        ("read", json!({"path": "pipe"})),
        ("edit", edit("pipe", "x", "y")),
        ("write", json!({"path": "pipe", "content": "x"})),
        ("search", json!({"path": "pipe", "pattern": "x"})),
    ] {
        let call = app.call(name, arguments).await;
        assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("not a regular file"), "{name}: {call:#}");
    }
    let search = app.call("search", json!({"pattern": "x"})).await;
    assert_eq!(succeeded(&search), "a:1: x\n[1 matching line in 1 file]");
    assert!(succeeded(&app.call("list", json!({})).await).ends_with("pipe (a pipe, a socket or a device)"));
}
