//! Where a program runs: in a folder that is named, or in one of its own that goes with it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::protocol::{RunAs, WorkDirSpec};

/// A folder to run in; dropping it removes one that was made for that.
pub struct WorkDir {
    path: PathBuf,
    is_own: bool,
}

impl WorkDir {
    /// The one that is named, or a fresh one, which belongs to the user of the program.
    ///
    /// # Errors
    /// A sentence, if there is none.
    pub fn of(place: &WorkDirSpec, user: Option<RunAs>) -> Result<Self, String> {
        match place {
            WorkDirSpec::Folder(path) if path.is_dir() => Ok(Self { path: path.clone(), is_own: false }),
            WorkDirSpec::Folder(path) => Err(format!("its working directory {} is not there", path.display())),
            WorkDirSpec::Temporary(path) => fresh(path, user)
                .map(|path| Self { path, is_own: true })
                .map_err(|error| format!("it cannot have a working directory: {error}")),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.is_own {
            remove(&self.path);
        }
    }
}

/// A folder that only this user can enter.
fn fresh(path: &Path, user: Option<RunAs>) -> io::Result<PathBuf> {
    DirBuilder::new().mode(0o700).create(path)?;
    if let Some(user) = user {
        chown(path, Some(user.uid), Some(user.gid))?;
    }
    path.canonicalize()
}

/// Removes a folder and all that is in it, also what was made read-only. What cannot be removed then is a matter for the
/// machine's own housekeeping.
pub fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        open(path);
        let _ = fs::remove_dir_all(path);
    }
}

/// Lets this user into every folder below; nothing is followed out of it.
fn open(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let below = fs::read_dir(folder).into_iter().flatten().flatten();
        folders
            .extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_read_only_goes_as_well() {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path().join("own");
        let own = fresh(&path, None).unwrap();
        fs::create_dir_all(own.join("a/b")).unwrap();
        fs::write(own.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), own.join("link")).unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        fs::set_permissions(own.join("a/b"), Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(own.join("a"), Permissions::from_mode(0o000)).unwrap();
        remove(&own);
        assert!(!path.exists() && outside.path().join("kept").exists());
    }
}
