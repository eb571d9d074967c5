//! Process limits and signals: raises the limit of file descriptors at the start, drains at the first signal and exits
//! at the second.

use tokio_util::sync::CancellationToken;

/// The signal sent when a file would exceed the size limit of the process.
const SIGXFSZ: i32 = 25;

/// Raises the limit of file descriptors to `wanted`, as far as the hard limit allows. Returns the resulting limit;
/// `None` means unlimited.
#[must_use]
pub fn raise_descriptors(wanted: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let now = current?;
    let raised = wanted.min(maximum.unwrap_or(u64::MAX)).max(now);
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok();
    Some(if is_raised { raised } else { now })
}

/// Fires `drain` at the first SIGTERM or SIGINT, and ends the process at the second.
///
/// # Errors
/// Returns an I/O error if a signal handler cannot be installed.
pub fn on_signals(drain: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // With a handler, a write beyond the file size limit fails like a write to a full disk, and does not kill the
    // process.
    drop(signal(SignalKind::from_raw(SIGXFSZ))?);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        tracing::info!("{name}: draining; no new calls are accepted");
        drain.cancel();
        let name = next().await;
        tracing::warn!("{name} again: exiting immediately");
        std::process::exit(1);
    });
    Ok(())
}
