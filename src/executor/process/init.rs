//! The inner helper. It runs one program and kills everything that the program has started as soon as the program, its
//! call or the service ends.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitStatus, getpid, set_child_subreaper, set_parent_process_death_signal};
use serde_json::Value;

use super::protocol::{Confinement, ExitKind, ExitReport, exit_code};
use super::signals::SignalWatch;
use super::status_pipe::StatusPipe;
use super::tree::{self, Tree};
use super::workdir::WorkDir;
use super::{exec, namespace, protocol};

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
    exec::close_others();
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
    let (request, input) = protocol::receive(&socket)?;
    let folder = match WorkDir::of(&request.place, request.confinement.user) {
        Ok(folder) => folder,
        Err(reason) => {
            return send_report(&socket, &ExitReport { end: ExitKind::Refused(reason), ..ExitReport::default() });
        }
    };
    let mut notes = StatusPipe::new()?;
    let confinement = request.confinement.clone().with(folder.path());
    let mut command = protocol::confine(&notes.path(), &confinement, &request.argv)?;
    command.env_clear().envs(&request.env).current_dir(folder.path()).stdin(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let end = ExitKind::Refused(format!("it cannot be started: {error}"));
            return send_report(&socket, &ExitReport { end, ..ExitReport::default() });
        }
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A separate thread, because a program need not read its input.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let mut tree = Tree::new(watch, exec::id(&child)?);
    let end = run(watch, &mut tree, Some(socket.as_fd()), request.confinement.limits.processes)?;
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
    let mut notes = StatusPipe::new()?;
    let child = protocol::confine(&notes.path(), &Confinement::none(), program)?.spawn()?;
    let mut tree = Tree::new(watch, exec::id(&child)?);
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
