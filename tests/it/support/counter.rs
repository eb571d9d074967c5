//! A tool server that counts its runs independently of the service: every run is a line in a file, on disk before the
//! run is answered.
//!
//! `/now` responds immediately, `/slowly` after a few milliseconds, `/long` late enough for a subscriber to find the
//! call, `/gate` after [`Counter::open`]; `/flaky` rejects the first run of each call with a 503.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Duration of `/slowly`: long enough for a kill to hit the run.
const SLOWLY: Duration = Duration::from_millis(12);
/// Duration of `/long`: long enough for a subscriber to connect before the end.
const LONG: Duration = Duration::from_millis(800);

/// One run, as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number among all runs.
    pub number: usize,
    /// The id of its call.
    pub id: String,
    pub name: String,
    pub attempt: u64,
}

impl Run {
    /// Returns the answer of this run, which is unique.
    pub fn answer(&self) -> String {
        format!("run {}", self.number)
    }
}

/// The server, on its own threads.
pub struct Counter {
    address: SocketAddr,
    shared: Arc<Shared>,
    folder: tempfile::TempDir,
}

struct Shared {
    file: Mutex<File>,
    runs: AtomicUsize,
    /// Ids of the calls that have run.
    seen: Mutex<HashSet<String>>,
    is_open: Mutex<bool>,
    opened: Condvar,
    closing: AtomicBool,
}

impl Counter {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let file = File::options().create(true).append(true).open(path_in(&folder)).unwrap();
        let shared = Arc::new(Shared {
            file: Mutex::new(file),
            runs: AtomicUsize::new(0),
            seen: Mutex::default(),
            is_open: Mutex::new(false),
            opened: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        let serving = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.closing.load(Ordering::Relaxed) {
                    return;
                }
                let shared = serving.clone();
                // The thread ends when the service closes the connection.
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared, folder }
    }

    /// Returns the executor of the tools, as a part of a definition; `{route}` is an argument.
    pub fn tool(&self) -> Value {
        json!({"executor": {"type": "http", "url": format!("http://{}/{{route}}", self.address)}})
    }

    /// Opens `/gate` for current and later requests.
    pub fn open(&self) {
        *self.shared.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.opened.notify_all();
    }

    /// Closes `/gate` for later requests.
    pub fn close(&self) {
        *self.shared.is_open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Returns the number of runs that have begun.
    pub fn count(&self) -> usize {
        self.shared.runs.load(Ordering::Relaxed)
    }

    /// Reads all runs from the file.
    pub fn runs(&self) -> Vec<Run> {
        let text = fs::read_to_string(path_in(&self.folder)).unwrap();
        let runs = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            let number = usize::try_from(line["number"].as_u64().unwrap()).unwrap();
            Run { number, id: text("id"), name: text("name"), attempt: line["attempt"].as_u64().unwrap() }
        });
        runs.collect()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.open();
        self.shared.closing.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

fn path_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("runs")
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut writer = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let (route, body) = read_request(&mut reader)?;
            let (answer, is_first) = self.note(&body)?;
            let status = if is_first && route == "/flaky" { "503 Service Unavailable" } else { "200 OK" };
            match &*route {
                "/gate" => self.wait_at_gate(),
                "/slowly" => thread::sleep(SLOWLY),
                "/long" => thread::sleep(LONG),
                _ => {}
            }
            let length = answer.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n");
            writer.write_all((head + &answer).as_bytes()).ok()?;
        }
    }

    /// Writes the run to disk. Returns its answer, and `true` if it is the first run of its call.
    fn note(&self, body: &[u8]) -> Option<(String, bool)> {
        let envelope: Value = serde_json::from_slice(body).ok()?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.runs.load(Ordering::Relaxed) + 1;
        let line = json!({
            "number": number, "id": envelope["id"], "name": envelope["name"], "attempt": envelope["attempt"],
        });
        file.write_all(format!("{line}\n").as_bytes()).ok()?;
        file.sync_data().ok()?;
        self.runs.store(number, Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Some((format!("run {number}"), seen.insert(envelope["id"].as_str()?.to_owned())))
    }

    fn wait_at_gate(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads the path and the body of the next request; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let route = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((route, body))
}
