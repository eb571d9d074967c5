//! The descendants of this process: waiting for them and ending them.

use std::collections::BTreeMap;
use std::io;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group};

use super::signals::SignalWatch;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Interval between two rounds of signals.
const INTERVAL: Duration = Duration::from_millis(10);
/// Maximum wait for the end of all processes: a process that hangs in the kernel must not block its call.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A child and its descendants. This process is their subreaper or the first process of their namespace, so orphaned
/// descendants become its children. If it has no children, all of them have ended.
pub struct Tree<'w> {
    watch: &'w SignalWatch,
    /// The child, which leads its process group.
    pub root: Pid,
    /// The exit status of the child, once it has ended.
    pub ended: Option<WaitStatus>,
}

impl<'w> Tree<'w> {
    /// Creates a tree for this child, which it reaps without [`Child::wait`].
    ///
    /// # Errors
    /// Returns an error if the child's id is not positive, which no system assigns.
    pub fn new(watch: &'w SignalWatch, child: &Child) -> io::Result<Self> {
        let root = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { watch, root, ended: None })
    }

    /// Reaps all ended children. Returns `true` if children are left.
    pub fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.root => self.ended = Some(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Sends SIGTERM to all processes and waits up to a second until they end.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        // A stopped process handles signals only after it continues.
        self.signal(Signal::CONT);
        let deadline = Instant::now() + GRACE;
        while self.reap() && Instant::now() < deadline {
            self.pause(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Kills all processes. Returns `false` if some are left after the maximum wait.
    pub fn kill(&mut self) -> bool {
        let begun = Instant::now();
        while self.reap() {
            if begun.elapsed() > MAX_WAIT {
                return false;
            }
            self.signal(Signal::KILL);
            self.pause(INTERVAL);
        }
        true
    }

    /// Sends a signal to the process group of the child and to the descendants that have left the group.
    fn signal(&self, signal: Signal) {
        // Fails if the group has ended or belongs to another user.
        let _ = kill_process_group(self.root, signal);
        if signal == Signal::KILL && rustix::process::getpid().is_init() {
            // The first process of a namespace can kill all others at once, even if they fork quickly.
            let all = nix::unistd::Pid::from_raw(-1);
            let _ = nix::sys::signal::kill(all, nix::sys::signal::Signal::SIGKILL);
            return;
        }
        for id in below() {
            let _ = kill_process(id, signal);
        }
    }

    fn pause(&self, longest: Duration) {
        if self.watch.next(None, longest).is_err() {
            thread::sleep(INTERVAL);
        }
    }
}

/// Returns all living descendants of this process.
pub fn below() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // The process has just ended.
        let Ok(stat) = fs::read(format!("/proc/{id}/stat")) else { continue };
        if let Some((is_alive, parent)) = state_of(&stat) {
            children.entry(parent).or_default().push((id, is_alive));
        }
    }
    let mut found = vec![(rustix::process::getpid().as_raw_nonzero().get(), false)];
    let mut next = 0;
    while let Some((parent, _)) = found.get(next) {
        found.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    found.into_iter().filter(|(_, is_alive)| *is_alive).filter_map(|(id, _)| Pid::from_raw(id)).collect()
}

/// Returns the parent of this process according to `/proc`, even if the parent is outside of its namespace.
///
/// # Errors
/// Returns an error if `/proc` is not available.
pub fn parent() -> io::Result<u32> {
    let stat = fs::read("/proc/self/stat")?;
    let parent = state_of(&stat).and_then(|(_, parent)| u32::try_from(parent).ok());
    parent.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses `/proc/ID/stat`: whether the process is alive, and its parent. The process name may contain any character, so
/// the search starts at its closing parenthesis.
fn state_of(stat: &[u8]) -> Option<(bool, i32)> {
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut words = std::str::from_utf8(&stat[behind..]).ok()?.split_ascii_whitespace();
    let state = words.next()?;
    Some((!matches!(state, "Z" | "X" | "x"), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_parsed_after_any_name() {
        assert_eq!(state_of(b"12 (sh) S 1 12 12 0"), Some((true, 1)));
        assert_eq!(state_of(b"12 (a) Z 9 (\xff) R 34 12"), Some((true, 34)));
        assert_eq!(state_of(b"12 (sh) Z 7 12"), Some((false, 7)));
        assert_eq!(state_of(b"12"), None);
    }

    #[test]
    fn parent_is_found() {
        assert_eq!(parent().unwrap(), std::os::unix::process::parent_id());
    }
}
