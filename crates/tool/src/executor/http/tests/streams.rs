//! Responses that are event streams.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::test_server::read_request;
use super::*;
use crate::executor::emitter::{Report, ReportReceiver};
use toolpost_core::domain::ContentBlock;

const HEAD: &str = "200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8";

/// Runs a tool whose server sends this stream; returns the result and the reports.
async fn streamed(stream: impl AsRef<[u8]>) -> (Result<ToolOutput, Failure>, Vec<Report>) {
    let server = TestServer::answering(response(HEAD, stream)).await;
    let (emitter, mut reports) = emitter::channel();
    let invocation = Invocation { emitter, ..invocation(json!({})) };
    let ended = executor(json!({"url": server.url("/")}), client(&["127.0.0.1"])).execute(invocation).await;
    (ended, std::iter::from_fn(|| reports.take()).collect())
}

async fn answer_of(stream: impl AsRef<[u8]>) -> ToolOutput {
    streamed(stream).await.0.unwrap()
}

async fn message_of(stream: impl AsRef<[u8]>) -> String {
    let failure = streamed(stream).await.0.unwrap_err();
    assert!(!failure.retryable && !failure.not_sent);
    failure.message
}

#[tokio::test]
async fn result_is_json_or_text_or_nothing() {
    for (data, answer) in [
        ("data: {\"a\":\ndata: 1}", ToolOutput::Json(json!({"a": 1}))),
        ("data: \"text\"", ToolOutput::Json(json!("text"))),
        ("data: null", ToolOutput::Json(Value::Null)),
        ("data: two\ndata:  lines é\u{0}😀", ToolOutput::Text("two\n lines é\u{0}😀".into())),
        ("data: \u{feff}x", ToolOutput::Text("\u{feff}x".into())),
        ("data: {broken", ToolOutput::Text("{broken".into())),
        ("data", ToolOutput::Nothing),
    ] {
        assert_eq!(answer_of(format!("event: result\n{data}\n\n")).await, answer, "{data}");
    }
    let long = "123456789012345678901234567890";
    let ToolOutput::Outcome(kept) = answer_of(format!("event: result\ndata: {long}\n\n")).await else {
        panic!("no text")
    };
    assert_eq!((kept.output.as_str(), kept.details.contains_key("note")), (long, true));
}

#[tokio::test]
async fn progress_is_reported_in_order_and_the_first_result_counts() {
    let stream = "\u{feff}: hello\r\n\r\nevent: progress\r\ndata: {\"tip\":\"one\",\"progress\":{\"current\":1}}\r\n\r\n\
        event: progress\rdata: half\rdata: way\r\revent: progress\ndata: \"a \\\"quoted\\\" text\"\n\nevent: progress\ndata: 42\n\n\
        event: other\ndata: x\n\ndata: unnamed\n\nevent: progress\ndata: {\"content\":[{\"type\":\"x\"}],\"details\":{\"d\":1}}\n\n\
        event: result\ndata: first\n\nevent: result\ndata: second\n\nevent: progress\ndata: late\n\n";
    let (ended, reports) = streamed(stream).await;
    assert_eq!(ended, Ok(ToolOutput::Text("first".into())));
    let [Report::Status(status), shown @ ..] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(
        (status.tip.as_deref(), status.progress.as_ref().map(|progress| progress.current)),
        (Some("one"), Some(1.0))
    );
    let shown: Vec<Value> = shown
        .iter()
        .map(|report| match report {
            Report::Emission(emission) => json!([emission.content, emission.details]),
            Report::Status(_) => panic!("{reports:?}"),
        })
        .collect();
    let text = |text: &str| json!([[ContentBlock::Text(text.into())], {}]);
    let typed = json!([[{"type": "x"}], {"d": 1}]);
    assert_eq!(shown, [text("half\nway"), text("a \"quoted\" text"), text("42"), typed]);
}

#[tokio::test]
async fn invalid_progress_is_shown_and_does_not_end_the_run() {
    let long = "x".repeat(5000);
    let mut stream =
        format!("event: progress\ndata: {{\"tipp\":\"x\"}}\n\nevent: progress\ndata: {{\"{long}\":1}}\n\n")
            .into_bytes();
    stream.extend_from_slice(b"event: progress\ndata: \xff\n\nevent: progress\ndata\n\nevent: result\ndata: ok\n\n");
    let (ended, reports) = streamed(stream).await;
    assert_eq!(ended, Ok(ToolOutput::Text("ok".into())));
    let [Report::Emission(typo), Report::Emission(large), Report::Emission(binary)] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!(typo.details["invalid_progress"]["pointer"], "/tipp");
    assert!(typo.details["invalid_progress"]["message"].as_str().unwrap().starts_with("unknown field `tipp`"));
    assert!(json!(large.details).to_string().len() < 1500);
    assert_eq!(binary.details["invalid_progress"]["message"], "is not valid UTF-8");
}

#[tokio::test]
async fn stream_without_a_result_is_a_failure() {
    for stream in ["", ": only a comment\n\n", "data: {\"output\":\"x\"}\n\n", "event: result\n\n"] {
        assert_eq!(message_of(stream).await, "the event stream ended without a `result` event", "{stream:?}");
    }
    let unended = message_of("event: result\ndata: x\n").await;
    assert_eq!(
        unended,
        "the event stream ended without a `result` event; its last event was not terminated by a blank line"
    );
    let cut_off = format!("HTTP/1.1 {HEAD}\r\ncontent-length: 100\r\n\r\nevent: progress\ndata: x\n\n");
    let failure = failure_of(cut_off).await;
    assert!(failure.message.ends_with("closed the connection before the response was complete"), "{}", failure.message);
    assert!(!failure.retryable);
}

#[tokio::test]
async fn error_event_is_the_tools_own_error() {
    for (data, message) in [
        ("data: no ink", "no ink".to_owned()),
        ("data: {\"message\":\"no ink\"}", "no ink".to_owned()),
        ("data: {\"error\":{\"message\":\"no ink\"}}", "no ink".to_owned()),
        ("data", "the tool reported an error without a message".to_owned()),
        (&*format!("data: {}", "é".repeat(600)), format!("{}…", "é".repeat(500))),
    ] {
        assert_eq!(message_of(format!("event: error\n{data}\n\nevent: result\ndata: x\n\n")).await, message);
    }
}

#[tokio::test]
async fn result_with_invalid_utf8_is_rejected() {
    assert_eq!(message_of(b"event: result\ndata: \xff\n\n").await, "the `result` event is not valid UTF-8");
}

#[tokio::test]
async fn result_of_the_maximum_size_is_read_and_a_larger_one_is_rejected() {
    let full = "x".repeat(MAX_ANSWER_BYTES);
    assert_eq!(answer_of(format!("event: result\ndata: {full}\n\n")).await, ToolOutput::Text(full.clone()));
    let message = "the response is larger than 16777216 bytes (16 MiB)";
    assert_eq!(message_of(format!("event: result\ndata: {full}x\n\n")).await, message);
    assert_eq!(message_of(format!("event: result\ndata: {full}{full}\n\n")).await, message);
}

/// Starts a run whose stream the test writes; returns the connection, the run and its reports.
async fn open_stream()
-> (tokio::net::TcpStream, tokio::task::JoinHandle<Result<ToolOutput, Failure>>, ReportReceiver, HttpClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = client(&["127.0.0.1"]);
    let (emitter, reports) = emitter::channel();
    let invocation = Invocation { emitter, ..invocation(json!({})) };
    let run = tokio::spawn(executor(json!({"url": url}), client.clone()).execute(invocation));
    let (mut stream, _) = listener.accept().await.unwrap();
    read_request(&mut stream).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await.unwrap();
    (stream, run, reports, client)
}

#[tokio::test]
async fn progress_is_reported_immediately_and_the_result_closes_the_connection() {
    let (mut stream, run, mut reports, client) = open_stream().await;
    for text in ["one", "two"] {
        stream.write_all(format!("event: progress\ndata: {text}\n").as_bytes()).await.unwrap();
        assert_eq!(reports.take(), None);
        stream.write_all(b"\n").await.unwrap();
        let Report::Emission(emission) = reports.next().await else { panic!("an emission") };
        assert_eq!(emission.content, [ContentBlock::Text(text.into())]);
    }
    stream.write_all(b"event: result\ndata: done\n\n").await.unwrap();
    assert_eq!(run.await.unwrap(), Ok(ToolOutput::Text("done".into())));
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "closed, although the server would continue");
    drop(client);
}

#[tokio::test]
async fn endless_event_is_cut_off_and_its_connection_closed() {
    let (mut stream, run, _reports, _client) = open_stream().await;
    let chunk = [b'x'; 0x10000];
    stream.write_all(b":").await.unwrap();
    while stream.write_all(&chunk).await.is_ok() {}
    assert_eq!(run.await.unwrap().unwrap_err().message, "the response is larger than 16777216 bytes (16 MiB)");
}

#[tokio::test]
async fn stream_waits_while_its_reports_are_not_received() {
    let events: String = (0..200).map(|number| format!("event: progress\ndata: number {number}\n\n")).collect();
    let (mut stream, run, mut reports, _client) = open_stream().await;
    stream.write_all(format!("{events}event: result\ndata: done\n\n").as_bytes()).await.unwrap();
    for number in 0..200 {
        let Report::Emission(emission) = reports.next().await else { panic!("an emission") };
        assert_eq!(emission.content, [ContentBlock::Text(format!("number {number}"))]);
    }
    assert_eq!(run.await.unwrap(), Ok(ToolOutput::Text("done".into())));
}
