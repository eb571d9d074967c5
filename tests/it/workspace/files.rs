//! Tools that read, write, edit, list and search files.

use super::*;
use crate::support::shapes::{HARD_TEXT, failed, succeeded, violation};

#[tokio::test(flavor = "multi_thread")]
async fn written_file_is_read_back_unchanged() {
    let (app, folder) = service(&[]).await;
    for (path, text) in
        [("a/b/c.txt", "x\r\ny"), ("日本語/ñ é 😀.md", HARD_TEXT.trim_start_matches("a\u{0}b ")), ("e", "")]
    {
        let wrote = app.call("write", json!({"path": path, "content": text})).await;
        assert!(succeeded(&wrote).starts_with(&format!("Wrote {path}, new: ")), "{wrote:#}");
        assert_eq!(fs::read_to_string(folder.path().join(path)).unwrap(), text);
        let read = app.call("read", json!({"path": path})).await;
        assert_eq!(succeeded(&read), text);
        assert_eq!(read["details"]["path"], path);
    }
    let again = app.call("write", json!({"path": "e", "content": "1\n2\n"})).await;
    assert_eq!(succeeded(&again), "Wrote e: 2 lines, 4 bytes");
    assert_eq!(again["details"]["created"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn absolute_path_inside_equals_a_relative_one() {
    let (app, folder) = service(&[("src/a.rs", "x")]).await;
    let path = folder.path().join("src/a.rs");
    assert_eq!(succeeded(&app.call("read", json!({"path": path})).await), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_file_shows_its_head_and_is_stored_completely() {
    let lines: String = (1..=5000).map(|number| format!("line {number}\n")).collect();
    let (app, _folder) = service(&[("big.txt", &lines)]).await;
    let call = app.call("read", json!({"path": "big.txt"})).await;
    let text = succeeded(&call);
    assert!(text.starts_with("line 1\nline 2\n") && text.contains("line 2000\n[… 3,000 lines"), "{text}");
    let whole = app.get(&format!("/tool-calls/{}/output", call["id"].as_str().unwrap())).await;
    assert_eq!(whole.text(), lines);
    let part = app.call("read", json!({"path": "big.txt", "lines": {"start": 4999}})).await;
    assert_eq!(succeeded(&part), "line 4999\nline 5000\n");
    assert_eq!(part["details"]["total_lines"], 5000);
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_edit_is_explained_and_changes_nothing() {
    let text = "fn one() {\n    work(1);\n}\nfn two() {\n    work(1);\n}\n";
    let (app, folder) = service(&[("a.rs", text)]).await;
    let several = app.call("edit", edit("a.rs", "work(1);", "work(2);")).await;
    let message = failed(&several, "TOOL_EXECUTION_ERROR");
    assert!(message.contains("old_text occurs 2 times in \"a.rs\" (lines 2, 5)"), "{message}");
    let none = app.call("edit", edit("a.rs", "fn two() {\n  work(1);", "x")).await;
    let message = failed(&none, "TOOL_EXECUTION_ERROR");
    assert!(
        message.contains("the closest match differs only in whitespace (lines 4-5):\n4: fn two() {\n5:     work(1);"),
        "{message}"
    );
    assert_eq!(violation(&app.call("edit", edit("a.rs", "x", "x")).await)["pointer"], "/new_text");
    assert_eq!(violation(&app.call("edit", edit("a.rs", "", "x")).await)["pointer"], "/old_text");
    assert_eq!(fs::read_to_string(folder.path().join("a.rs")).unwrap(), text);
    let good = app.call("edit", edit("a.rs", "fn two() {\n    work(1);", "fn two() {\n    work(2);")).await;
    assert_eq!(succeeded(&good), "Edited a.rs: lines 4-5");
    assert_eq!(
        fs::read_to_string(folder.path().join("a.rs")).unwrap(),
        text.replacen("work(1);\n}\nfn two() {\n    work(1)", "work(1);\n}\nfn two() {\n    work(2)", 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_edits_are_all_applied() {
    let text: String = (0..16).map(|number| format!("<{number}>\n")).collect();
    let (app, folder) = service(&[("f", &text)]).await;
    let calls: Vec<Value> = (0..16)
        .map(|number| json!({"name": "edit", "arguments": edit("f", &format!("<{number}>"), &format!("[{number}]"))}))
        .collect();
    for call in app.batch(json!({"calls": calls, "mode": "parallel"})).await {
        succeeded(&call);
    }
    assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), text.replace('<', "[").replace('>', "]"));
    assert_eq!(everything(folder.path()), ["f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_searches_omit_hidden_ignored_and_binary_files() {
    let (app, folder) = service(&[
        (".gitignore", "target/\n"),
        (".env", "needle"),
        ("target/x", "needle"),
        ("src/b.rs", "no\nneedle b\n"),
        ("src/a.rs", "needle a\n"),
        ("README.md", "# needle\n"),
    ])
    .await;
    fs::write(folder.path().join("bin"), b"needle\0").unwrap();
    let list = app.call("list", json!({"depth": 9})).await;
    let expected = "README.md (9 bytes)\nbin (7 bytes)\nsrc/\nsrc/a.rs (9 bytes)\nsrc/b.rs (12 bytes)";
    assert_eq!(succeeded(&list), expected);
    let search = app.call("search", json!({"pattern": "n.edle"})).await;
    let expected = "README.md:1: # needle\nsrc/a.rs:1: needle a\nsrc/b.rs:2: needle b\n\
                    [3 matching lines in 3 files; 1 file is not text]";
    assert_eq!(succeeded(&search), expected);
    let rust = app.call("search", json!({"pattern": "NEEDLE", "ignore_case": true, "glob": "src/*.rs"})).await;
    assert_eq!(succeeded(&rust).lines().count(), 3);
    let all = app.call("search", json!({"pattern": "needle", "all": true})).await;
    assert!(succeeded(&all).contains(".env:1: needle") && succeeded(&all).contains("target/x:1: needle"), "{all:#}");
    assert_eq!(violation(&app.call("search", json!({"pattern": "("})).await)["pointer"], "/pattern");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_path_is_reported_with_similar_ones() {
    let (app, _folder) = service(&[("src/main.rs", ""), ("docs/guide.md", "")]).await;
    for (name, path, expected) in [
        ("read", "src/mian.rs", "\"src/mian.rs\" was not found; did you mean \"src/main.rs\"?"),
        ("read", "guide.md", "\"guide.md\" was not found; did you mean \"docs/guide.md\"?"),
        ("read", "src", "\"src\" is a folder; list its contents with the tool `list`, as in {\"path\":\"src\"}"),
        ("list", "scr", "\"scr\" was not found; did you mean \"src\"?"),
        ("list", "src/main.rs", "\"src/main.rs\" is a file, not a folder"),
        ("write", "src", "\"src\" is a folder"),
        ("write", "src/main.rs/x", "\"src/main.rs/x\" is a file, not a folder"),
    ] {
        let mut arguments = json!({"path": path});
        if name == "write" {
            arguments["content"] = "x".into();
        }
        let call = app.call(name, arguments).await;
        let output = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(output.contains(expected), "{name} {path}: {output}");
    }
}
