//! A seccomp filter for the sockets of programs without network access. A network namespace does not cover Unix sockets
//! in the file system or sockets of virtual machines (`AF_VSOCK`), and Landlock covers only TCP.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter};

/// The bit of x32 system call numbers on x86-64.
const X32: i64 = 0x4000_0000;
/// The mask of a socket's type without its flags.
const TYPE: u64 = 0xf;

/// Denies this process and its descendants all sockets that reach other programs. In a network namespace these are Unix
/// sockets and sockets of virtual machines, otherwise sockets of every family. Pairs of connected sockets are allowed,
/// except datagram sockets, which can be reconnected. `io_uring` is denied because it creates sockets without the
/// filter. A system call of another architecture kills the program.
///
/// # Errors
/// Returns a message if the kernel does not support the filter.
pub fn deny_sockets(has_namespace: bool) -> Result<(), String> {
    let filter = filter(has_namespace).map_err(|error| error.to_string())?;
    apply_filter(&filter).map_err(|error| error.to_string())
}

fn filter(has_namespace: bool) -> Result<BpfProgram, seccompiler::Error> {
    let is = |argument, value: i32| SeccompCondition::new(argument, Dword, Eq, value.unsigned_abs().into());
    let of_type = |kind: i32| SeccompCondition::new(1, Dword, MaskedEq(TYPE), kind.unsigned_abs().into());
    let socket = match has_namespace {
        true => vec![SeccompRule::new(vec![is(0, libc::AF_UNIX)?])?, SeccompRule::new(vec![is(0, libc::AF_VSOCK)?])?],
        // No conditions: sockets of every family are denied.
        false => Vec::new(),
    };
    let pair = vec![
        SeccompRule::new(vec![is(0, libc::AF_UNIX)?, of_type(libc::SOCK_DGRAM)?])?,
        // The kernel converts raw Unix sockets to datagram sockets.
        SeccompRule::new(vec![is(0, libc::AF_UNIX)?, of_type(libc::SOCK_RAW)?])?,
    ];
    let calls = [(libc::SYS_socket, socket), (libc::SYS_socketpair, pair), (libc::SYS_io_uring_setup, Vec::new())];
    let mut rules = BTreeMap::new();
    for (call, conditions) in calls {
        if cfg!(target_arch = "x86_64") {
            rules.insert(call | X32, conditions.clone());
        }
        rules.insert(call, conditions);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_filters_compile() {
        assert!(!filter(true).unwrap().is_empty() && !filter(false).unwrap().is_empty());
    }
}
