//! seccomp: sockets that a program without the network cannot make. A network namespace does not bound Unix sockets that are
//! files, nor those of virtual machines (`AF_VSOCK`), and Landlock bounds TCP only.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter};

/// On x86-64, calls of the x32 interface have this bit.
const X32: i64 = 0x4000_0000;
/// The part of a socket's type that is not a flag.
const TYPE: u64 = 0xf;

/// Refuses this process, and all below it, sockets that reach other programs: Unix sockets and those of virtual machines, or
/// all of them unless the network is empty anyway. Pairs of connected sockets remain, but for datagrams, which could be
/// connected again. `io_uring` is refused, as it makes sockets past the filter, and so are calls of another architecture
/// (they end the program).
///
/// # Errors
/// Returns a sentence, if this machine has no such filter.
pub fn deny_sockets(has_namespace: bool) -> Result<(), String> {
    let filter = filter(has_namespace).map_err(|error| error.to_string())?;
    apply_filter(&filter).map_err(|error| error.to_string())
}

fn filter(has_namespace: bool) -> Result<BpfProgram, seccompiler::Error> {
    let is = |argument, value: i32| SeccompCondition::new(argument, Dword, Eq, value.unsigned_abs().into());
    let of_type = |kind: i32| SeccompCondition::new(1, Dword, MaskedEq(TYPE), kind.unsigned_abs().into());
    let socket = match has_namespace {
        true => vec![SeccompRule::new(vec![is(0, libc::AF_UNIX)?])?, SeccompRule::new(vec![is(0, libc::AF_VSOCK)?])?],
        // Whatever they are.
        false => Vec::new(),
    };
    let pair = vec![
        SeccompRule::new(vec![is(0, libc::AF_UNIX)?, of_type(libc::SOCK_DGRAM)?])?,
        // Which is made one of datagrams.
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
