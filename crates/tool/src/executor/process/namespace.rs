//! Kernel namespaces: a process namespace, whose processes cannot see others and all end with the first one, and a
//! network namespace without any network.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Places the next child of this process in a new process namespace. This requires root: in a user namespace, which
/// other users can create, many files would appear to have an unknown owner.
///
/// # Errors
/// Returns an error if the kernel does not allow it. This process is practically unchanged in that case.
pub fn prepare() -> nix::Result<()> {
    // The namespace needs its own `/proc`. Mounting one here is the only way to find out whether it is allowed.
    show()?;
    unshare(CloneFlags::CLONE_NEWPID)
}

/// Mounts a `/proc` for this process and its descendants that shows their process namespace.
///
/// # Errors
/// Returns an error if the kernel does not allow it.
pub fn show() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
}

/// Moves this process to an empty network namespace. This requires root.
///
/// # Errors
/// Returns an error if the kernel does not allow it.
pub fn leave_network() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

/// Moves this process to an empty network namespace without root, by a user namespace that keeps its user and group
/// ids.
///
/// # Errors
/// Returns an error if the kernel does not allow it.
pub fn leave_network_by_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
