//! Servers that violate the protocol, and callers that disconnect.

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
async fn connection_closed_without_a_response_is_retryable_but_sent() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let failure = failure_of(answer).await;
        assert!(failure.message.ends_with(" closed the connection without a response"), "{}", failure.message);
        assert!(failure.retryable && !failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], true);
        plain(&failure);
    }
}

#[tokio::test]
async fn broken_response_is_not_retryable() {
    for (answer, expected) in [
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "answered with invalid HTTP"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "closed the connection before the response was complete"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
            "closed the connection before the response was",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "closed the connection before the response was",
        ),
    ] {
        let failure = failure_of(answer).await;
        assert!(failure.message.starts_with("127.0.0.1:") && failure.message.contains(expected), "{}", failure.message);
        assert!(!failure.retryable && !failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], true);
        plain(&failure);
    }
}

#[tokio::test]
async fn failed_connection_is_retryable() {
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
    for (url, expected) in [
        (format!("http://127.0.0.1:{port}/"), "refused the connection"),
        ("http://no-such-host.invalid/".to_owned(), "the host name of no-such-host.invalid cannot be resolved"),
        (format!("https://127.0.0.1:{no_tls_port}/"), "TLS with 127.0.0.1:"),
    ] {
        let failure = run(json!({"url": url}), json!({})).await.unwrap_err();
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert!(failure.retryable && failure.not_sent);
        assert_eq!(failure.details.as_ref().unwrap()["request_sent"], false);
        plain(&failure);
    }
}

#[tokio::test]
async fn response_over_the_limit_is_rejected_by_its_announced_length() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", MAX_ANSWER_BYTES + 1);
    assert_eq!(failure_of(head).await.message, "the response is larger than 16777216 bytes (16 MiB)");
}

#[tokio::test]
async fn endless_response_is_cut_off_and_its_connection_dropped() {
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
    assert_eq!(failure.message, "the response is larger than 16777216 bytes (16 MiB)");
    // Ends only when the other side has closed the connection.
    server.await.unwrap();
}

#[tokio::test]
async fn unreachable_redirect_target_counts_as_sent() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let failure = failure_of(response(&format!("307 There\r\nlocation: http://127.0.0.1:{port}/"), "")).await;
    assert!(failure.message.contains("refused the connection"), "{}", failure.message);
    assert!(failure.retryable && !failure.not_sent);
}

#[tokio::test]
async fn dropped_run_closes_its_connection() {
    for begun in [b"".as_slice(), b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arrived, arrival) = oneshot::channel();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await.unwrap();
            stream.write_all(begun).await.unwrap();
            arrived.send(()).unwrap();
            // A read of 0 is the end of the stream; a reset counts as the end, too.
            stream.read(&mut [0; 1]).await.unwrap_or(0)
        });
        // The client outlives the run, as in the service: only the connection of the run may be closed.
        let client = client(&["127.0.0.1"]);
        let spec = json!({"url": format!("http://127.0.0.1:{port}/")});
        let running = tokio::spawn(executor(spec, client.clone()).execute(invocation(json!({}))));
        arrival.await.unwrap();
        running.abort();
        assert_eq!(server.await.unwrap(), 0);
        drop(client);
    }
}
