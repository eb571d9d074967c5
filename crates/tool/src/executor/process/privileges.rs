//! The privileges of a program: its user, and no capabilities.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use rustix::{fs::Gid, fs::Uid};

use super::program::RunAs;

/// Changes the user of this process, without supplementary groups. This process must have only one thread.
///
/// # Errors
/// Returns the error of the kernel, such as [`Errno::PERM`] if the service is not root.
pub fn become_user(user: RunAs) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // Otherwise the files of this process in `/proc` would belong to root.
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Removes every capability that an executed program could gain.
///
/// # Errors
/// Returns the error of the kernel, unless this process has no capabilities anyway.
pub fn drop_bounding_set() -> io::Result<()> {
    let has_any = !capabilities(None)?.permitted.is_empty();
    for capability in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(capability) {
            Ok(false) => {}
            // The kernel defines no further capabilities.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
            Ok(true) => match remove_capability_from_bounding_set(capability) {
                // A process without capabilities cannot do this and need not: its programs gain none.
                Err(Errno::PERM) if !has_any => return Ok(()),
                done => done?,
            },
        }
    }
    Ok(())
}

/// Drops all capabilities of this process and of the program that it executes.
///
/// # Errors
/// Returns the error of the kernel.
pub fn drop_capabilities() -> io::Result<()> {
    drop_bounding_set()?;
    // Fails only on kernels without ambient capabilities.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Parses the setting: empty, a user's name, or `UID:GID`. Root is rejected.
///
/// # Errors
/// Returns a message with the reason if the setting is invalid.
pub fn user_named(text: &str) -> Result<Option<RunAs>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let numbers = text.split_once(':').map(|(uid, gid)| (uid.parse().ok(), gid.parse().ok()));
    let user = match numbers {
        Some((Some(uid), Some(gid))) => RunAs { uid, gid },
        Some(_) => return Err(format!("\"{text}\" is neither the name of a user nor UID:GID")),
        None => match nix::unistd::User::from_name(text) {
            Ok(Some(user)) => RunAs { uid: user.uid.as_raw(), gid: user.gid.as_raw() },
            Ok(None) => {
                return Err(format!("unknown user \"{text}\" on this machine; use UID:GID for a user without a name"));
            }
            Err(error) => return Err(format!("cannot look up the user \"{text}\": {error}")),
        },
    };
    let own = rustix::process::geteuid().as_raw();
    match user.uid {
        // (uid_t) -1 means "unchanged" in system calls.
        0 | u32::MAX => Err(format!("\"{text}\" is not an unprivileged user")),
        // The service already runs as this user.
        uid if uid == own => Ok(None),
        _ if own != 0 => Err(format!("only a service that runs as root can run programs as \"{text}\"")),
        _ => Ok(Some(user)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_a_name_or_ids_and_never_root() {
        assert_eq!(user_named(" "), Ok(None));
        let is_root = rustix::process::geteuid().is_root();
        match user_named("4321:1234") {
            Ok(user) => assert_eq!((is_root, user), (true, Some(RunAs { uid: 4321, gid: 1234 }))),
            Err(reason) => assert!(!is_root && reason.contains("runs as root"), "{reason}"),
        }
        for bad in ["root", "0:0", "0:5", "4294967295:5", "no_such_user_here", "1:x", "x:1", "1:2:3", "-1:1"] {
            assert!(user_named(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
