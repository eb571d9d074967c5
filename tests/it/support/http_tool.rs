//! A server under the test's control that records its requests and sends the given responses, valid or not.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::bounded;

/// A received request.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    pub method: String,
    /// Path and query, still encoded.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// A reaction of the server to a request.
#[derive(Clone)]
pub enum Answer {
    /// A complete response.
    Whole { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// A 200 in chunks.
    Chunked { media_type: String, chunks: Vec<Vec<u8>> },
    /// A 200 with this number of bytes of text and no `content-length`.
    Stream(usize),
    /// Sends less than its `content-length`.
    CutOff,
    /// Closes the connection without a response.
    CloseEarly,
    /// Sends nothing until the client closes the connection.
    Never,
    /// Sends the head and a first byte, then nothing until the client closes the connection.
    Stall,
    /// Responds after [`HttpTool::open`].
    AfterGate(Box<Self>),
    /// Responds once this number of requests have arrived for the target.
    Together(usize, Box<Self>),
}

impl Answer {
    /// Creates a 200 with this media type.
    pub fn body(media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::status(200, media_type, body)
    }

    pub fn status(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Whole { status, headers: vec![("content-type".into(), media_type.into())], body: body.into() }
    }

    pub fn json(value: &Value) -> Self {
        Self::body("application/json", value.to_string())
    }

    pub fn text(text: &str) -> Self {
        Self::body("text/plain; charset=utf-8", text)
    }

    pub fn redirect(status: u16, location: &str) -> Self {
        Self::Whole { status, headers: vec![("location".into(), location.into())], body: Vec::new() }
    }

    /// Adds a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Whole { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }
}

/// Everything that the server has received.
#[derive(Default)]
struct ServerLog {
    requests: Vec<ReceivedRequest>,
    log: Vec<String>,
    connections: usize,
    running: usize,
    max_running: usize,
    closed: usize,
    gate_open: bool,
}

type Behaviour = Arc<dyn Fn(&ReceivedRequest) -> Answer + Send + Sync>;

/// The server; stops listening on drop.
pub struct HttpTool {
    address: SocketAddr,
    seen: Arc<watch::Sender<ServerLog>>,
    listening: AbortHandle,
}

impl Drop for HttpTool {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl HttpTool {
    /// Starts a server with the same response for every request.
    pub async fn answering(answer: Answer) -> Self {
        Self::start("127.0.0.1", move |_| answer.clone()).await
    }

    /// Starts a server at `ip` on a free port that responds as `behaviour` says.
    pub async fn start(ip: &str, behaviour: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(watch::channel(ServerLog::default()).0);
        let behaviour: Behaviour = Arc::new(behaviour);
        let shared = seen.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.send_modify(|seen| seen.connections += 1);
                // The client may close the connection.
                tokio::spawn(serve(stream, behaviour.clone(), shared.clone()));
            }
        });
        Self { address, seen, listening: listening.abort_handle() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Opens the gate for all [`Answer::AfterGate`], current and later.
    pub fn open(&self) {
        self.seen.send_modify(|seen| seen.gate_open = true);
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.borrow().requests.clone()
    }

    /// Returns `start TARGET` and `end TARGET` entries in the order of the events.
    pub fn log(&self) -> Vec<String> {
        self.seen.borrow().log.clone()
    }

    /// Returns the maximum number of concurrent requests so far.
    pub fn max_running(&self) -> usize {
        self.seen.borrow().max_running
    }

    pub fn connections(&self) -> usize {
        self.seen.borrow().connections
    }

    /// Returns the only request so far.
    pub fn request(&self) -> ReceivedRequest {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests.into_iter().next().unwrap()
    }

    /// Waits until `count` requests have arrived.
    pub async fn received(&self, count: usize) {
        wait_until(&self.seen, |seen| seen.requests.len() >= count).await;
    }

    /// Waits until the client has closed a connection without a response.
    pub async fn closed(&self) {
        wait_until(&self.seen, |seen| seen.closed > 0).await;
    }
}

async fn wait_until(seen: &watch::Sender<ServerLog>, condition: impl FnMut(&ServerLog) -> bool) {
    bounded("the tool's server", seen.subscribe().wait_for(condition)).await.unwrap();
}

async fn serve(
    mut stream: TcpStream,
    behaviour: Behaviour,
    seen: Arc<watch::Sender<ServerLog>>,
) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let (target, answer) = (request.target.clone(), behaviour(&request));
    seen.send_modify(|seen| {
        seen.log.push(format!("start {target}"));
        seen.requests.push(request);
        seen.running += 1;
        seen.max_running = seen.max_running.max(seen.running);
    });
    let answer = match answer {
        Answer::AfterGate(then) => {
            let _ = seen.subscribe().wait_for(|seen| seen.gate_open).await;
            *then
        }
        Answer::Together(count, then) => {
            let at_target = |seen: &ServerLog| seen.requests.iter().filter(|r| r.target == target).count() >= count;
            let _ = seen.subscribe().wait_for(at_target).await;
            *then
        }
        now => now,
    };
    let waits_for_close = matches!(answer, Answer::Never | Answer::Stall);
    if !waits_for_close {
        seen.send_modify(|seen| {
            seen.log.push(format!("end {target}"));
            seen.running -= 1;
        });
    }
    write_answer(&mut stream, answer).await?;
    if waits_for_close {
        while !matches!(stream.read(&mut [0; 1024]).await, Ok(0) | Err(_)) {}
        seen.send_modify(|seen| seen.closed += 1);
    }
    stream.shutdown().await
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<ReceivedRequest>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut chunk).await? {
            0 => return Ok(None),
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut request = ReceivedRequest { method, target, headers, body: String::new() };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        match stream.read(&mut chunk).await? {
            0 => return Ok(None),
            read => body.extend_from_slice(&chunk[..read]),
        }
    }
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

async fn write_answer(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    const TEXT: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/plain\r\n";
    match answer {
        Answer::Whole { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
            if status != 204 {
                head.push_str(&format!("content-length: {}\r\n", body.len()));
            }
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
            stream.write_all(&body).await
        }
        Answer::Chunked { media_type, chunks } => {
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {media_type}\r\n");
            stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await?;
            for chunk in chunks {
                stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
                stream.write_all(&[&chunk[..], b"\r\n"].concat()).await?;
                stream.flush().await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Answer::Stream(bytes) => {
            stream.write_all(format!("{TEXT}\r\n").as_bytes()).await?;
            let block = vec![b'x'; 64 * 1024];
            for _ in 0..bytes.div_ceil(block.len()) {
                stream.write_all(&block).await?;
            }
            Ok(())
        }
        Answer::CutOff => stream.write_all(format!("{TEXT}content-length: 1000\r\n\r\ntoo short").as_bytes()).await,
        Answer::Stall => stream.write_all(format!("{TEXT}content-length: 1000\r\n\r\nx").as_bytes()).await,
        Answer::CloseEarly | Answer::Never | Answer::AfterGate(_) | Answer::Together(..) => Ok(()),
    }
}

impl ReceivedRequest {
    /// Returns a header by its lower-case name, or an empty string if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}
