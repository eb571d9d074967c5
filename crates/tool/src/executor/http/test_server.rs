//! A server for tests that sends exactly the given bytes.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A received request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedRequest {
    pub method: String,
    pub target: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
    }

    pub fn text_header(&self, name: &str) -> Option<String> {
        self.header(name).map(|value| String::from_utf8(value.to_vec()).unwrap())
    }
}

/// A server that sends one response per connection and closes it.
pub(crate) struct TestServer {
    pub port: u16,
    pub received: UnboundedReceiver<ReceivedRequest>,
}

impl TestServer {
    /// Starts a server. `respond` returns the raw response; if it is empty, the connection is closed without a
    /// response.
    pub async fn start(respond: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, received) = unbounded_channel();
        let respond = Arc::new(respond);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (sender, respond) = (sender.clone(), respond.clone());
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    let answer = respond(&request);
                    let _ = sender.send(request);
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, received }
    }

    /// Starts a server that always sends the same response.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_| answer.clone()).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Builds a response with a length. `head` is the status and any header lines.
pub(crate) fn response(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", head, body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one request with a `Content-Length` or without a body.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = String::from_utf8(lines.next()?.to_vec()).ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, Vec<u8>)> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let value = line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]);
            Some((String::from_utf8(line[..colon].to_ascii_lowercase()).ok()?, value.to_vec()))
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| String::from_utf8_lossy(value).parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest { method, target, headers, body })
}
