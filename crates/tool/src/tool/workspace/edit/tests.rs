use std::fs;

use super::*;
use crate::tool::BuiltinTool;
use toolpost_core::domain::ToolOutput;

async fn edit(before: &[u8], old: &str, new: &str) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), before).unwrap();
    let tool = BuiltinTool::new(Edit(Workspace::open(folder.path()).unwrap()));
    let output = match tool.invoke(json!({"path": "f", "old_text": old, "new_text": new})).await {
        Ok(ToolOutput::Outcome(outcome)) => outcome.output,
        Ok(other) => panic!("{other:?}"),
        Err(failure) => failure.message,
    };
    (output, fs::read(folder.path().join("f")).unwrap())
}

#[tokio::test]
async fn edit_reports_changed_lines() {
    assert_eq!(edit(b"a\nb\n", "b\n", "x\ny\n").await, ("Edited f: lines 2-3".into(), b"a\nx\ny\n".into()));
    assert_eq!(edit(b"a\nb\n", "b\n", "").await, ("Edited f: line 2".into(), b"a\n".into()));
}

#[tokio::test]
async fn rejected_edit_changes_nothing() {
    for (before, old, message) in [
        (
            &b"x\ny\nx\n"[..],
            "x",
            "old_text occurs 2 times in \"f\" (lines 1, 3) and must occur exactly once: include more of the surrounding \
             lines",
        ),
        (
            b"let a = 1;\n",
            "let b = 1;",
            "old_text was not found in \"f\"; this is the closest match (line 1):\n1: let a = 1;",
        ),
        (b"ok\n\xff\n", "ok", "\"f\" is not UTF-8 (line 2), so its text cannot be edited"),
        (b"x", "new", "old_text was not found in \"f\"; no similar text was found: read the file again"),
    ] {
        assert_eq!(edit(before, old, "new!").await, (message.into(), before.into()));
    }
    assert_eq!(edit(b"x", "x", "x").await.0, "Invalid parameters for tool \"edit\"");
}
