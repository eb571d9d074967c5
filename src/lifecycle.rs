//! From a signal to the end: the first one drains, the second one stops at once.

use tokio_util::sync::CancellationToken;

/// Fires `drain` at the first SIGTERM or SIGINT, and ends the process at the second.
///
/// # Errors
/// If signals cannot be heard.
pub fn on_signals(drain: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
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
