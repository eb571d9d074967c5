//! `toolpost import openapi`: files, URLs and standard input into the database, a file or a running service.

use serde_json::json;

use crate::cli::program::{Home, Program};
use crate::support::{Answer, HttpTool};

const SMALL: &str = "openapi: 3.0.0\ninfo: {title: Small}\npaths:\n  /a: {get: {operationId: a, tags: [x]}}\n  \
    /b: {post: {operationId: b, requestBody: {content: {multipart/form-data: {}}}}}\n";

#[test]
fn document_is_tried_registered_and_found() {
    let home = Home::new();
    let file = home.file("small.yaml", SMALL);
    let import =
        |more: &[&str]| home.run(&[&["import", "openapi", &file, "--server", "https://h.example/v1"], more].concat());
    let dry = import(&["--dry-run"]);
    assert_eq!(dry.code, Some(1), "{dry:?}");
    assert!(
        dry.out.contains("created  a")
            && dry.out.contains("refused  POST /b")
            && dry.out.contains("multipart/form-data"),
        "{dry:?}"
    );
    assert!(dry.out.ends_with("Small: 1 created, 1 refused (nothing was changed: --dry-run)\n"), "{dry:?}");
    assert_eq!(home.run(&["tools", "show", "a"]).code, Some(2));

    let done = import(&["--only", "x", "--auth", "bearer:TOKEN", "--json"]);
    assert_eq!((done.code, &done.json()["created"]), (Some(0), &json!(["a"])), "{done:?}");
    let shown = home.run(&["tools", "show", "a", "--json"]).json();
    assert_eq!((&shown["source"], &shown["executor"]["url"]), (&json!("api"), &json!("https://h.example/v1/a")));
    assert_eq!(shown["executor"]["auth"]["token"]["secret"], "TOKEN");
    let again = import(&["--only", "x", "--json"]);
    assert_eq!(again.code, Some(1), "another tool is not replaced unasked");
    let replaced = import(&["--only", "x", "--replace", "--json"]).json();
    assert_eq!(replaced["replaced"], json!(["a"]));
}

#[test]
fn definitions_can_be_written_as_a_file_of_the_tools_folder() {
    let home = Home::new();
    let folder = home.path().join("tools");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("small.json").display().to_string();
    let ended = home.run_with_input(
        &["import", "openapi", "-", "--server", "https://h.example", "--prefix", "s", "--out", &file],
        SMALL,
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let checked = home.run(&["tools", "validate", &file]);
    assert_eq!((checked.code, checked.out.contains("ok (s_a)")), (Some(0), true), "{checked:?}");
    let out = home.run_with_input(
        &["import", "openapi", "-", "--server", "https://h.example", "--only", "a", "--out", "-"],
        SMALL,
    );
    assert_eq!((out.code, &out.json()[0]["name"]), (Some(0), &json!("a")), "{out:?}");
    assert!(out.err.contains("1 created"), "{out:?}");
    let listed = home.run(&["tools", "list", "--tools", "tools"]);
    assert!(
        listed.out.lines().any(|line| line.starts_with("s_a ") && line.contains("http GET https://h.example/a")),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn url_is_read_and_a_running_service_registers() {
    let server = HttpTool::start("127.0.0.1", |request| match request.target.as_str() {
        "/docs/api.yaml" => Answer::body("application/yaml", SMALL),
        _ => Answer::status(404, "text/plain", "no"),
    })
    .await;
    let (url, nowhere) = (server.url("/docs/api.yaml"), server.url("/nowhere"));
    let base = server.url("/a");
    let steps = tokio::task::spawn_blocking(move || {
        let home = Home::new();
        let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
        let line = service.out("toolpost listening on ");
        let address = line.trim_start_matches("toolpost listening on ").trim().to_owned();
        let done = home.run(&["import", "openapi", &url, "--to", &address, "--json"]);
        assert_eq!((done.code, &done.json()["created"]), (Some(1), &json!(["a"])), "{done:?}");
        let shown = home.run(&["tools", "show", "a", "--json"]).json();
        // The document names no server, so its own address is used.
        assert_eq!(shown["executor"]["url"], base);
        let refused = home.run(&["import", "openapi", &url, "--to", &address, "--only", "nobody"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("HTTP 422") && refused.err.contains("nobody"), "{refused:?}");
        service.signal("TERM");
        assert_eq!(service.end().code, Some(0));
        let gone = home.run(&["import", "openapi", &url, "--to", &address]);
        assert_eq!(gone.code, Some(3), "{gone:?}");
        let missing = home.run(&["import", "openapi", &nowhere]);
        assert_eq!((missing.code, missing.err.contains("answered HTTP 404")), (Some(3), true), "{missing:?}");
    });
    steps.await.unwrap();
}

#[test]
fn failed_import_is_exit_code_2_with_a_hint() {
    let home = Home::new();
    let file = home.file("small.yaml", SMALL);
    let broken = home.file("broken.json", "{\"openapi\": ");
    let other = home.file("other.yaml", "a: 1\n");
    for (words, expected) in [
        (vec![file.as_str()], "--server: the document names no server: set its URL with `server` (--server URL)"),
        (vec![&file, "--server", "h.example"], "--server: must be an http:// or https:// URL"),
        (vec![&file, "--server", "https://h", "--only", "c"], "--only: \"c\" is not a tag"),
        (vec![&file, "--auth", "sk-live-123"], "never its value"),
        (vec![&broken], "not valid JSON"),
        (vec![&other], "not an OpenAPI document"),
        (vec!["nowhere.yaml"], "cannot read nowhere.yaml"),
        (vec![&file, "--out", "x.json", "--to", "http://h"], "cannot be used with"),
    ] {
        let ended = home.run(&[vec!["import", "openapi"], words.clone()].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{words:?}: {ended:?}");
    }
}
