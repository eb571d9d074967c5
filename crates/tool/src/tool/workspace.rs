//! Workspace tools: files of one folder, and commands in it. Everything is opened relative to the descriptor of the
//! folder, so neither paths nor symbolic links lead out of it, even if they change concurrently.

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

/// The category of the workspace tools.
const CATEGORY: &str = "workspace";

/// The workspace folder. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Arc<Dir>,
    /// The canonical path.
    path: Arc<Path>,
    /// The configured path, which may contain symbolic links.
    given: Arc<Path>,
    /// Serializes changes of files, so that no change is lost.
    changing: Arc<Mutex<()>>,
}

impl Workspace {
    /// Opens the folder.
    ///
    /// # Errors
    /// Returns an error if it is not a folder or not accessible.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.canonicalize()?;
        let root = Dir::open_ambient_dir(&path, ambient_authority())?;
        // Report a folder that cannot be listed now instead of at the first call.
        root.entries()?;
        let given = std::path::absolute(folder)?;
        Ok(Self { root: Arc::new(root), path: path.into(), given: given.into(), changing: Arc::default() })
    }

    /// Returns the canonical path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the workspace for a change of a file.
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the workspace tools, sorted by name, with `bash` if there is a [`Shell`].
#[must_use]
pub fn tools(workspace: &Workspace, shell: Option<Shell>, processes: &Processes) -> Vec<BuiltinTool> {
    let (workspace, processes) = (workspace.clone(), processes.clone());
    let files = [
        BuiltinTool::new(Edit(workspace.clone())),
        BuiltinTool::new(List(workspace.clone())),
        BuiltinTool::new(Read(workspace.clone())),
        BuiltinTool::new(Search(workspace.clone())),
        BuiltinTool::new(Write(workspace.clone())),
    ];
    let bash = shell.map(|shell| BuiltinTool::new(Bash { workspace, shell, processes }));
    bash.into_iter().chain(files).collect()
}

/// Returns the default path of a tool: the workspace itself.
fn here() -> String {
    ".".to_owned()
}
