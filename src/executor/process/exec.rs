//! Starting helpers: the same executable, without inherited descriptors.

use std::io;
use std::process::Child;

use rustix::process::Pid;

/// Path of this executable; it stays valid when the file is replaced.
pub const OWN_FILE: &str = "/proc/self/exe";

/// Marks all descriptors except standard input, output and error as close-on-exec.
pub fn close_others() {
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
}

/// Returns the id of a child that the caller reaps without [`Child::wait`].
///
/// # Errors
/// Returns an error if the id is not positive, which no system assigns.
pub fn id(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
