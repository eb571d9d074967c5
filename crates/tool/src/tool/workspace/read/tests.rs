use std::fs;

use super::*;
use crate::tool::BuiltinTool;
use serde_json::Value;
use toolpost_core::domain::ToolOutput;

fn folder() -> (tempfile::TempDir, BuiltinTool) {
    let folder = tempfile::tempdir().unwrap();
    let tool = BuiltinTool::new(Read(Workspace::open(folder.path()).unwrap()));
    (folder, tool)
}

async fn read(tool: &BuiltinTool, arguments: Value) -> Outcome {
    match tool.invoke(arguments).await {
        Ok(ToolOutput::Outcome(outcome)) => *outcome,
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Outcome::failed(failure),
    }
}

#[tokio::test]
async fn text_is_returned_unchanged() {
    let (folder, tool) = folder();
    for text in ["", "a\r\nb", "\u{feff}naïve 😀\n", "a\tb\n\n"] {
        fs::write(folder.path().join("f"), text).unwrap();
        let outcome = read(&tool, json!({"path": "f"})).await;
        assert_eq!((outcome.output.as_str(), outcome.is_error()), (text, false));
    }
    fs::write(folder.path().join("f"), "1\n2\n3\n4\n").unwrap();
    let outcome = read(&tool, json!({"path": "./f", "lines": {"start": 2, "end": 3}})).await;
    assert_eq!(outcome.output, "2\n3\n");
    assert_eq!(
        (&outcome.details["path"], &outcome.details["start"], &outcome.details["end"]),
        (&json!("f"), &json!(2), &json!(3))
    );
    assert_eq!(read(&tool, json!({"path": "f", "lines": {"end": 1}})).await.output, "1\n");
}

#[tokio::test]
async fn unreadable_files_are_reported_with_a_hint() {
    let (folder, tool) = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("latin"), b"ok\ncaf\xe9\n").unwrap();
    fs::write(folder.path().join("bin"), b"\x7fELF\0\0").unwrap();
    fs::write(folder.path().join("short"), "one\n").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let of = "Error executing tool \"read\": ";
    for (arguments, message) in [
        (json!({"path": "d"}), "\"d\" is a folder; list its contents with the tool `list`, as in {\"path\":\"d\"}"),
        (json!({"path": "latin"}), "\"latin\" is not UTF-8: line 2 contains the invalid byte 0xe9"),
        (json!({"path": "bin"}), "\"bin\" is a binary file of 6 bytes, which has no text to read"),
        (json!({"path": "pipe"}), "\"pipe\" is a pipe, a socket or a device, not a regular file"),
        (json!({"path": "short", "lines": {"start": 5}}), "line 5 is past the end of \"short\" (1 line)"),
        (json!({"path": "shrot"}), "\"shrot\" was not found; did you mean \"short\"?"),
    ] {
        assert_eq!(read(&tool, arguments).await.output, format!("{of}{message}"));
    }
    let turned = read(&tool, json!({"path": "short", "lines": {"start": 5, "end": 2}})).await.output;
    assert!(turned.ends_with("- /lines/end: is before the first line, 5"), "{turned}");
}

#[tokio::test]
async fn large_file_is_read_in_parts() {
    let (folder, tool) = folder();
    let line = format!("{}\n", "é".repeat(511));
    fs::write(folder.path().join("large"), line.repeat(3000)).unwrap();
    let outcome = read(&tool, json!({"path": "large"})).await;
    let lines = MAX_BYTES / line.len();
    let notice = format!("continue with {{\"path\":\"large\",\"lines\":{{\"start\":{}}}}}]\n", lines + 1);
    assert!(outcome.output.ends_with(&notice), "{}", &outcome.output[outcome.output.len() - 200..]);
    assert_eq!(outcome.output.matches(&line).count(), lines);
    let last = read(&tool, json!({"path": "large", "lines": {"start": 2999}})).await;
    assert_eq!((last.output, &last.details["total_lines"]), (line.repeat(2), &json!(3000)));
    fs::write(folder.path().join("one"), "é".repeat(MAX_BYTES)).unwrap();
    let outcome = read(&tool, json!({"path": "one"})).await;
    assert!(outcome.output.ends_with("line 1 alone is longer than that]\n"));
}

#[tokio::test]
async fn image_is_returned_as_image() {
    let (folder, tool) = folder();
    let mut png = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(2, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
    fs::write(folder.path().join("dot"), png.get_ref()).unwrap();
    let outcome = read(&tool, json!({"path": "dot"})).await;
    let data = STANDARD.encode(png.get_ref());
    assert_eq!(outcome.content, [ContentBlock::Image { data, mime_type: "image/png".into() }]);
}

#[test]
fn schema_describes_lines() {
    let definition = BuiltinTool::new(Read(Workspace::open(tempfile::tempdir().unwrap().path()).unwrap())).definition;
    let schema = definition.input_schema.to_string();
    assert!(!schema.contains("$ref") && schema.contains("counted from 1"), "{schema}");
    assert_eq!(definition.limits.truncate, Some(Truncate::Head));
}
