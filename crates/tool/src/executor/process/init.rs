//! The inner helper. It runs one program and kills everything that the program has started as soon as the program, its
//! call or the service ends.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitStatus, getpid, set_child_subreaper, set_parent_process_death_signal};
use serde_json::Value;

use super::namespace;
use super::program::{Confinement, Program};
use super::protocol::{self, ExitKind, ExitReport, exit_code};
use super::signals::SignalWatch;
use super::tree::{self, Tree};
use super::workdir::WorkDir;
use toolpost_core::domain::process::SandboxMode;

/// Minimum interval between counts of the processes.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// The interval is at least this multiple of the time that a count takes.
const COUNT_FACTOR: u32 = 20;
/// Interval if processes are not counted.
const NEVER: Duration = Duration::from_secs(3600);

/// Runs `__init HOLDER isolated|shared [PROGRAM ARGUMENT…]`. With a program, runs it unconfined on its own standard
/// input and output. Otherwise standard input is a socket, over which the service sends a [`protocol::LaunchRequest`].
///
/// # Errors
/// Returns an error if a system call fails.
pub fn main(holder: &str, isolated: bool, program: &[String]) -> io::Result<ExitCode> {
    // The programs that this process executes inherit only standard input, output and error.
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let watch = SignalWatch::new()?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // A parent that exited before the previous call sends no signal.
    if tree::parent()?.to_string() != holder {
        return Err(io::Error::other("its parent has exited"));
    }
    if isolated {
        namespace::show()?;
    } else {
        set_child_subreaper(Some(getpid()))?;
    }
    if program.is_empty() { serve(&watch, isolated) } else { run_long_lived(&watch, program) }
}

/// Runs the program that the service requests, and reports its end.
fn serve(watch: &SignalWatch, isolated: bool) -> io::Result<ExitCode> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Program { argv, env, work_dir, input, confinement } = protocol::receive(&socket)?;
    let refuse = |reason| send_report(&socket, &ExitReport { end: ExitKind::Refused(reason), ..ExitReport::default() });
    let folder = match WorkDir::of(&work_dir, confinement.user) {
        Ok(folder) => folder,
        Err(reason) => return refuse(reason),
    };
    let max_processes = confinement.limits.processes;
    let mut notes = StatusPipe::new()?;
    let mut command = protocol::confine(&notes.path(), &confinement.with(&folder.path), &argv)?;
    command.env_clear().envs(&env).current_dir(&folder.path).stdin(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return refuse(format!("it cannot be started: {error}")),
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A separate thread, because a program need not read its input.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let mut tree = Tree::new(watch, &child)?;
    let end = run(watch, &mut tree, Some(socket.as_fd()), max_processes)?;
    let is_over = tree.kill();
    let mut report = notes.report(end);
    report.sandbox.insert("process_namespace".to_owned(), Value::Bool(isolated));
    drop(folder);
    let code = send_report(&socket, &report);
    // The end is reported, but the remaining processes must be killed.
    while !is_over && !tree.kill() {}
    code
}

/// Runs a long-lived program that the service talks to directly.
fn run_long_lived(watch: &SignalWatch, program: &[String]) -> io::Result<ExitCode> {
    let unconfined = Confinement { mode: SandboxMode::Off, ..Confinement::default() };
    let mut notes = StatusPipe::new()?;
    let child = protocol::confine(&notes.path(), &unconfined, program)?.spawn()?;
    let mut tree = Tree::new(watch, &child)?;
    let end = run(watch, &mut tree, None, None)?;
    while !tree.kill() {}
    if let ExitKind::Refused(reason) = notes.report(end).end {
        eprintln!("{reason}");
    }
    Ok(tree.ended.map_or(ExitCode::FAILURE, exit_code))
}

fn send_report(mut socket: &UnixStream, report: &ExitReport) -> io::Result<ExitCode> {
    let mut text = serde_json::to_vec(report)?;
    text.push(b'\n');
    // Fails only if the service has exited, so that the report is no longer needed.
    let _ = socket.write_all(&text);
    // Signals the end of the report, even if this helper keeps running.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    Ok(ExitCode::SUCCESS)
}

/// Waits until the program must end, and returns the reason. The caller kills the remaining processes.
fn run(
    watch: &SignalWatch,
    tree: &mut Tree,
    service: Option<BorrowedFd>,
    max_processes: Option<u64>,
) -> io::Result<ExitKind> {
    let (mut pause, mut counted) = (MIN_INTERVAL, Instant::now());
    loop {
        let events = watch.next(service, if max_processes.is_some() { pause } else { NEVER })?;
        tree.reap();
        if let Some(status) = tree.ended {
            return Ok(end(status));
        }
        // The service sends nothing after the request, so any data or a closed socket means that the program must end.
        if events.terminate_requested || events.parent_exited {
            tree.terminate();
            return Ok(ExitKind::Stopped);
        }
        if let Some(max_processes) = max_processes.filter(|_| counted.elapsed() >= pause) {
            counted = Instant::now();
            if tree::below().len() as u64 > max_processes {
                return Ok(ExitKind::TooManyProcesses(max_processes));
            }
            pause = MIN_INTERVAL.max(counted.elapsed() * COUNT_FACTOR);
            counted = Instant::now();
        }
    }
}

fn end(status: WaitStatus) -> ExitKind {
    let killed = || ExitKind::Killed(status.terminating_signal().unwrap_or_default());
    status.exit_status().map_or_else(killed, ExitKind::Exited)
}

/// The pipe through which the confined process reports its status until it executes the program. The second end is closed
/// before the status is read.
pub struct StatusPipe(PipeReader, Option<PipeWriter>);

impl StatusPipe {
    /// Creates a pipe.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self(reader, Some(writer)))
    }

    /// Returns the path of the write end. The confined process opens it by path, so that no other child inherits the
    /// descriptor.
    pub fn path(&self) -> String {
        let writer = self.1.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{writer}", std::process::id())
    }

    /// Reads the status until all writers have closed the pipe. `end` applies unless the confined process reported a
    /// failed start.
    pub fn report(&mut self, end: ExitKind) -> ExitReport {
        self.1 = None;
        let mut report = ExitReport { end, ..ExitReport::default() };
        for line in BufReader::new(&self.0).lines().map_while(Result::ok) {
            let Ok(Value::Object(mut note)) = serde_json::from_str(&line) else { continue };
            if let Some(Value::Object(sandbox)) = note.remove("sandbox") {
                report.sandbox = sandbox;
            }
            if let Some(Value::String(reason)) = note.remove("refused") {
                report.end = ExitKind::Refused(reason);
            }
        }
        report
    }
}
