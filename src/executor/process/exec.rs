//! How helpers start one another: this program once more, without descriptors of anybody else.

use std::io;
use std::process::Child;

use rustix::process::Pid;

/// This program, by a name that stays good when its file is replaced.
pub const OWN_FILE: &str = "/proc/self/exe";

/// Nothing that was open before is open in whatever this process starts.
pub fn close_others() {
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
}

/// The id of a child that is waited for by other means.
///
/// # Errors
/// Never, on a system whose ids are positive.
pub fn id(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
