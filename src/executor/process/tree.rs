//! The processes below this one, and their end.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Between two looks while they end.
const PULSE: Duration = Duration::from_millis(5);
/// How long their end is waited for: one that hangs in the kernel must not hang its call.
const PATIENCE: Duration = Duration::from_secs(5);

/// All living processes below this one. Orphans among them have this one for their parent, as it is their subreaper.
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

/// Whether it lives, and its parent, of `/proc/ID/stat`. The name in it may hold anything, so what counts is behind it.
fn state_of(stat: &[u8]) -> Option<(bool, i32)> {
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut words = std::str::from_utf8(&stat[behind..]).ok()?.split_ascii_whitespace();
    let state = words.next()?;
    Some((!matches!(state, "Z" | "X" | "x"), words.next()?.parse().ok()?))
}

/// Sends a signal to the group of the program, which hears it as a whole, and to whatever has left that.
pub fn signal(group: Pid, signal: Signal) {
    // Who has ended meanwhile, or belongs to somebody else, hears nothing.
    let _ = kill_process_group(group, signal);
    for id in below() {
        let _ = kill_process(id, signal);
    }
}

/// Kills until nobody is left.
pub fn kill_all(group: Pid) {
    let begun = Instant::now();
    loop {
        // A group hears it at once, even one that grows all the time.
        let _ = kill_process_group(group, Signal::KILL);
        let left = below();
        if left.is_empty() || begun.elapsed() > PATIENCE {
            return;
        }
        for id in left {
            let _ = kill_process(id, Signal::KILL);
        }
        thread::sleep(PULSE);
    }
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
}
