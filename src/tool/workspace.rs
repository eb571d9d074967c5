//! The workspace tools: the files of one folder, and commands in it. Everything is opened by descriptor, beneath that of the
//! folder, so that neither paths nor symbolic links lead out of it, however they change meanwhile.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::BuiltinTool;
use crate::executor::Processes;

mod bash;
mod edit;
mod file;
mod ignore_rules;
mod list;
mod near;
mod open;
mod path;
mod read;
mod replace;
mod search;
mod walk;
mod write;

pub use bash::{Bash, Shell};
pub use edit::Edit;
pub use list::List;
pub use read::Read;
pub use search::Search;
pub use write::Write;

/// The heading that they are listed under.
const CATEGORY: &str = "workspace";

/// The folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Arc<Dir>,
    /// Where it really is.
    path: Arc<Path>,
    /// Where it was said to be, which may lead through symbolic links.
    given: Arc<Path>,
    /// Held while a file is changed: of two changes of one file none is lost.
    changing: Arc<Mutex<()>>,
}

impl Workspace {
    /// Opens the folder.
    ///
    /// # Errors
    /// If it is none, or cannot be entered.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.canonicalize()?;
        let root = Dir::open_ambient_dir(&path, ambient_authority())?;
        // A folder that cannot be listed is better known now than at the first call.
        root.entries()?;
        let given = std::path::absolute(folder)?;
        Ok(Self { root: Arc::new(root), path: path.into(), given: given.into(), changing: Arc::default() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whoever has it is the only one that changes files.
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its tools, in the order of their names; `bash` if there is a [`Shell`].
#[must_use]
pub fn tools(workspace: &Workspace, shell: Option<Shell>, processes: &Processes) -> Vec<BuiltinTool> {
    let bash = shell.map(|shell| BuiltinTool::new(Bash::new(workspace.clone(), shell, processes.clone())));
    let files = [
        BuiltinTool::new(Edit::new(workspace.clone())),
        BuiltinTool::new(List::new(workspace.clone())),
        BuiltinTool::new(Read::new(workspace.clone())),
        BuiltinTool::new(Search::new(workspace.clone())),
        BuiltinTool::new(Write::new(workspace.clone())),
    ];
    bash.into_iter().chain(files).collect()
}
