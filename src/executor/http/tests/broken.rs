//! Servers that do not keep to the rules, and callers that go away.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::super::test_server::read_request;
use super::*;

fn plain(failure: &Failure) {
    for inside in ["reqwest", "hyper", "Error {", "Custom", "os error", "\n"] {
        assert!(!failure.message.contains(inside), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_may_be_tried_again_but_the_tool_may_have_seen_it() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let failure = failure_of(answer).await;
        assert!(failure.message.ends_with(" closed the connection without an answer"), "{}", failure.message);
        assert!(failure.retryable && !failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], true);
        plain(&failure);
    }
}

#[tokio::test]
async fn a_broken_answer_is_told_in_plain_words_and_not_asked_for_again() {
    for (answer, said) in [
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "answered with something that is not HTTP"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "closed the connection before its answer was complete"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "closed the connection before its answer was"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "closed the connection before its answer was"),
    ] {
        let failure = failure_of(answer).await;
        assert!(failure.message.starts_with("127.0.0.1:") && failure.message.contains(said), "{}", failure.message);
        assert!(!failure.retryable && !failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], true);
        plain(&failure);
    }
}

#[tokio::test]
async fn a_connection_that_never_came_about_may_be_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let no_tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_tls_port = no_tls.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = no_tls.accept().await.unwrap();
        stream.write_all(b"220 mail.example.com ESMTP\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
    });
    for (url, said) in [
        (format!("http://127.0.0.1:{port}/"), "refused the connection"),
        ("http://no-such-host.invalid/".to_owned(), "the host name of no-such-host.invalid cannot be resolved"),
        (format!("https://127.0.0.1:{no_tls_port}/"), "TLS with 127.0.0.1:"),
    ] {
        let failure = run(json!({"url": url}), json!({})).await.unwrap_err();
        assert!(failure.message.contains(said), "{}", failure.message);
        assert!(failure.retryable && failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], false);
        plain(&failure);
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused_by_its_announced_length() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", MAX_ANSWER_BYTES + 1);
    assert_eq!(failure_of(head).await.message, "the answer is larger than 16777216 bytes (16 MiB)");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off_and_its_connection_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).await.is_ok() {}
    });
    let failure = run(json!({"url": format!("http://127.0.0.1:{port}/")}), json!({})).await.unwrap_err();
    assert_eq!(failure.message, "the answer is larger than 16777216 bytes (16 MiB)");
    // Ends only when the other side is gone.
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_a_redirect_leads_to_and_that_is_not_there_is_no_proof_that_nothing_was_sent() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let failure = failure_of(response(&format!("307 There\r\nlocation: http://127.0.0.1:{port}/"), "")).await;
    assert!(failure.message.contains("refused the connection"), "{}", failure.message);
    assert!(failure.retryable && !failure.not_sent);
}

#[tokio::test]
async fn a_dropped_run_closes_its_connection() {
    for begun in [b"".as_slice(), b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arrived, arrival) = oneshot::channel();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await.unwrap();
            stream.write_all(begun).await.unwrap();
            arrived.send(()).unwrap();
            // 0 is the end of the stream; a reset says the same.
            stream.read(&mut [0; 1]).await.unwrap_or(0)
        });
        // The client outlives the run, as it does in the service: only the run's own connection may go.
        let client = client(&["127.0.0.1"]);
        let spec = json!({"url": format!("http://127.0.0.1:{port}/")});
        let running = tokio::spawn(executor(spec, client.clone()).execute(invocation(json!({}))));
        arrival.await.unwrap();
        running.abort();
        assert_eq!(server.await.unwrap(), 0);
        drop(client);
    }
}
