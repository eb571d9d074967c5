//! Redirects: their targets, and the headers that are sent along.

use super::*;

fn redirect(status: u16, location: &str) -> Vec<u8> {
    response(&format!("{status} R\r\nlocation: {location}"), "")
}

/// Starts a server that redirects `/start` to `location` and responds to all other paths.
async fn redirecting(status: u16, location: String) -> TestServer {
    TestServer::start(move |request| match request.target.as_str() {
        "/start" => redirect(status, &location),
        _ => response("200 OK\r\ncontent-type: text/plain", "arrived"),
    })
    .await
}

fn spec(server: &TestServer, method: &str) -> Value {
    json!({"url": server.url("/start"), "method": method, "headers": {"x-key": "k"},
        "auth": {"type": "bearer", "token": {"secret": "KEY"}}})
}

#[tokio::test]
async fn get_follows_all_redirects_and_keeps_headers_within_the_origin() {
    for status in [301, 302, 303, 307, 308] {
        let mut server = redirecting(status, "/end?x=1#f".into()).await;
        assert_eq!(run(spec(&server, "GET"), json!({})).await, Ok(ToolOutput::Text("arrived".into())));
        server.received.recv().await.unwrap();
        let second = server.received.recv().await.unwrap();
        assert_eq!((second.method.as_str(), second.target.as_str()), ("GET", "/end?x=1"));
        assert_eq!(second.text_header("authorization").as_deref(), Some("Bearer s3cret-value"));
        assert_eq!(second.text_header("x-key").as_deref(), Some("k"));
    }
}

#[tokio::test]
async fn another_origin_gets_no_credentials_and_no_declared_headers() {
    let mut other = TestServer::answering(response("200 OK", "there")).await;
    let away = format!("http://user:pass@127.0.0.1:{}/end", other.port);
    let mut server = redirecting(302, away).await;
    assert_eq!(run(spec(&server, "GET"), json!({})).await, Ok(ToolOutput::Text("there".into())));
    assert!(server.received.recv().await.unwrap().header("authorization").is_some());
    let second = other.received.recv().await.unwrap();
    for name in ["authorization", "x-key", "idempotency-key", "referer", "cookie"] {
        assert_eq!(second.header(name), None, "{name}");
    }
    assert!(second.header("accept").is_some());
}

#[tokio::test]
async fn post_is_repeated_by_307_and_308_and_becomes_a_get_otherwise() {
    for status in [307, 308] {
        let mut server = redirecting(status, "/end".into()).await;
        assert!(run(spec(&server, "POST"), json!({"a": 1})).await.is_ok());
        let first = server.received.recv().await.unwrap();
        let second = server.received.recv().await.unwrap();
        assert_eq!((second.method.as_str(), &second.body), ("POST", &first.body));
    }
    for status in [301, 302, 303] {
        let mut server = redirecting(status, "/end".into()).await;
        assert!(run(spec(&server, "POST"), json!({"a": 1})).await.is_ok());
        server.received.recv().await.unwrap();
        let second = server.received.recv().await.unwrap();
        assert_eq!((second.method.as_str(), second.body.len(), second.header("content-type")), ("GET", 0, None));
    }
}

#[tokio::test]
async fn nothing_of_a_call_is_sent_to_another_origin() {
    for (status, method) in [(307, "POST"), (308, "POST"), (301, "PUT"), (302, "PATCH"), (307, "DELETE")] {
        let mut other = TestServer::answering(response("200 OK", "there")).await;
        let server = redirecting(status, other.url("/new")).await;
        // `DELETE` has its arguments in the query.
        let arguments = if method == "DELETE" { json!({}) } else { json!({"a": 1}) };
        let failure = run(spec(&server, method), arguments).await.unwrap_err();
        for port in [server.port, other.port] {
            assert!(failure.message.contains(&format!("http://127.0.0.1:{port}")), "{}", failure.message);
        }
        assert!(!failure.retryable, "{method}");
        assert!(other.received.try_recv().is_err(), "{method}");
    }
    // A redirect that drops the body leaves nothing to send.
    for status in [301, 302, 303] {
        let mut other = TestServer::answering(response("200 OK", "there")).await;
        let server = redirecting(status, other.url("/new")).await;
        assert_eq!(run(spec(&server, "POST"), json!({"a": 1})).await, Ok(ToolOutput::Text("there".into())));
        let second = other.received.recv().await.unwrap();
        assert_eq!((second.method.as_str(), second.body.len(), second.header("x-key")), ("GET", 0, None));
    }
}

#[tokio::test]
async fn every_target_passes_the_guard() {
    for (location, expected) in [
        ("http://169.254.169.254/latest/meta-data/", "address 169.254.169.254 is not allowed"),
        ("http://127.2.3.4/", "address 127.2.3.4 is not allowed"),
        ("//0x7f000002/", "address 127.0.0.2 is not allowed"),
        ("http://[::ffff:10.0.0.1]/", "address 10.0.0.1 is not allowed"),
        ("http://[::1]/", "address ::1 is not allowed"),
        ("file:///etc/passwd", "redirects to an invalid web address"),
        ("gopher://x/", "redirects to an invalid web address"),
        ("http://[broken/", "redirects to an invalid web address"),
    ] {
        let server = redirecting(302, location.into()).await;
        let failure = run(spec(&server, "GET"), json!({})).await.unwrap_err();
        assert!(failure.message.contains(expected), "{location}: {}", failure.message);
        assert_eq!((failure.retryable, &failure.details.unwrap()["request_sent"]), (false, &json!(true)));
    }
    // An allowed name does not allow a literal address.
    let server = redirecting(302, "/end".into()).await;
    let to_number = redirecting(302, server.url("/end")).await;
    let by_name = json!({"url": format!("http://localhost:{}/start", to_number.port), "method": "GET"});
    let failure = executor(by_name, client(&["localhost"])).execute(invocation(json!({}))).await.unwrap_err();
    assert!(failure.message.starts_with("a redirect was not followed: address 127.0.0.1 is not allowed"));
}

#[tokio::test]
async fn redirect_loop_ends_after_five() {
    let mut server = redirecting(302, "/start".into()).await;
    let failure = run(spec(&server, "GET"), json!({})).await.unwrap_err();
    assert!(failure.message.starts_with("more than 5 redirects"), "{}", failure.message);
    let mut requests = 0;
    while server.received.try_recv().is_ok() {
        requests += 1;
    }
    assert_eq!(requests, 6);
}
