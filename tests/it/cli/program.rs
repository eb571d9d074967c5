//! The real program with its own data folder and without the caller's settings.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::support::LIMIT;
use serde_json::Value;
use tempfile::TempDir;

/// A temporary home folder. The database is at the program's default path in it.
pub struct Home(TempDir);

/// The exit code and the output of an ended program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl ProgramOutput {
    /// Parses standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns `true` if the folder is empty.
    pub fn is_empty(&self) -> bool {
        self.path().read_dir().expect("the folder is there").next().is_none()
    }

    /// Writes a file and returns its path as an argument.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("TOOLPOST") || name == "DATABASE_URL" {
                command.env_remove(name.as_ref());
            }
        }
        command.args(arguments).env("XDG_DATA_HOME", self.path()).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> ProgramOutput {
        Program::start(&mut self.command(arguments)).end()
    }

    /// Runs a command to its end with this standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> ProgramOutput {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().expect("the program starts");
        child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it is read");
        Program::of(child).end()
    }
}

/// A running program whose output lines can be awaited.
pub struct Program {
    child: Child,
    out: Lines,
    err: Lines,
}

/// A receiver of lines, and all lines received so far.
struct Lines {
    receiver: mpsc::Receiver<String>,
    seen: String,
}

impl Lines {
    fn of(source: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { receiver, seen: String::new() }
    }

    /// Returns the next line; `None` at the end.
    fn next(&mut self) -> Option<String> {
        match self.receiver.recv_timeout(LIMIT) {
            Ok(line) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing more came after: {}", self.seen),
        }
    }

    fn until(&mut self, beginning: &str) -> String {
        self.find(beginning, |line| line.starts_with(beginning))
    }

    /// Returns the next line that `is_it` accepts.
    fn find(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        while let Some(line) = self.next() {
            if is_it(&line) {
                return line;
            }
        }
        panic!("no line with {what}: {}", self.seen);
    }

    fn rest(mut self) -> String {
        while self.next().is_some() {}
        self.seen
    }
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        Self::of(command.spawn().expect("the program starts"))
    }

    fn of(mut child: Child) -> Self {
        let out = Lines::of(child.stdout.take().expect("it is piped"));
        let err = Lines::of(child.stderr.take().expect("it is piped"));
        Self { child, out, err }
    }

    /// Waits for a line of standard output with this beginning.
    pub fn out(&mut self, beginning: &str) -> String {
        self.out.until(beginning)
    }

    /// Waits for a line of standard output that contains all these parts.
    pub fn out_with(&mut self, parts: &[&str]) -> String {
        self.out.find(&parts.join(" … "), |line| parts.iter().all(|part| line.contains(part)))
    }

    /// Waits for a line of standard error with this beginning.
    pub fn err(&mut self, beginning: &str) -> String {
        self.err.until(beginning)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Waits for the end of the program.
    pub fn end(mut self) -> ProgramOutput {
        // The pipes end with the program. Each line has its own timeout.
        let (out, err) = (std::mem::replace(&mut self.out, Lines::of(std::io::empty())).rest(), self.rest_of_err());
        let status = self.child.wait().expect("it can be waited for");
        ProgramOutput { code: status.code(), out, err }
    }

    fn rest_of_err(&mut self) -> String {
        std::mem::replace(&mut self.err, Lines::of(std::io::empty())).rest()
    }
}

impl Drop for Program {
    /// Kills the program, so that a failed test leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
