//! Posted results: after a 202, and before or in place of the response.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::super::test_server::read_request;
use super::*;
use crate::executor::emitter::{Report, ReportReceiver};
use crate::executor::result_slot::PostOutcome;
use toolpost_core::domain::Phase;
use toolpost_core::domain::call::StatusUpdate;

/// A run with its result slot and its reports.
struct Running {
    run: JoinHandle<Result<ToolOutput, Failure>>,
    slot: ResultSlot,
    reports: ReportReceiver,
    client: HttpClient,
}

fn start(spec: Value) -> Running {
    let client = client(&["127.0.0.1"]);
    let (emitter, reports) = emitter::channel();
    let invocation = Invocation { emitter, ..invocation(json!({})) };
    let slot = invocation.result_slot.clone();
    Running { run: tokio::spawn(executor(spec, client.clone()).execute(invocation)), slot, reports, client }
}

fn text(text: &str) -> ToolOutput {
    ToolOutput::Text(text.into())
}

/// Starts a server that returns its connection once it has read the request.
async fn connection() -> (String, JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let accepted = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream
    });
    (url, accepted)
}

/// Waits for the other side to close.
async fn closed(stream: &mut TcpStream) {
    // A reset counts as the end of the stream.
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn after_a_202_the_result_is_awaited_and_its_body_is_ignored() {
    for (method, body) in [("POST", "{\"error\":\"not really\"}".to_owned()), ("GET", "x".repeat(300_000))] {
        let server = TestServer::answering(response("202 Accepted\r\ncontent-type: application/json", body)).await;
        let mut running = start(json!({"url": server.url("/"), "method": method}));
        let external = StatusUpdate { phase: Some(Phase::External), ..StatusUpdate::default() };
        assert_eq!(running.reports.next().await, Report::Status(external));
        assert!(!running.run.is_finished());
        assert_eq!(running.slot.post(ToolOutput::Json(json!({"n": 1}))), PostOutcome::Accepted);
        assert_eq!(running.run.await.unwrap(), Ok(ToolOutput::Json(json!({"n": 1}))));
        assert_eq!(running.slot.post(ToolOutput::Nothing), PostOutcome::TooLate);
    }
}

#[tokio::test]
async fn endless_body_of_a_202_does_not_delay_the_call() {
    let (url, accepted) = connection().await;
    let mut running = start(json!({"url": url}));
    let mut stream = accepted.await.unwrap();
    stream.write_all(b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await.unwrap();
    assert!(matches!(running.reports.next().await, Report::Status(StatusUpdate { phase: Some(Phase::External), .. })));
    assert_eq!(running.slot.post(text("posted")), PostOutcome::Accepted);
    assert_eq!(running.run.await.unwrap(), Ok(text("posted")));
    closed(&mut stream).await;
}

#[tokio::test]
async fn posted_result_wins_and_closes_the_connection() {
    for begun in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: progress\ndata: x\n\n",
        "HTTP/1.1 500 Oops\r\ncontent-length: 10\r\n\r\nabc",
    ] {
        let (url, accepted) = connection().await;
        let running = start(json!({"url": url}));
        let mut stream = accepted.await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        assert_eq!(running.slot.post(text("posted")), PostOutcome::Accepted);
        assert_eq!(running.run.await.unwrap(), Ok(text("posted")), "{begun:?}");
        closed(&mut stream).await;
        drop(running.client);
    }
}

#[tokio::test]
async fn response_before_a_posted_result_is_the_result() {
    for (head, answer) in [("200 OK\r\ncontent-type: text/plain", text("answer")), ("204 None", ToolOutput::Nothing)] {
        let body = if answer == ToolOutput::Nothing { "" } else { "answer" };
        let server = TestServer::answering(response(head, body)).await;
        let running = start(json!({"url": server.url("/")}));
        assert_eq!(running.run.await.unwrap(), Ok(answer));
        assert_eq!(running.slot.post(text("posted")), PostOutcome::TooLate, "{head}");
    }
}

#[tokio::test]
async fn late_result_ends_the_next_attempt_without_a_request() {
    let mut server = TestServer::answering(response("503 Busy", "")).await;
    let executor = executor(json!({"url": server.url("/")}), client(&["127.0.0.1"]));
    let call = invocation(json!({}));
    assert!(executor.execute(call.clone()).await.unwrap_err().retryable);
    assert!(server.received.recv().await.is_some());
    assert_eq!(call.result_slot.post(text("posted")), PostOutcome::Accepted);
    assert_eq!(executor.execute(call.clone()).await, Ok(text("posted")));
    assert!(server.received.try_recv().is_err(), "no second request");
}

#[tokio::test]
async fn repeated_run_can_have_a_result() {
    let server = TestServer::answering(response("200 OK\r\ncontent-type: text/plain", "answer")).await;
    let executor = executor(json!({"url": server.url("/")}), client(&["127.0.0.1"]));
    let call = invocation(json!({}));
    for _ in 0..2 {
        assert_eq!(executor.execute(call.clone()).await, Ok(text("answer")));
    }
}

#[tokio::test]
async fn accepted_202_fails_if_results_cannot_be_posted() {
    let server = TestServer::answering(response("202 Accepted", "")).await;
    let client = client_without_service(&["127.0.0.1"]);
    let failure = executor(json!({"url": server.url("/")}), client).execute(invocation(json!({}))).await.unwrap_err();
    assert!(failure.message.starts_with("the server answered 202 Accepted, but"), "{}", failure.message);
    assert!(!failure.retryable && !failure.not_sent);
}
