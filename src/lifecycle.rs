//! What the process asks of the system: descriptors at the start; signals at the end, of which the first drains and the
//! second stops at once.

use tokio_util::sync::CancellationToken;

/// The signal of a file that would grow past the limit of its process.
const SIGXFSZ: i32 = 25;

/// Lets the process have so many file descriptors, if it may: each connection is one. Returns how many it has; `None` is
/// any number.
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
/// If signals cannot be heard.
pub fn on_signals(drain: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Once it is heard, a file that may not grow any more fails its write, as on a full disk, and ends nothing.
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
        tracing::info!("{name}: no new calls are taken; running ones may end");
        drain.cancel();
        let name = next().await;
        tracing::warn!("{name} again: stopped at once");
        std::process::exit(1);
    });
    Ok(())
}
