//! Namespaces of the kernel: one of processes, which see and reach nobody outside and all end with the first of them, and one
//! of the network, in which there is none.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The next child of this process is to be the first process of a namespace of its own. Only root can do that: in a user
/// namespace, which others can make, the owners of many files would look like nobody.
///
/// # Errors
/// If there can be none; nothing has changed that matters then.
pub fn prepare() -> nix::Result<()> {
    // Its `/proc` has to show it, or nobody in it finds himself there: whether that can be is known only by doing it.
    show()?;
    unshare(CloneFlags::CLONE_NEWPID)
}

/// Gives this process and those below it a `/proc` that shows the namespace that they are in.
///
/// # Errors
/// If that cannot be.
pub fn show() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
}

/// Takes this process out of the network, as root can.
///
/// # Errors
/// If the kernel refuses.
pub fn leave_network() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

/// The same for a process that is not root: it needs a user namespace for that, in which it stays who it is.
///
/// # Errors
/// If the kernel refuses.
pub fn leave_network_by_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
