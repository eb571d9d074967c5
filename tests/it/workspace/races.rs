//! Folders and files that become links, and links that become folders, while calls run.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;
use crate::support::eventually;

const SECRET: &str = "planted-9c1e";

/// A thread that swaps files in a loop until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// Runs `swap` in a loop on a thread.
    fn start(swap: impl Fn() + Send + 'static) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                swap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, rounds, thread: Some(thread) }
    }

    fn rounds(&self) -> usize {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Stops the thread; panics if a swap failed.
    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Alternates `work/dir` between a folder with a file and a link to a folder outside, with a secret in a file of that
/// name.
fn swapping_folder(folder: &Path) -> Swapper {
    put(folder, &[("work/dir/file", "inside\n"), ("out/file", SECRET)]);
    let work = folder.join("work");
    symlink(folder.join("out"), work.join("other")).unwrap();
    let swap = move || renameat_with(CWD, work.join("dir"), CWD, work.join("other"), RenameFlags::EXCHANGE).unwrap();
    Swapper::start(swap)
}

/// Sends the calls of one round concurrently.
async fn round(app: &App, number: usize) -> Vec<Value> {
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let calls = [
        call("read", json!({"path": "dir/file"})),
        call("write", json!({"path": format!("dir/new-{number}"), "content": "x"})),
        call("write", json!({"path": format!("dir/deep-{number}/new"), "content": "x"})),
        call("edit", edit("dir/file", SECRET, "x")),
        call("edit", edit("dir/file", "inside", "inside ")),
        call("list", json!({"path": "dir", "all": true})),
        call("list", json!({"depth": 9, "all": true})),
        call("search", json!({"pattern": "planted|inside", "path": "dir"})),
        call("search", json!({"pattern": "planted|inside", "all": true})),
    ];
    app.batch(json!({"calls": calls, "mode": "parallel"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_replaced_by_a_link_does_not_leave_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("work")).unwrap();
    let app = serving(&folder.path().join("work"), helper).await;
    let swapper = swapping_folder(folder.path());
    eventually("the first swap", || async { (swapper.rounds() > 0).then_some(()) }).await;
    let (mut inside, before) = (0, swapper.rounds());
    for number in 0..40 {
        for call in round(&app, number).await {
            let output = call["output"].as_str().unwrap();
            assert!(!output.contains(SECRET), "{call:#}");
            inside += usize::from(call["status"] == "SUCCESS");
        }
    }
    assert!(swapper.rounds() > before, "it has swapped while calls ran");
    swapper.end();
    assert!(inside > 0, "some calls meet the folder");
    assert_eq!(everything(&folder.path().join("out")), ["file"]);
    assert_eq!(fs::read_to_string(folder.path().join("out/file")).unwrap(), SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_replaced_by_a_link_or_a_pipe_neither_escapes_nor_hangs() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &[("work/spare", "inside\n"), ("out/secret", SECRET)]);
    let work = folder.path().join("work");
    assert!(std::process::Command::new("mkfifo").arg(work.join("pipe")).status().unwrap().success());
    let app = serving(&work, helper).await;
    let (out, path) = (folder.path().join("out/secret"), work.join("file"));
    let swapper = Swapper::start(move || {
        // Each file replaces the previous one atomically.
        let next = |make: &dyn Fn(&Path)| {
            let temporary = work.join("next");
            make(&temporary);
            fs::rename(&temporary, &path).unwrap();
        };
        next(&|path| assert!(fs::copy(work.join("spare"), path).is_ok()));
        next(&|path| symlink(&out, path).unwrap());
        next(&|path| fs::hard_link(work.join("pipe"), path).unwrap());
    });
    eventually("the first swap", || async { (swapper.rounds() > 0).then_some(()) }).await;
    for number in 0..40 {
        let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
        let calls = [
            call("read", json!({"path": "file"})),
            call("write", json!({"path": "file", "content": format!("new {number}")})),
            call("edit", edit("file", "inside", "changed")),
            call("search", json!({"pattern": "planted|inside|new", "path": "file"})),
            call("search", json!({"pattern": "planted|inside|new"})),
        ];
        for call in app.batch(json!({"calls": calls, "mode": "parallel"})).await {
            assert!(!call["output"].as_str().unwrap().contains(SECRET), "{call:#}");
        }
    }
    swapper.end();
    assert_eq!(everything(&folder.path().join("out")), ["secret"]);
    assert_eq!(fs::read_to_string(folder.path().join("out/secret")).unwrap(), SECRET);
}
