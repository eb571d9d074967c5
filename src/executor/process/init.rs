//! The inner helper: it runs one program and leaves nothing of it behind, whatever ends first, the program, its call or the
//! service.

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

/// How often processes are counted at most.
const COUNT: Duration = Duration::from_millis(20);
/// Which part of the time may be spent counting.
const SHARE: u32 = 20;
/// When there is nothing to count.
const NEVER: Duration = Duration::from_secs(3600);

/// Runs it: `__init HOLDER isolated|shared [PROGRAM ARGUMENT…]`. With a program it runs that, as it is, on its own standard
/// input and output; else that input is a socket, and what comes over it is an [`Order`].
///
/// # Errors
/// If it cannot do its work.
pub fn main(holder: &str, isolated: bool, program: &[String]) -> io::Result<ExitCode> {
    exec::close_others();
    let watch = SignalWatch::new()?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // Whoever had gone before this was said sends no signal.
    if tree::parent()?.to_string() != holder {
        return Err(io::Error::other("its holder has gone"));
    }
    if isolated {
        namespace::show()?;
    } else {
        set_child_subreaper(Some(getpid()))?;
    }
    if program.is_empty() { serve(&watch, isolated) } else { run_long_lived(&watch, program) }
}

/// Runs what a service orders, and tells it how that ended.
fn serve(watch: &SignalWatch, isolated: bool) -> io::Result<ExitCode> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (order, input) = protocol::receive(&socket)?;
    let folder = match WorkDir::of(&order.place, order.confinement.user) {
        Ok(folder) => folder,
        Err(reason) => return tell(&socket, &ExitReport { end: ExitKind::Refused(reason), ..ExitReport::default() }),
    };
    let mut notes = StatusPipe::new()?;
    let confinement = order.confinement.clone().with(folder.path());
    let mut command = protocol::confine(&notes.path(), &confinement, &order.argv)?;
    command.env_clear().envs(&order.env).current_dir(folder.path()).stdin(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let end = ExitKind::Refused(format!("it cannot be started: {error}"));
            return tell(&socket, &ExitReport { end, ..ExitReport::default() });
        }
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read what it is given.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let mut tree = Tree::new(watch, exec::id(&child)?);
    let end = run(watch, &mut tree, Some(socket.as_fd()), order.confinement.limits.processes)?;
    let is_over = tree.kill();
    let mut told = notes.told(end);
    told.sandbox.insert("process_namespace".to_owned(), Value::Bool(isolated));
    drop(folder);
    let code = tell(&socket, &told);
    // Nobody waits for them any more, but they must not stay.
    while !is_over && !tree.kill() {}
    code
}

/// Runs a program that somebody else talks to.
fn run_long_lived(watch: &SignalWatch, program: &[String]) -> io::Result<ExitCode> {
    let mut notes = StatusPipe::new()?;
    let child = protocol::confine(&notes.path(), &Confinement::none(), program)?.spawn()?;
    let mut tree = Tree::new(watch, exec::id(&child)?);
    let end = run(watch, &mut tree, None, None)?;
    while !tree.kill() {}
    if let ExitKind::Refused(reason) = notes.told(end).end {
        eprintln!("{reason}");
    }
    Ok(tree.ended.map_or(ExitCode::FAILURE, exit_code))
}

fn tell(mut socket: &UnixStream, told: &ExitReport) -> io::Result<ExitCode> {
    let mut text = serde_json::to_vec(told)?;
    text.push(b'\n');
    // A service that is gone wants to know nothing.
    let _ = socket.write_all(&text);
    // It hears the end of the word, even if the helper has still something to do.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    Ok(ExitCode::SUCCESS)
}

/// Waits for what is to be the end of the program. Whoever is left then is to be killed.
fn run(watch: &SignalWatch, tree: &mut Tree, service: Option<BorrowedFd>, most: Option<u64>) -> io::Result<ExitKind> {
    let (mut pause, mut counted) = (COUNT, Instant::now());
    loop {
        let heard = watch.next(service, if most.is_some() { pause } else { NEVER })?;
        tree.reap();
        if let Some(status) = tree.ended {
            return Ok(end(status));
        }
        // Nothing is said after the order: whatever comes, and be it the end, means that it is to end.
        if heard.terminate_requested || heard.parent_exited {
            tree.terminate();
            return Ok(ExitKind::Stopped);
        }
        if let Some(most) = most.filter(|_| counted.elapsed() >= pause) {
            counted = Instant::now();
            if tree::below().len() as u64 > most {
                return Ok(ExitKind::TooManyProcesses(most));
            }
            pause = COUNT.max(counted.elapsed() * SHARE);
            counted = Instant::now();
        }
    }
}

fn end(status: WaitStatus) -> ExitKind {
    let killed = || ExitKind::Killed(status.terminating_signal().unwrap_or_default());
    status.exit_status().map_or_else(killed, ExitKind::Exited)
}
