//! The helper between the service and the program of a server: it hands on what the service writes, and when that ends, be it
//! because the service does, it ends the program and all that it has started.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::executor::process::tree;

/// First argument of the helper; the service's process id and the program follow.
pub const KEEP: &str = "__keep";
/// First argument of the process that becomes the program.
pub const BECOME: &str = "__become";
/// How long a program has to end by itself once nothing more comes.
const EOF_GRACE: Duration = Duration::from_secs(2);
/// Between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether the service is still there. Mostly the closed pipe tells it at once; a program that reads
/// nothing can keep that from being seen.
const LOOK: Duration = Duration::from_millis(500);
/// How much is handed on at once.
const PIECE: usize = 64 * 1024;

enum Event {
    /// The program has ended.
    Ended(WaitStatus),
    /// The service writes nothing more.
    Closed,
    /// The service is gone.
    Gone,
}

/// Runs the helper: `__keep SERVICE PROGRAM ARGUMENT…`. It ends as the program did.
#[must_use]
pub fn keep(arguments: &[String]) -> ExitCode {
    match try_keep(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("toolpost: {error}");
            ExitCode::from(127)
        }
    }
}

fn try_keep(arguments: &[String]) -> io::Result<u8> {
    let [service, argv @ ..] = arguments else { return Err(io::ErrorKind::InvalidInput.into()) };
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(BECOME).arg(std::process::id().to_string()).args(argv).process_group(0).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let program = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let (events, heard) = mpsc::channel();
    if let Some(stdin) = child.stdin.take() {
        let events = events.clone();
        thread::spawn(move || hand_on(stdin, &events));
    }
    let (ended, service) = (events.clone(), service.clone());
    thread::spawn(move || reap(program, &ended));
    thread::spawn(move || watch(&service, &events));
    let mut deadline: Option<Instant> = None;
    loop {
        let wait = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
        match heard.recv_timeout(wait) {
            Ok(Event::Ended(status)) => {
                tree::kill_all(program);
                let signal = || status.terminating_signal().map_or(0, |signal| 128 + signal);
                return Ok(u8::try_from(status.exit_status().unwrap_or_else(signal)).unwrap_or(255));
            }
            Ok(Event::Closed) => deadline = Some(Instant::now() + EOF_GRACE),
            Err(RecvTimeoutError::Timeout) if deadline.is_none() => {}
            // Gone, or its time is over: what it has left to say, it says now.
            Ok(Event::Gone) | Err(_) => {
                tree::signal(program, Signal::TERM);
                tree::signal(program, Signal::CONT);
                let last = Instant::now() + TERM_GRACE;
                while !tree::below().is_empty() && Instant::now() < last {
                    thread::sleep(Duration::from_millis(10));
                }
                tree::kill_all(program);
                return Ok(128 + 15);
            }
        }
    }
}

/// The last step: dies with the helper, and becomes the program. `__become HELPER PROGRAM ARGUMENT…`.
#[must_use]
pub fn become_program(arguments: &[String]) -> ExitCode {
    let [helper, program, rest @ ..] = arguments else { return ExitCode::from(2) };
    let dies = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    // Whoever had gone before this was said is another's child by now.
    if dies.is_err() || parent.as_deref() != Some(helper) {
        return ExitCode::from(127);
    }
    let error = Command::new(program).args(rest).exec();
    match error.kind() {
        io::ErrorKind::NotFound => eprintln!("toolpost: there is no program \"{program}\""),
        _ => eprintln!("toolpost: the program \"{program}\" cannot be started: {error}"),
    }
    ExitCode::from(127)
}

/// From the service to the program.
fn hand_on(mut program: ChildStdin, events: &Sender<Event>) {
    let (mut service, mut piece) = (io::stdin().lock(), vec![0; PIECE]);
    loop {
        match service.read(&mut piece) {
            Ok(0) => break,
            // A program that closes its input may speak on.
            Ok(read) => drop(program.write_all(&piece[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    drop(program);
    let _ = events.send(Event::Closed);
}

/// Takes leave of every child, adopted ones too, until there is none.
fn reap(program: Pid, events: &Sender<Event>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((id, status))) if id == program => drop(events.send(Event::Ended(status))),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn watch(service: &str, events: &Sender<Event>) {
    loop {
        let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
        if parent.as_deref() != Some(service) {
            let _ = events.send(Event::Gone);
            return;
        }
        thread::sleep(LOOK);
    }
}
