use std::fs;

use super::*;
use crate::tool::BuiltinTool;
use serde_json::Value;
use toolpost_core::domain::ToolOutput;

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

async fn search(folder: &tempfile::TempDir, arguments: Value) -> String {
    match BuiltinTool::new(Search(Workspace::open(folder.path()).unwrap())).invoke(arguments).await {
        Ok(ToolOutput::Outcome(outcome)) => outcome.output,
        Ok(other) => panic!("{other:?}"),
        Err(failure) => failure.text,
    }
}

#[tokio::test]
async fn matches_have_path_and_line_in_stable_order() {
    let folder = folder(&[
        ("b.rs", b"fn b() {}\n"),
        ("a/deep.rs", b"one\r\nfn deep() {}\r\nthree\r\n"),
        ("a/x.txt", b"fn text"),
        (".hidden", b"fn hidden"),
        (".gitignore", b"out/\n"),
        ("out/gen.rs", b"fn gen"),
        ("bin", b"fn bin\0"),
        ("latin", b"fn caf\xe9\n"),
    ]);
    let all = "a/deep.rs:2: fn deep() {}\na/x.txt:1: fn text\nb.rs:1: fn b() {}\nlatin:1: fn caf\u{fffd}\n";
    let of = |arguments| search(&folder, arguments);
    assert_eq!(of(json!({"pattern": "^fn"})).await, format!("{all}[4 matching lines in 4 files; 1 file is not text]"));
    let rust = of(json!({"pattern": "FN \\w+\\(", "ignore_case": true, "glob": "*.rs"})).await;
    assert_eq!(rust, "a/deep.rs:2: fn deep() {}\nb.rs:1: fn b() {}\n[2 matching lines in 2 files]");
    assert_eq!(
        of(json!({"pattern": "b()", "literal": true, "path": "b.rs"})).await,
        "b.rs:1: fn b() {}\n[1 matching line in 1 file]"
    );
    assert_eq!(
        of(json!({"pattern": "fn", "path": "a", "glob": "!*.txt"})).await,
        "a/deep.rs:2: fn deep() {}\n[1 matching line in 1 file]"
    );
    let context = of(json!({"pattern": "deep", "context": 1})).await;
    assert!(context.starts_with("a/deep.rs-1- one\na/deep.rs:2: fn deep() {}\na/deep.rs-3- three\n"), "{context}");
    assert!(of(json!({"pattern": "gen|hidden", "all": true})).await.contains("[2 matching lines"));
    assert_eq!(of(json!({"pattern": "nowhere"})).await, "[no matching line in 4 files; 1 file is not text]");
}

#[tokio::test]
async fn further_matches_are_reported() {
    let folder = folder(&[("f", b"x\nx\nx\n"), ("g", b"x\n")]);
    let text = search(&folder, json!({"pattern": "x", "limit": 2})).await;
    assert_eq!(
        text,
        "f:1: x\nf:2: x\n[2 matching lines in 1 file; more lines match: narrow the pattern, the path or the glob]"
    );
    assert!(search(&folder, json!({"pattern": "x", "limit": 4})).await.ends_with("[4 matching lines in 2 files]"));
}

#[tokio::test]
async fn invalid_patterns_are_invalid_arguments() {
    let folder = folder(&[]);
    for (arguments, line) in [
        (json!({"pattern": "("}), "- /pattern: is not a valid pattern: "),
        (json!({"pattern": "a\nb"}), "- /pattern: is not a valid pattern: "),
        (json!({"pattern": "(a{1000}){1000}"}), "- /pattern: is not a valid pattern: "),
        (json!({"pattern": "a", "glob": "{a"}), "- /glob: is not a valid glob: "),
    ] {
        let text = search(&folder, arguments.clone()).await;
        assert!(text.starts_with("Error: Invalid parameters") && text.contains(line), "{arguments}: {text}");
    }
    let text = search(&folder, json!({"pattern": "a", "path": "srrc"})).await;
    assert!(text.contains("\"srrc\" was not found; the workspace is empty"), "{text}");
}

#[tokio::test]
async fn file_with_an_endless_line_is_skipped() {
    let folder = folder(&[("long", &vec![b'a'; MAX_LINE_BYTES + 10]), ("short", b"a\n")]);
    let text = search(&folder, json!({"pattern": "a"})).await;
    assert_eq!(text, "short:1: a\n[1 matching line in 1 file; 1 file is not text]");
}
