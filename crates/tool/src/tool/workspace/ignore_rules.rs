//! Rules for entries that lists and searches skip, from `.gitignore` and `.ignore`.

use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::file;
use super::path::WorkspacePath;

/// Files with rules; on a contradiction the later file takes precedence.
const FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Maximum number of bytes that are read of such a file.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Maximum number of rules in one walk, because each is compiled. Further rules are ignored.
const MAX_RULES: usize = 10_000;

/// The rules of all folders from the workspace down to one folder.
#[derive(Debug, Clone)]
pub(super) struct IgnoreRules {
    of_folders: Vec<Gitignore>,
    /// Number of rules that this walk may still read.
    left: Rc<Cell<usize>>,
}

impl Default for IgnoreRules {
    fn default() -> Self {
        Self { of_folders: Vec::new(), left: Rc::new(Cell::new(MAX_RULES)) }
    }
}

impl IgnoreRules {
    /// Returns the rules together with those of a child folder.
    #[must_use]
    pub fn with_folder(&self, dir: &Dir, path: &WorkspacePath) -> Self {
        let mut builder = GitignoreBuilder::new(path.path());
        let mut rules = self.clone();
        for text in FILES.iter().filter_map(|name| text(dir, name)) {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let Some(left) = rules.left.get().checked_sub(1) else { break };
                rules.left.set(left);
                // An invalid rule is skipped, and the other rules apply, as in Git.
                let _ = builder.add_line(None, line);
            }
        }
        rules.of_folders.extend(builder.build().ok().filter(|own| !own.is_empty()));
        rules
    }

    /// Returns `true` if the rules exclude a path.
    pub fn is_ignored(&self, path: &WorkspacePath, is_folder: bool) -> bool {
        // The rules of the nearest folder take precedence.
        for rules in self.of_folders.iter().rev() {
            match rules.matched(path.path(), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

fn text(dir: &Dir, name: &str) -> Option<String> {
    let mut text = Vec::new();
    let opened = file::open(dir, Path::new(name)).ok()?;
    opened.file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::workspace::Workspace;

    #[test]
    fn rules_beyond_the_maximum_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let text: String = (0..MAX_RULES - 1).map(|number| format!("f{number}\n\n")).collect();
        std::fs::write(folder.path().join(".gitignore"), text).unwrap();
        std::fs::write(folder.path().join("below/.gitignore"), "one\ntwo\n").unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let resolve = |path: &str| workspace.resolve(path).unwrap();
        let above = IgnoreRules::default().with_folder(&workspace.root, &resolve("."));
        let rules = above.with_folder(&workspace.open_folder(&resolve("below")).unwrap(), &resolve("below"));
        let left_out = |path: &str| rules.is_ignored(&resolve(path), false);
        assert!(left_out("f0") && left_out("below/f7") && left_out("below/one"));
        assert!(!left_out("below/two") && !above.is_ignored(&resolve("one"), false));
    }
}
