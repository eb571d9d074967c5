//! The helper: it stands between the service and one program, so that nothing of the program is left when its call, or the
//! service, has ended.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use serde_json::{Map, Value};

use super::protocol::{CONFINE, End, Order, Told};
use super::tree;

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// How often the processes are counted.
const COUNT: Duration = Duration::from_millis(20);
/// Between two looks whether they have ended.
const PULSE: Duration = Duration::from_millis(10);
/// Longest order.
const LONGEST_ORDER: u64 = 64 * 1024 * 1024;

/// What the helper waits for.
enum Event {
    /// The program has ended.
    Ended(WaitStatus),
    /// The service wants it to end, or is there no more.
    Stop,
}

/// Runs it. Standard input is the socket; output and errors are the program's own.
pub fn main() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        // The service sees the socket close without a word, and its log has this line.
        Err(error) => {
            eprintln!("toolpost's helper failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut service = BufReader::new(socket.try_clone()?);
    let order: Order = serde_json::from_str(&line(&mut service)?)?;
    let mut input = vec![0; order.input_bytes];
    service.read_exact(&mut input)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (events, heard) = mpsc::channel();
    let stop = events.clone();
    thread::spawn(move || {
        // Nothing more is said: whatever comes, and be it the end, means that it is to end.
        let _ = service.read(&mut [0]);
        let _ = stop.send(Event::Stop);
    });
    let told = run(&order, input, &events, &heard);
    let mut text = serde_json::to_vec(&told)?;
    text.push(b'\n');
    // A service that is gone wants to know nothing.
    let _ = (&socket).write_all(&text);
    Ok(())
}

fn line(service: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    service.take(LONGEST_ORDER).read_line(&mut line)?;
    Ok(line)
}

fn run(order: &Order, input: Vec<u8>, events: &Sender<Event>, heard: &Receiver<Event>) -> Told {
    let refused = |reason: String| Told { end: End::Refused(reason), sandbox: Map::new() };
    let folder = match &order.cwd {
        Some(cwd) if cwd.is_dir() => None,
        Some(cwd) => return refused(format!("its working directory {} is not there", cwd.display())),
        None => match fresh(&order.fresh) {
            Ok(folder) => Some(folder),
            Err(error) => return refused(format!("it cannot have a working directory: {error}")),
        },
    };
    let told = match start(order, folder.as_deref(), input) {
        Ok((program, notes)) => {
            let ended = events.clone();
            thread::spawn(move || reap(program, &ended));
            let end = watch(program, order.confinement.limits.processes, heard);
            tree::kill_all(program);
            notes.told(end)
        }
        Err(error) => refused(format!("it cannot be started: {error}")),
    };
    // What cannot be removed is a matter for the machine's own housekeeping.
    folder.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    told
}

/// A folder that only this user can enter.
fn fresh(path: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().mode(0o700).create(path)?;
    path.canonicalize()
}

/// The pipe in which the program's process tells how far it came before it was the program.
struct Notes(PipeReader, PipeWriter);

impl Notes {
    fn told(self, end: End) -> Told {
        let Self(reader, writer) = self;
        drop(writer);
        let mut told = Told { end, sandbox: Map::new() };
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            let Ok(Value::Object(mut note)) = serde_json::from_str(&line) else { continue };
            if let Some(Value::Object(sandbox)) = note.remove("sandbox") {
                told.sandbox = sandbox;
            }
            if let Some(Value::String(reason)) = note.remove("refused") {
                told.end = End::Refused(reason);
            }
        }
        told
    }
}

/// Starts it in a group of its own. The process becomes the program once it has confined itself.
fn start(order: &Order, folder: Option<&Path>, input: Vec<u8>) -> io::Result<(Pid, Notes)> {
    let (reader, writer) = io::pipe()?;
    let parent = std::process::id();
    let mut confinement = order.confinement.clone();
    let cwd = folder.or(order.cwd.as_deref()).unwrap_or(Path::new("/"));
    confinement.read.push(cwd.to_owned());
    confinement.write.push(cwd.to_owned());
    let mut command = Command::new("/proc/self/exe");
    command.arg(CONFINE).arg(parent.to_string()).arg(format!("/proc/{parent}/fd/{}", writer.as_raw_fd()));
    command.arg(serde_json::to_string(&confinement)?).args(&order.argv);
    command.env_clear().envs(&order.env).current_dir(cwd).process_group(0).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let program = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read what it is given.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    Ok((program, Notes(reader, writer)))
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

/// Waits for what is to be the end of the program. Whoever is left then is killed.
fn watch(program: Pid, most: Option<u64>, heard: &Receiver<Event>) -> End {
    loop {
        match heard.recv_timeout(COUNT) {
            Ok(Event::Ended(status)) => {
                let killed = || End::Killed(status.terminating_signal().unwrap_or_default());
                return status.exit_status().map_or_else(killed, End::Exited);
            }
            Ok(Event::Stop) => {
                terminate(program);
                return End::Killed(Signal::TERM.as_raw());
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(most) = most.filter(|most| tree::below().len() as u64 > *most) {
                    return End::TooManyProcesses(most);
                }
            }
            // Whoever waits for the program cannot have gone before it.
            Err(RecvTimeoutError::Disconnected) => return End::Killed(Signal::KILL.as_raw()),
        }
    }
}

/// Asks all of them to end, and gives them the time that is theirs.
fn terminate(program: Pid) {
    tree::signal(program, Signal::TERM);
    // One that stands still hears nothing else.
    tree::signal(program, Signal::CONT);
    let deadline = Instant::now() + GRACE;
    while !tree::below().is_empty() && Instant::now() < deadline {
        thread::sleep(PULSE);
    }
}
