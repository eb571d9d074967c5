//! The outer helper: it holds the keeper, which may be the first process of a namespace. Whichever of both is killed, the
//! other one sees to what is left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};

use super::protocol::{INIT, ISOLATED, SHARED, exit_code};
use super::signals::{SignalState, SignalWatch};
use super::tree::Tree;
use super::{exec, namespace};

/// Between two looks whether the service is there, on a kernel that does not tell.
const LOOK: Duration = Duration::from_millis(500);
/// The same on one that does.
const LONG: Duration = Duration::from_secs(60);
/// How long a keeper may take that is asked to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it: `__supervise SERVICE isolated|shared [PROGRAM ARGUMENT…]`.
///
/// # Errors
/// If it cannot do its work.
pub fn main(service: &str, isolated: bool, program: &[String]) -> io::Result<ExitCode> {
    exec::close_others();
    let watch = SignalWatch::new()?;
    let service: i32 = service.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let life = Pid::from_raw(service).and_then(|service| pidfd_open(service, PidfdFlags::empty()).ok());
    // What ends the service at a terminal does not end it as well, and no program has that terminal.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let is_isolated = isolated && namespace::prepare().is_ok();
    let mut command = Command::new(exec::OWN_FILE);
    command.arg(INIT).arg(std::process::id().to_string()).arg(if is_isolated { ISOLATED } else { SHARED });
    let keeper = exec::id(&command.args(program).spawn()?)?;
    let mut tree = Tree::new(&watch, keeper);
    hold(&watch, &mut tree, service, life)?;
    // Only those are left whose keeper was killed.
    while !tree.kill() {}
    Ok(tree.ended.map_or(ExitCode::FAILURE, exit_code))
}

/// Until the keeper has ended.
fn hold(watch: &SignalWatch, tree: &mut Tree, service: i32, life: Option<OwnedFd>) -> io::Result<()> {
    let mut is_asked = false;
    loop {
        let longest = match (is_asked, &life) {
            (true, _) => PATIENCE,
            (false, Some(_)) => LONG,
            (false, None) => LOOK,
        };
        // What has gone once is not waited for again.
        let heard = watch.next(life.as_ref().filter(|_| !is_asked).map(AsFd::as_fd), longest)?;
        tree.reap();
        if tree.ended.is_some() {
            return Ok(());
        }
        let is_alone = getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != service);
        if is_asked && heard == SignalState::default() {
            let _ = kill_process(tree.root, Signal::KILL);
        } else if !is_asked && (heard.terminate_requested || heard.parent_exited || is_alone) {
            is_asked = true;
            let _ = kill_process(tree.root, Signal::TERM);
        }
    }
}
