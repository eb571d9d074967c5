//! Opening files and folders of the workspace for a model: what cannot be opened is told with what is near it.

use cap_std::fs::Dir;

use super::file::{self, NotOpened, Opened};
use super::place::Place;
use super::{Workspace, near};
use crate::tool::ToolError;

impl Workspace {
    /// Opens the regular file at a place.
    ///
    /// # Errors
    /// In words for a model: what is there instead, or near it.
    pub(super) fn open_file(&self, place: &Place) -> Result<Opened, ToolError> {
        file::open(&self.root, place.path()).map_err(|not| match not {
            NotOpened::Folder => file::folder(place),
            NotOpened::Special => file::special(place),
            NotOpened::Io(error) => near::missing(self, place, &error),
        })
    }

    /// Opens the folder at a place.
    ///
    /// # Errors
    /// Likewise.
    pub(super) fn open_folder(&self, place: &Place) -> Result<Dir, ToolError> {
        self.root.open_dir(place.path()).map_err(|error| match self.root.metadata(place.path()) {
            Ok(metadata) if !metadata.is_dir() => ToolError::new(format!("\"{place}\" is a file, not a folder")),
            _ => near::missing(self, place, &error),
        })
    }
}
