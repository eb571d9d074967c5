//! Scripts next to the definitions that run them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use super::*;
use crate::support::shapes::{points_at, succeeded};

const COUNT: &str = "import json, sys\nprint(len(json.load(sys.stdin)['arguments']['text'].split()))\n";

async fn serving(folder: &Path) -> App {
    let configure: fn(&mut Config) = |config| config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
    let options = Options { tools_dir: Some(folder.to_owned()), configure: Some(configure), ..Options::default() };
    App::start_with(Backend::Sqlite, options).await
}

fn declare(folder: &Path, name: &str, argv: &[&str], executor: Value) {
    fs::write(folder.join(format!("{name}.json")), program(name, argv, executor).to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn script_next_to_a_definition_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    fs::write(folder.path().join("lib/count.py"), COUNT).unwrap();
    let run = folder.path().join("run.sh");
    fs::write(&run, "#!/bin/sh\ncat > /dev/null\npwd\n").unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    declare(folder.path(), "count", &["python3", "./lib/count.py"], json!({}));
    declare(folder.path(), "confined", &["python3", "./lib/count.py"], json!({"read": [], "write": []}));
    declare(folder.path(), "fresh", &["./run.sh"], json!({}));
    declare(folder.path(), "placed", &["./run.sh"], json!({"cwd": elsewhere.path()}));
    let app = serving(folder.path()).await;
    for name in ["count", "confined"] {
        assert_eq!(succeeded(&app.call(name, json!({"text": "to be or not"})).await).trim(), "4");
    }
    assert!(succeeded(&app.call("fresh", json!({})).await).contains("toolpost-"));
    let placed = app.call("placed", json!({})).await;
    assert_eq!(succeeded(&placed).trim(), elsewhere.path().canonicalize().unwrap().display().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn script_outside_the_folder_is_rejected_and_a_missing_one_is_awaited() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("tools");
    fs::create_dir(&folder).unwrap();
    fs::write(outside.path().join("count.py"), COUNT).unwrap();
    symlink(outside.path().join("count.py"), folder.join("linked.py")).unwrap();
    declare(&folder, "above", &["python3", "./../count.py"], json!({}));
    declare(&folder, "linked", &["python3", "./linked.py"], json!({}));
    declare(&folder, "missing", &["python3", "./count.py"], json!({}));
    declare(&folder, "good", &["printf", "good"], json!({}));
    let app = serving(&folder).await;
    assert_eq!(succeeded(&app.call("good", json!({})).await), "good");
    for name in ["above", "linked", "missing"] {
        app.get(&format!("/tools/{name}")).await.problem(404);
    }
    fs::write(folder.join("count.py"), COUNT).unwrap();
    let path = "/tools/missing";
    eventually("the tool", || async { (app.get(path).await.status == 200).then_some(()) }).await;
    assert_eq!(succeeded(&app.call("missing", json!({"text": "a b"})).await).trim(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_over_the_api_has_no_folder() {
    let app = service().await;
    for (argv, pointer) in [(["./run.sh", "x"], "/executor/argv/0"), (["python3", "./run.py"], "/executor/argv/1")] {
        let problem = app.post("/tools", &program("bad", &argv, json!({}))).await.problem(422);
        points_at(&problem, pointer);
        assert!(problem.to_string().contains("tools folder"), "{problem}");
    }
}
