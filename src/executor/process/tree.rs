//! The processes below this one, and their end.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group};

use super::signals::SignalWatch;

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Between two rounds while they end.
const PULSE: Duration = Duration::from_millis(10);
/// How long the end of all is waited for: one that hangs in the kernel must not hang its call.
const PATIENCE: Duration = Duration::from_secs(5);

/// One child and all that it starts. Orphans among them become children of this process, as it is their subreaper or the
/// first process of their namespace: so if it has no children, nobody is left.
pub struct Tree<'w> {
    watch: &'w SignalWatch,
    /// The child, which leads its group.
    pub root: Pid,
    /// How the child has ended, if it has.
    pub ended: Option<WaitStatus>,
}

impl<'w> Tree<'w> {
    /// Of this child.
    pub fn new(watch: &'w SignalWatch, root: Pid) -> Self {
        Self { watch, root, ended: None }
    }

    /// Takes leave of everybody who has ended; whether somebody is left.
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

    /// Asks all of them to end, and gives them the time that is theirs.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        // One that stands still hears nothing else.
        self.signal(Signal::CONT);
        let deadline = Instant::now() + GRACE;
        while self.reap() && Instant::now() < deadline {
            self.pause(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Kills until nobody is left; `false` if somebody still is when patience ends.
    pub fn kill(&mut self) -> bool {
        let begun = Instant::now();
        while self.reap() {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            self.signal(Signal::KILL);
            self.pause(PULSE);
        }
        true
    }

    /// Sends a signal to the group of the child, which hears it as a whole, and to whatever has left that.
    fn signal(&self, signal: Signal) {
        // Who has ended meanwhile, or belongs to somebody else, hears nothing.
        let _ = kill_process_group(self.root, signal);
        if signal == Signal::KILL && rustix::process::getpid().is_init() {
            // The first process of a namespace reaches all others at one stroke, however fast they multiply.
            let everybody = nix::unistd::Pid::from_raw(-1);
            let _ = nix::sys::signal::kill(everybody, nix::sys::signal::Signal::SIGKILL);
            return;
        }
        for id in below() {
            let _ = kill_process(id, signal);
        }
    }

    fn pause(&self, longest: Duration) {
        if self.watch.next(None, longest).is_err() {
            thread::sleep(PULSE);
        }
    }
}

/// All living processes below this one.
pub fn below() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // One that has just ended has no more state.
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

/// The parent of this process as `/proc` has it: also where that is no process of its own namespace.
///
/// # Errors
/// If there is no such `/proc`.
pub fn parent() -> io::Result<u32> {
    let stat = fs::read("/proc/self/stat")?;
    let parent = state_of(&stat).and_then(|(_, parent)| u32::try_from(parent).ok());
    parent.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether it lives, and its parent, of `/proc/ID/stat`. The name in it may hold anything, so what counts is behind it.
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
    fn the_state_is_read_behind_any_name() {
        assert_eq!(state_of(b"12 (sh) S 1 12 12 0"), Some((true, 1)));
        assert_eq!(state_of(b"12 (a) Z 9 (\xff) R 34 12"), Some((true, 34)));
        assert_eq!(state_of(b"12 (sh) Z 7 12"), Some((false, 7)));
        assert_eq!(state_of(b"12"), None);
    }

    #[test]
    fn a_process_knows_its_parent() {
        assert_eq!(parent().unwrap(), std::os::unix::process::parent_id());
    }
}
