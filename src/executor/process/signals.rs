//! What a helper waits for, all in one place and without a thread: signals, and a descriptor that tells of the service.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals of this process, which it hears from now on instead of dying of them. Programs that it starts have all signals.
pub struct SignalWatch(SignalFd);

/// What has come. More than one thing may have, or nothing in the time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SignalState {
    /// Somebody wants it to end.
    pub terminate_requested: bool,
    /// Children may have ended.
    pub child_exited: bool,
    /// The service has gone, or wants it to end.
    pub parent_exited: bool,
}

impl SignalWatch {
    /// Hears signals from now on.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for the next thing, no longer than this.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn next(&self, service: Option<BorrowedFd>, longest: Duration) -> io::Result<SignalState> {
        let ready = |flags: Option<PollFlags>| flags.is_some_and(|flags| !flags.is_empty());
        let mut descriptors = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(service.map(|service| PollFd::new(service, PollFlags::POLLIN)));
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_left = descriptors.get(1).is_some_and(|service| ready(service.revents()));
        let mut heard = SignalState { parent_exited: is_left, ..SignalState::default() };
        while let Some(signal) = self.0.read_signal()? {
            match i32::try_from(signal.ssi_signo) {
                Ok(signal) if signal == Signal::SIGCHLD as i32 => heard.child_exited = true,
                _ => heard.terminate_requested = true,
            }
        }
        Ok(heard)
    }
}
