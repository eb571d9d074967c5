//! The last step before the program: this process applies the limits and the sandbox to itself and executes the
//! program.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::process::{Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit};
use serde_json::{Map, Value, json};

use super::program::Confinement;
use super::{landlock, namespace, privileges, seccomp};
use toolpost_core::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// The value for a restriction that could not be enforced.
const NOT_ENFORCED: &str = "not_enforced";

/// Runs `__confine PARENT NOTES CONFINEMENT PROGRAM ARGUMENT…`. Writes the enforced restrictions, or the reason for a
/// failed start, as lines to the parent's pipe `NOTES`. The pipe is closed when the program starts.
pub fn main(arguments: &[String]) -> ExitCode {
    let [parent, notes, confinement, program, rest @ ..] = arguments else { return ExitCode::from(2) };
    let Ok(mut notes) = File::options().write(true).open(notes) else { return ExitCode::from(2) };
    let Err(reason) = exec_program(parent, confinement, program, rest, &mut notes);
    // Fails only if the parent has exited, so that the reason is no longer needed.
    let _ = writeln!(notes, "{}", json!({"refused": reason}));
    ExitCode::from(127)
}

fn exec_program(
    parent: &str,
    confinement: &str,
    program: &str,
    arguments: &[String],
    notes: &mut File,
) -> Result<std::convert::Infallible, String> {
    let confinement: Confinement = serde_json::from_str(confinement).map_err(|error| error.to_string())?;
    die_with(parent)?;
    // The programs that this process executes inherit only standard input, output and error.
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    // The helpers block the signals that they wait for, and the program would inherit that.
    SigSet::empty().thread_set_mask().map_err(|error| error.to_string())?;
    let sandbox = enforce(&confinement, parent)?;
    writeln!(notes, "{}", json!({"sandbox": sandbox})).map_err(|error| error.to_string())?;
    let error = Command::new(program).args(arguments).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => format!("program \"{program}\" not found"),
        _ => format!("the program \"{program}\" cannot be started: {error}"),
    })
}

/// Kills this process when its helper dies. A parent that died before this call sends no signal, so the parent is
/// checked.
fn die_with(parent: &str) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let now = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if now.as_deref() == Some(parent) { Ok(()) } else { Err("its helper has exited".to_owned()) }
}

fn enforce(confinement: &Confinement, parent: &str) -> Result<Map<String, Value>, String> {
    let denies = confinement.network == NetworkAccess::Deny;
    let mut has_namespace = denies && namespace::leave_network().is_ok();
    let limits = limit(confinement.limits)?;
    let is_confined = confinement.mode != SandboxMode::Off;
    if is_confined {
        // If memory runs out, the kernel kills the program before the service.
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    }
    if let Some(user) = confinement.user {
        privileges::drop_bounding_set().map_err(|error| format!("capabilities cannot be dropped: {error}"))?;
        privileges::become_user(user)
            .map_err(|error| format!("it cannot run as the user {}:{}: {error}", user.uid, user.gid))?;
        // A change of user resets the death signal of the parent.
        die_with(parent)?;
    }
    if denies && !has_namespace {
        has_namespace = namespace::leave_network_by_user_namespace().is_ok();
    }
    if confinement.drop_capabilities {
        privileges::drop_capabilities().map_err(|error| format!("capabilities cannot be dropped: {error}"))?;
    }
    if is_confined {
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no_new_privs cannot be set: {error}"))?;
    }
    let landlock = match is_confined {
        true => landlock::restrict(confinement, denies).map_err(|error| format!("Landlock: {error}"))?,
        false => None,
    };
    let has_filter = denies && is_confined && seccomp::deny_sockets(has_namespace).is_ok();
    let has_tcp_rules = landlock.is_some_and(|version| version >= landlock::FIRST_WITH_TCP);
    let network = match (denies, has_namespace, has_filter, has_tcp_rules) {
        (false, ..) => "allowed",
        (true, true, ..) => "namespace",
        (true, false, true, _) => "seccomp",
        (true, false, false, true) => "no_tcp",
        (true, false, false, false) => NOT_ENFORCED,
    };
    let unix_sockets = match (denies, has_filter) {
        (false, _) => "allowed",
        (true, true) => "denied",
        (true, false) => NOT_ENFORCED,
    };
    if let Some(missing) = missing(confinement.mode, landlock.is_some(), network, unix_sockets) {
        return Err(format!("its sandbox is required, but this machine lacks {missing}"));
    }
    let enforced = json!({
        "mode": confinement.mode, "landlock": landlock.is_some(), "landlock_version": landlock, "network": network,
        "unix_sockets": unix_sockets, "no_new_privs": is_confined, "no_capabilities": confinement.drop_capabilities,
        "uid": rustix::process::geteuid().as_raw(), "limits": limits,
    });
    let Value::Object(enforced) = enforced else { return Err("nothing was enforced".to_owned()) };
    Ok(enforced)
}

/// Returns the required restriction that could not be enforced, if any.
fn missing(mode: SandboxMode, has_landlock: bool, network: &str, unix_sockets: &str) -> Option<&'static str> {
    match mode {
        SandboxMode::BestEffort | SandboxMode::Off => None,
        SandboxMode::Required if !has_landlock => Some("Landlock"),
        SandboxMode::Required if network == NOT_ENFORCED => Some("a way to deny the network"),
        SandboxMode::Required if unix_sockets == NOT_ENFORCED => Some("a way to deny Unix sockets (seccomp)"),
        SandboxMode::Required => None,
    }
}

/// Sets all limits except the number of processes, which the helper enforces: the kernel counts processes per user, not
/// per program, and ignores the limit for root. Returns the effective limits, which cannot exceed those of the service.
fn limit(mut limits: ResourceLimits) -> Result<ResourceLimits, String> {
    let ResourceLimits { cpu_ms, memory_bytes, processes: _, file_bytes, open_files } = &mut limits;
    set(Resource::Core, &mut Some(0), 0)?;
    let mut seconds = cpu_ms.map(|ms| ms.div_ceil(1000));
    // The kernel sends SIGXCPU at the soft limit, which a program can handle, and SIGKILL at the hard limit.
    set(Resource::Cpu, &mut seconds, 1)?;
    // The address space is not limited, because many runtimes reserve much more than they use.
    set(Resource::Data, memory_bytes, 0)?;
    set(Resource::Fsize, file_bytes, 0)?;
    set(Resource::Nofile, open_files, 0)?;
    *cpu_ms = cpu_ms.zip(seconds).map(|(ms, seconds)| ms.min(seconds.saturating_mul(1000)));
    Ok(limits)
}

/// Sets one soft limit, and the hard limit to the sum of `limit` and `above`.
fn set(resource: Resource, limit: &mut Option<u64>, above: u64) -> Result<(), String> {
    let Some(limit) = limit else { return Ok(()) };
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    *limit = (*limit).min(allowed);
    let both = Rlimit { current: Some(*limit), maximum: Some(limit.saturating_add(above).min(allowed)) };
    setrlimit(resource, both).map_err(|error| format!("the limit {resource:?} cannot be set: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_required_sandbox_reports_missing_restrictions() {
        use SandboxMode::{BestEffort, Off, Required};
        assert_eq!(missing(Required, false, "allowed", "allowed"), Some("Landlock"));
        assert_eq!(missing(Required, true, NOT_ENFORCED, "denied"), Some("a way to deny the network"));
        assert_eq!(missing(Required, true, "namespace", NOT_ENFORCED), Some("a way to deny Unix sockets (seccomp)"));
        assert_eq!(missing(Required, true, "allowed", "allowed"), None);
        for mode in [BestEffort, Off] {
            assert_eq!(missing(mode, false, NOT_ENFORCED, NOT_ENFORCED), None);
        }
    }
}
