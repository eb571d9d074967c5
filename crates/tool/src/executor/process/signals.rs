//! The events that a helper waits for without a thread: signals, and a descriptor for the end of the service.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A descriptor for the signals of this process, which are blocked. Programs that it starts have all signals unblocked.
pub struct SignalWatch(SignalFd);

/// The events since the last wait; none if the wait timed out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SignalState {
    /// A signal requested the end of this process.
    pub terminate_requested: bool,
    /// Child processes may have exited.
    pub child_exited: bool,
    /// The service has exited or requests the end of the program.
    pub parent_exited: bool,
}

impl SignalWatch {
    /// Blocks the signals and creates the descriptor.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn new() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for the next events, at most for `longest`.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn next(&self, service: Option<BorrowedFd>, longest: Duration) -> io::Result<SignalState> {
        let ready = |flags: Option<PollFlags>| flags.is_some_and(|flags| !flags.is_empty());
        let mut descriptors = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(service.map(|service| PollFd::new(service, PollFlags::POLLIN)));
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let parent_exited = descriptors.get(1).is_some_and(|service| ready(service.revents()));
        let mut events = SignalState { parent_exited, ..SignalState::default() };
        while let Some(signal) = self.0.read_signal()? {
            match i32::try_from(signal.ssi_signo) {
                Ok(signal) if signal == Signal::SIGCHLD as i32 => events.child_exited = true,
                _ => events.terminate_requested = true,
            }
        }
        Ok(events)
    }
}
