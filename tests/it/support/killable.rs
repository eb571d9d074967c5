//! The real program on one port and one database, which a test can kill and start repeatedly.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::Client;
use super::LIMIT;

/// Interval between two checks.
const PULSE: Duration = Duration::from_millis(5);
/// Number of log lines that a failed test prints.
const SHOWN: usize = 40;

/// The program with at most one running process.
pub struct Killable {
    address: SocketAddr,
    /// Reserves the port while the program is not running; it never listens itself.
    _port: TcpSocket,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    settings: Vec<(&'static str, String)>,
    child: Option<Child>,
}

/// Durations of a start, measured from the creation of the process.
#[derive(Debug, Clone, Copy)]
pub struct StartDurations {
    /// Time until the line `toolpost listening on`.
    pub listening: Duration,
    /// Time until `/readyz` returned 200.
    pub ready: Duration,
}

impl Killable {
    /// Creates a program that is not yet running. `settings` are names and values of the environment.
    pub fn new(database_url: &str, settings: Vec<(&'static str, String)>) -> Self {
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = port.local_addr().unwrap();
        let listen = address.to_string();
        let arguments = ["serve", "--listen", &listen, "--database-url", database_url, "--egress-allow", "127.0.0.1"];
        Self {
            address,
            _port: port,
            folder: tempfile::tempdir().unwrap(),
            arguments: arguments.map(str::to_owned).to_vec(),
            settings,
            child: None,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// Starts the program and waits until it is ready.
    pub async fn start(&mut self) -> StartDurations {
        let born = Instant::now();
        let line = self.launch(None);
        let heard = tokio::time::timeout(LIMIT, line).await;
        assert!(matches!(heard, Ok(Ok(()))), "the program did not start to listen");
        let listening = born.elapsed();
        let client = self.client();
        let is_ready = async {
            loop {
                let answer = client.request(reqwest::Method::GET, "/readyz").send().await;
                if answer.is_ok_and(|answer| answer.status() == 200) {
                    return;
                }
                tokio::time::sleep(PULSE).await;
            }
        };
        tokio::time::timeout(LIMIT, is_ready).await.expect("the program did not become ready");
        StartDurations { listening, ready: born.elapsed() }
    }

    /// Starts the program with a fault point such as `AfterRun:3` and waits for its exit, which may come before it
    /// listens.
    #[cfg(feature = "fault-points")]
    pub async fn start_to_die_at(&mut self, fault: &str) {
        const SIGABRT: i32 = 6;
        drop(self.launch(Some(fault)));
        let status = self.ended(&format!("its death at {fault}")).await;
        assert_eq!(status.signal(), Some(SIGABRT), "it was to die at {fault}, but ended with {status}");
    }

    /// Kills the process with SIGKILL.
    pub async fn kill(&mut self) {
        const SIGKILL: i32 = 9;
        self.child.as_mut().expect("it runs").kill().unwrap();
        let status = self.ended("its death").await;
        assert_eq!(status.signal(), Some(SIGKILL), "it was to be killed, but ended with {status}");
    }

    /// Stops the process with SIGTERM, so that running calls finish.
    pub async fn terminate(&mut self) {
        self.signal("TERM");
        self.stopped().await;
    }

    /// Waits until a process that received SIGTERM has stopped.
    pub async fn stopped(&mut self) {
        let status = self.ended("its end").await;
        assert!(status.success(), "it was to stop, but ended with {status}");
    }

    /// Sends the process a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Returns `true` if the process still runs. Otherwise, it exited without a signal from the test.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    async fn ended(&mut self, what: &str) -> ExitStatus {
        let child = self.child.as_mut().expect("it runs");
        let end = async {
            loop {
                if let Some(status) = child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(PULSE).await;
            }
        };
        let status = tokio::time::timeout(LIMIT, end).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
        self.child = None;
        status
    }

    /// Starts the process. The receiver completes when the process listens.
    fn launch(&mut self, fault: Option<&str>) -> oneshot::Receiver<()> {
        assert!(self.child.is_none(), "it runs already");
        let log = fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("TOOLPOST") || name == "DATABASE_URL" {
                command.env_remove(name.as_ref());
            }
        }
        command.args(&self.arguments).envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.envs(fault.map(|fault| ("TOOLPOST_FAULT", fault)));
        command.current_dir(self.folder.path()).env("XDG_DATA_HOME", self.folder.path());
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().unwrap();
        self.child = Some(child);
        let (listens, line) = oneshot::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            if lines.any(|line| line.starts_with("toolpost listening on ")) {
                // The receiver may be dropped.
                let _ = listens.send(());
            }
            lines.for_each(drop);
        });
        line
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Killable {
    /// Kills the program. If the test has failed, prints the end of its log.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the end of the service's log:\n{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
        }
    }
}
