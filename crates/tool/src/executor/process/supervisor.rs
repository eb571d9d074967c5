//! The outer helper. It supervises the inner helper, which may be the first process of a namespace. If either of the
//! two is killed, the other one kills the remaining processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};

use super::namespace;
use super::protocol::{INIT, ISOLATED, OWN_FILE, SHARED, exit_code};
use super::signals::{SignalState, SignalWatch};
use super::tree::Tree;

/// Interval for checking whether the service is running, on kernels without process descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval for the same check on other kernels.
const LONG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time for the inner helper to end on request.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Runs `__supervise SERVICE isolated|shared [PROGRAM ARGUMENT…]`.
///
/// # Errors
/// Returns an error if a system call fails.
pub fn main(service: &str, isolated: bool, program: &[String]) -> io::Result<ExitCode> {
    // The programs that this process executes inherit only standard input, output and error.
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let watch = SignalWatch::new()?;
    let service: i32 = service.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let life = Pid::from_raw(service).and_then(|service| pidfd_open(service, PidfdFlags::empty()).ok());
    // Detaches from the terminal: its signals to the service must not reach the helper, and programs must not use it.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let is_isolated = isolated && namespace::prepare().is_ok();
    let mut command = Command::new(OWN_FILE);
    command.arg(INIT).arg(std::process::id().to_string()).arg(if is_isolated { ISOLATED } else { SHARED });
    let mut tree = Tree::new(&watch, &command.args(program).spawn()?)?;
    supervise(&watch, &mut tree, service, life)?;
    // Processes remain only if the inner helper was killed.
    while !tree.kill() {}
    Ok(tree.ended.map_or(ExitCode::FAILURE, exit_code))
}

/// Waits until the inner helper has ended. Forwards requests to end.
fn supervise(watch: &SignalWatch, tree: &mut Tree, service: i32, life: Option<OwnedFd>) -> io::Result<()> {
    let mut is_terminating = false;
    loop {
        let longest = match (is_terminating, &life) {
            (true, _) => MAX_WAIT,
            (false, Some(_)) => LONG_INTERVAL,
            (false, None) => POLL_INTERVAL,
        };
        // The service descriptor stays ready after the service has exited, so it is polled only once.
        let events = watch.next(life.as_ref().filter(|_| !is_terminating).map(AsFd::as_fd), longest)?;
        tree.reap();
        if tree.ended.is_some() {
            return Ok(());
        }
        let is_alone = getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != service);
        if is_terminating && events == SignalState::default() {
            let _ = kill_process(tree.root, Signal::KILL);
        } else if !is_terminating && (events.terminate_requested || events.parent_exited || is_alone) {
            is_terminating = true;
            let _ = kill_process(tree.root, Signal::TERM);
        }
    }
}
