//! Regular files, opened by descriptor without blocking.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use super::path::{WorkspacePath, fault};
use crate::tool::{Run, ToolError};

/// An open regular file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub file: File,
    pub bytes: usize,
}

/// An error returned by [`open`].
#[derive(Debug)]
pub(super) enum OpenError {
    /// The path is a folder.
    Folder,
    /// The path is a pipe, a socket or a device.
    Special,
    /// The path does not exist or cannot be read.
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a regular file for reading.
pub(super) fn open(dir: &Dir, path: &Path) -> Result<OpenFile, OpenError> {
    // Avoid opening a device, because opening it may already have an effect.
    regular(&dir.metadata(path)?)?;
    let mut options = OpenOptions::new();
    // If a pipe has replaced the file meanwhile, opening it must not block until it has a writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    options.read(true).custom_flags(i32::try_from(flags).unwrap_or_default());
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    Ok(OpenFile { file: file.into_std(), bytes: usize::try_from(metadata.len()).unwrap_or(usize::MAX) })
}

fn regular(metadata: &Metadata) -> Result<(), OpenError> {
    match metadata {
        metadata if metadata.is_dir() => Err(OpenError::Folder),
        metadata if metadata.is_file() => Ok(()),
        _ => Err(OpenError::Special),
    }
}

pub(super) fn folder(path: &WorkspacePath) -> ToolError {
    let example = serde_json::json!({"path": path.to_string()});
    ToolError::new(format!("\"{path}\" is a folder; list its contents with the tool `list`, as in {example}"))
}

pub(super) fn special(path: &WorkspacePath) -> ToolError {
    ToolError::new(format!("\"{path}\" is a pipe, a socket or a device, not a regular file"))
}

/// Returns a function that converts errors of an open file with [`fault`].
pub(super) fn io_fault(path: &WorkspacePath) -> impl Fn(io::Error) -> ToolError + '_ {
    |error| fault(path, &error)
}

/// A reader that fails once the call is cancelled.
pub(super) struct CancellableReader<'r> {
    pub file: File,
    pub run: &'r Run,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.run.is_cancelled() { Err(io::Error::other("the call was cancelled")) } else { self.file.read(buffer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::typed::tests::invocation;

    #[test]
    fn cancelled_reading_stops() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "xy").unwrap();
        let (invocation, _reports) = invocation(serde_json::json!({}));
        let (cancel, run) = (invocation.cancel.clone(), Run::new(invocation));
        let mut reader = CancellableReader { file: file.reopen().unwrap(), run: &run };
        assert_eq!(reader.read(&mut [0]).unwrap(), 1);
        cancel.cancel();
        assert!(reader.read(&mut [0]).is_err());
    }
}
