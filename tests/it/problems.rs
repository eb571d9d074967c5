//! Invalid requests: every error response is a problem document (RFC 9457).

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::client::send;
use crate::support::shapes::{HARD_TEXT, names_field, points_at, succeeded};
use crate::support::{App, Backend, bounded, raw};

/// Returns `{"name":"echo","arguments":{"a":[[…]]}}` with `levels` levels of nesting in total.
fn nested(levels: usize) -> String {
    let inner = levels - 2;
    format!(r#"{{"name":"echo","arguments":{{"a":{}{}}}}}"#, "[".repeat(inner), "]".repeat(inner))
}

fn post_head(length: usize) -> String {
    format!(
        "POST /tool-calls HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_body_is_a_400() {
    let app = App::on_sqlite().await;
    for body in ["", "{", "{'name':'echo'}", "{\"name\":\"echo\"} x", "name=echo", "{\"name\":\"echo\",}"] {
        for path in ["/tool-calls", "/tools", "/tools/echo/validate"] {
            app.post_raw(path, body).await.problem(400);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_utf_8_body_is_a_400() {
    let app = App::on_sqlite().await;
    app.post_raw("/tool-calls", b"{\"name\":\"\xff\"}".as_slice()).await.problem(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_128_levels_is_read_and_deeper_json_is_a_400() {
    let app = App::on_sqlite().await;
    let deep = app.post_raw("/tool-calls", nested(128)).await;
    assert_eq!(deep.status, 200, "{}", deep.text());
    assert!(deep.text().contains(r#""status":"SUCCESS""#));
    app.post_raw("/tool-calls", nested(129)).await.problem(400);
    app.post_raw("/tool-calls", nested(100_000)).await.problem(400);
    app.post_raw("/tools", "[".repeat(1_000_000)).await.problem(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_route_is_a_404() {
    let app = App::on_sqlite().await;
    for path in ["/nowhere", "/tools/echo/nowhere", "/tool-calls/x/y/z", "/%00"] {
        app.get(path).await.problem(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_method_is_a_405_with_the_allowed_ones() {
    let app = App::on_sqlite().await;
    let cases = [
        (Method::DELETE, "/tools", vec!["GET", "POST"]),
        (Method::PUT, "/tool-calls", vec!["GET", "POST"]),
        (Method::POST, "/tools/echo", vec!["GET", "PUT", "DELETE"]),
        (Method::POST, "/stats", vec!["GET", "DELETE"]),
        (Method::GET, "/tools/echo/validate", vec!["POST"]),
        (Method::DELETE, "/events", vec!["GET"]),
        (Method::POST, "/healthz", vec!["GET"]),
    ];
    for (method, path, others) in cases {
        let answer = send(app.request(method, path)).await;
        let allow = answer.header("allow").to_owned();
        answer.problem(405);
        let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
        assert!(others.iter().all(|other| allowed.contains(other)), "{path}: {allow}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_of_another_type_is_a_415() {
    let app = App::on_sqlite().await;
    let body = json!({"name": "echo"}).to_string();
    for path in ["/tool-calls", "/tools", "/tools/echo/validate"] {
        for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/xml"] {
            let request = app.request(Method::POST, path).header("content-type", media_type).body(body.clone());
            send(request).await.problem(415);
        }
        send(app.request(Method::POST, path).body(body.clone())).await.problem(415);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_with_a_content_coding_is_a_415_that_names_the_coding() {
    let app = App::on_sqlite().await;
    app.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
    let id = app.sent(json!({"name": "ask", "wait": "accepted"})).await;
    let result = format!("/tool-calls/{id}/result");
    let cases = [
        ("/tool-calls", "application/json"),
        ("/tools", "application/json"),
        ("/tools/echo/validate", "application/json"),
        (&result, "text/plain"),
        ("/imports/openapi", "application/yaml"),
        ("/mcp", "application/json"),
        ("/tool-calls/stream", "text/event-stream"),
    ];
    for (path, media_type) in cases {
        for (encoding, named) in [("gzip", "gzip"), ("identity, br", "br"), ("X-Gzip", "X-Gzip")] {
            let request = app.request(Method::POST, path).header("content-type", media_type);
            let request = request.header("accept", "application/json, text/event-stream");
            let answer = send(request.header("content-encoding", encoding).body(&b"\x1f\x8b\x08\x00"[..])).await;
            assert_eq!(answer.header("accept-encoding"), "identity", "{path}");
            let problem = answer.problem(415);
            assert!(problem["detail"].as_str().unwrap().contains(&format!("Content-Encoding {named} ")), "{problem}");
        }
    }
    let request = app.request(Method::POST, "/tool-calls").header("content-type", "application/json");
    succeeded(&send(request.header("content-encoding", "Identity").body(r#"{"name":"echo"}"#)).await.ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn json_may_name_its_charset() {
    let app = App::on_sqlite().await;
    for media_type in ["application/json; charset=utf-8", "Application/JSON"] {
        let request = app.request(Method::POST, "/tool-calls").header("content-type", media_type);
        succeeded(&send(request.body(r#"{"name":"echo"}"#)).await.ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_over_4_mib_is_a_413_with_and_without_a_length() {
    let app = App::on_sqlite().await;
    let body = json!({"name": "echo", "arguments": {"a": "x".repeat(5 << 20)}}).to_string();
    let declared = raw::exchange(&app, &post_head(body.len()), body.as_bytes()).await;
    assert!(raw::is_problem(&declared, 413), "{declared}");

    let head = post_head(0).replace("content-length: 0", "transfer-encoding: chunked");
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let untold = raw::exchange(&app, &head, chunked.as_bytes()).await;
    assert!(raw::is_problem(&untold, 413), "{untold}");
    assert_eq!(app.get("/tool-calls").await.ok()["tool_calls"], json!([]));
}

/// Covers clients that read nothing before they have sent the full body, as many do.
#[tokio::test(flavor = "multi_thread")]
async fn rejection_reaches_a_client_that_sends_its_large_body_first() {
    let app = App::on_sqlite().await;
    let (small, large) = (3 << 20, 12 << 20);
    let head = |request: &str, length: usize| {
        format!("{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
    };
    for (head, length, status) in [
        (post_head(large), large, 413),
        (head("PATCH /tool-calls", large), large, 413),
        (head("POST /nowhere", large), large, 413),
        (head("POST /tool-calls", small), small, 415),
        (head("POST /nowhere", small), small, 404),
    ] {
        let mut connection = raw::connect(&app).await;
        let answer = bounded("the answer", async {
            connection.write_all(head.as_bytes()).await.unwrap();
            connection.write_all(&vec![b'x'; length]).await.unwrap();
            connection.shutdown().await.unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.unwrap();
            answer
        });
        let answer = answer.await;
        assert!(raw::is_problem(&answer, status), "{status}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_just_within_4_mib_is_accepted() {
    let app = App::on_sqlite().await;
    let empty = json!({"name": "echo", "arguments": {"a": ""}}).to_string().len();
    let body = json!({"name": "echo", "arguments": {"a": "x".repeat((4 << 20) - empty)}}).to_string();
    assert_eq!(body.len(), 4 << 20);
    assert_eq!(app.post_raw("/tool-calls", body).await.ok()["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_request_id() {
    let app = App::on_sqlite().await;
    for path in ["/tools", "/tool-calls", "/stats", "/healthz", "/readyz", "/openapi.json", "/docs", "/nowhere"] {
        assert!(!app.get(path).await.header("x-request-id").is_empty(), "{path}");
    }
    let answer = app.post("/tool-calls", &json!({"name": "echo"})).await;
    assert!(!answer.header("x-request-id").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_mistakes_of_one_request_are_pointed_at() {
    let app = App::on_sqlite().await;
    let body =
        json!({"name": "a b", "input_schema": {"type": "array"}, "executor": {"type": "builtin", "name": "echo"}});
    let problem = app.post("/tools", &body).await.problem(422);
    for error in problem["errors"].as_array().unwrap() {
        assert!(error["pointer"].is_string() && error["message"].is_string(), "{problem:#}");
    }
    points_at(&problem, "/");
}

#[tokio::test(flavor = "multi_thread")]
async fn problem_with_difficult_texts_is_valid_and_short() {
    let app = App::on_sqlite().await;
    let problem = app.post("/tool-calls", &json!({"name": "echo", HARD_TEXT: 1})).await.problem(422);
    names_field(&problem, "😀");
    let long = "x".repeat(1_000_000);
    let answer = app.post("/tool-calls", &json!({"name": {"a": long}})).await;
    assert!(answer.body.len() < 10_000, "{}", answer.body.len());
    answer.problem(422);
}

on_both_databases!(
    async fn problems_contain_no_secret(backend: Backend) {
        let app = App::start(backend).await;
        for path in [
            "/tools/%00",
            "/tool-calls/%00",
            "/tool-calls?name=%00&cursor=%00",
            "/tool-calls?limit=99999999999999999999",
        ] {
            let answer = app.get(path).await;
            assert!(answer.status < 500, "{path}: {}", answer.text());
            let text = answer.text().to_lowercase();
            for word in ["select ", "sqlx", "sqlite", "postgres", ".rs:", "panicked", "/tmp/"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }
);

on_both_databases!(
    async fn difficult_texts_of_a_tool_are_kept(backend: Backend) {
        let app = App::start(backend).await;
        let properties = json!({HARD_TEXT: {"type": "string", "enum": [HARD_TEXT], "description": HARD_TEXT}});
        let tool = json!({
            "name": "hard", "title": HARD_TEXT, "description": HARD_TEXT, "category": HARD_TEXT, "tags": [HARD_TEXT],
            "version": HARD_TEXT, "input_schema": {"type": "object", "properties": properties},
            "executor": {"type": "builtin", "name": "echo"},
        });
        app.register(tool.clone()).await;
        let app = app.restart().await;
        let stored = app.get("/tools/hard").await.ok();
        for (field, value) in tool.as_object().unwrap() {
            assert_eq!(&stored[field], value, "{field}");
        }
        let arguments = json!({HARD_TEXT: HARD_TEXT});
        let call = app.call("hard", arguments.clone()).await;
        assert_eq!(succeeded(&call), arguments.to_string());
        assert_eq!(call["title"], HARD_TEXT);
    }
);

on_both_databases!(
    async fn name_with_u_0000_is_not_found(backend: Backend) {
        let app = App::start(backend).await;
        app.call("echo", json!({})).await;
        for path in ["/tools/a%00b", "/tools/a%00b/stats", "/tools/a%00b/stats?window=1h"] {
            app.get(path).await.problem(404);
        }
        app.delete("/tools/a%00b/stats").await.problem(404);
        assert_eq!(app.get("/tool-calls?name=a%00b").await.ok()["tool_calls"], json!([]));
        app.get("/tool-calls?session=a%00b").await.problem(422);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn arrays_objects_and_strings_are_not_confused() {
    let app = App::on_sqlite().await;
    let tool =
        json!({"name": "t", "input_schema": {"type": "object"}, "executor": {"type": "builtin", "name": "echo"}});
    for (member, value) in [
        ("annotations", json!([true])),
        ("limits", json!([50])),
        ("executor", json!(["builtin", "echo"])),
        ("output_check", json!({"strict": null})),
    ] {
        let mut wrong = tool.clone();
        wrong[member] = value;
        let problem = app.post("/tools", &wrong).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], format!("/{member}"), "{problem}");
    }
    for (member, value) in [("limits", json!([50])), ("mode", json!({"serial": null}))] {
        let mut call = json!({"name": "echo"});
        call[member] = value;
        let problem = app.post("/tool-calls", &call).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], format!("/{member}"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn framework_rejections_are_problems() {
    let app = App::on_sqlite().await;
    app.get("/tools/%FF").await.problem(400);
    app.get("/docs/nothing-here").await.problem(404);
    app.delete("/stats?tool=echo").await.problem(422);
}
