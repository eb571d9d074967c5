//! Opening files and folders of the workspace, with errors for a model.

use cap_std::fs::Dir;

use super::file::{self, OpenError, OpenFile};
use super::path::WorkspacePath;
use super::{Workspace, near};
use crate::tool::ToolError;

impl Workspace {
    /// Opens a regular file.
    ///
    /// # Errors
    /// Returns an error for the model: what the path is instead, or which similar paths exist.
    pub(super) fn open_file(&self, place: &WorkspacePath) -> Result<OpenFile, ToolError> {
        file::open(&self.root, place.path()).map_err(|not| match not {
            OpenError::Folder => file::folder(place),
            OpenError::Special => file::special(place),
            OpenError::Io(error) => near::missing(self, place, &error),
        })
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// Returns an error for the model, like [`Workspace::open_file`].
    pub(super) fn open_folder(&self, place: &WorkspacePath) -> Result<Dir, ToolError> {
        self.root.open_dir(place.path()).map_err(|error| match self.root.metadata(place.path()) {
            Ok(metadata) if !metadata.is_dir() => ToolError::new(format!("\"{place}\" is a file, not a folder")),
            _ => near::missing(self, place, &error),
        })
    }
}
