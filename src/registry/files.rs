//! The tools folder: definitions as `*.json` and `*.toml`, one or an array each, read again when they change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Registry, check};
use crate::domain::{Time, ToolDefinition, tool};

pub mod scripts;

/// How long a change may settle before the folder is read, so that a half-written file is not.
const SETTLE: Duration = Duration::from_millis(50);
/// How often the folder is looked at even if nothing was heard: some file systems tell nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);

/// The folder and what was last good in each of its files.
#[derive(Debug)]
pub struct ToolsFolder {
    path: PathBuf,
    files: BTreeMap<PathBuf, DefinitionFile>,
    last_valid: BTreeMap<PathBuf, Vec<Dated>>,
    reported: Vec<InvalidFile>,
}

/// A definition and when its file was written.
type Dated = (ToolDefinition, Time);

/// One definition file as it was read, and what came of it.
#[derive(Debug)]
struct DefinitionFile {
    bytes: Vec<u8>,
    written: Time,
    definitions: Result<Vec<ToolDefinition>, String>,
}

/// A file that is not as it should be; its last good state stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl ToolsFolder {
    /// A folder that was not read yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, files: BTreeMap::new(), last_valid: BTreeMap::new(), reported: Vec::new() }
    }

    /// Reads what has changed and shows it; a broken file keeps what was last good in it. Returns the files that are
    /// broken in a way that was not told before.
    ///
    /// # Errors
    /// If the folder itself cannot be read.
    pub fn read(&mut self, registry: &Registry) -> std::io::Result<Vec<InvalidFile>> {
        let found = contents(&self.path)?;
        let same =
            |(path, file): (&PathBuf, &DefinitionFile)| found.get(path) == Some(&(file.bytes.clone(), file.written));
        // A script that was missing may be there now, which changes no definition file.
        let waits = self.files.values().any(|file| file.definitions.is_err() && names_scripts(&file.bytes));
        if found.len() == self.files.len() && self.files.iter().all(same) && !waits {
            return Ok(Vec::new());
        }
        let mut known = std::mem::take(&mut self.files);
        for (path, (bytes, written)) in found {
            let unchanged = known.remove(&path).filter(|file| file.bytes == bytes && file.written == written);
            let unchanged = unchanged.filter(|file| file.definitions.is_ok() || !names_scripts(&file.bytes));
            let file = unchanged.unwrap_or_else(|| {
                let definitions = tried(&path, &bytes, registry);
                DefinitionFile { bytes, written, definitions }
            });
            self.files.insert(path, file);
        }
        let broken = self.choose();
        // Every definition was tried above, and none stands twice.
        if let Err((name, faults)) = registry.show_files(self.last_valid.values().flatten().cloned().collect()) {
            tracing::error!(tool = name, reason = check::summary(&faults), "the tools folder is not shown");
        }
        let news = broken.iter().filter(|broken| !self.reported.contains(broken)).cloned().collect();
        self.reported = broken;
        Ok(news)
    }

    /// Decides anew what is shown of each file, in the order of their names: a name belongs to the first that has it.
    fn choose(&mut self) -> Vec<InvalidFile> {
        let mut last_good = std::mem::take(&mut self.last_valid);
        let mut broken = Vec::new();
        let mut owners: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (path, file) in &self.files {
            let is_taken = |(definition, _): &&Dated| owners.contains_key(&definition.name);
            let fresh = file.definitions.clone().and_then(|definitions| {
                let dated: Vec<Dated> = definitions.into_iter().map(|one| (one, file.written)).collect();
                match dated.iter().find(is_taken) {
                    Some((taken, _)) => {
                        let owner = &owners[&taken.name];
                        Err(format!("tool \"{}\" is already declared in {}", taken.name, owner.display()))
                    }
                    None => Ok(dated),
                }
            });
            let shown = fresh.unwrap_or_else(|reason| {
                broken.push(InvalidFile { path: path.clone(), reason });
                let mut kept = last_good.remove(path).unwrap_or_default();
                kept.retain(|(definition, _)| !owners.contains_key(&definition.name));
                kept
            });
            owners.extend(shown.iter().map(|(definition, _)| (definition.name.clone(), path.clone())));
            self.last_valid.insert(path.clone(), shown);
        }
        broken
    }
}

/// Returns `true` if a definition file may name a script next to it.
fn names_scripts(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|word| word == b"argv")
}

/// A file's definitions, each of which could be registered.
fn tried(path: &Path, bytes: &[u8], registry: &Registry) -> Result<Vec<ToolDefinition>, String> {
    let mut definitions = definitions(path, bytes)?;
    for definition in &mut definitions {
        scripts::resolve(definition, path)
            .map_err(|faults| format!("tool \"{}\": {}", definition.name, check::summary(&faults)))?;
    }
    for (index, definition) in definitions.iter().enumerate() {
        let name = &definition.name;
        registry
            .try_definition(definition.clone())
            .map_err(|faults| format!("tool \"{name}\": {}", check::summary(&faults)))?;
        if definitions[..index].iter().any(|other| other.name == *name) {
            return Err(format!("tool \"{name}\" is declared twice"));
        }
    }
    Ok(definitions)
}

/// The definitions in one file.
fn definitions(path: &Path, bytes: &[u8]) -> Result<Vec<ToolDefinition>, String> {
    let list = values(path, bytes)?;
    list.into_iter().map(|value| tool::read_definition(value).map_err(|error| error.to_string())).collect()
}

/// What is written in one file where definitions are.
///
/// # Errors
/// Returns why it is not JSON or TOML, for people.
pub fn values(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, String> {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let value: Value = if is_toml {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        toml::from_str(text).map_err(|error| error.to_string())?
    } else {
        let (value, replaced) = tool::parse_definition(bytes, before).map_err(|error| error.to_string())?;
        for bound in replaced {
            let file = path.display().to_string();
            tracing::warn!(file, bound = bound.to_string(), "a bound of a schema was replaced");
        }
        value
    };
    Ok(match value {
        Value::Array(list) => list,
        // TOML has no array at its root: a file of several has `[[tools]]`.
        Value::Object(mut one) if one.len() == 1 && one.get("tools").is_some_and(Value::is_array) => {
            match one.remove("tools") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            }
        }
        one => vec![one],
    })
}

/// How many tokens of a path in a file tell the definition: none, its index, or `tools` and its index.
fn before(path: &[String]) -> usize {
    match path.first().map(String::as_str) {
        Some("tools") => 2,
        Some(token) if token.bytes().all(|byte| byte.is_ascii_digit()) => 1,
        _ => 0,
    }
}

/// The folder's definition files, what is in them, and when they were written.
fn contents(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, (Vec<u8>, Time)>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let wanted = path.extension().is_some_and(|extension| extension == "json" || extension == "toml");
        if wanted && !hidden && path.is_file() {
            // A file may go between listing and reading.
            if let Ok(bytes) = std::fs::read(&path) {
                let at = written(&path);
                found.insert(path, (bytes, at));
            }
        }
    }
    Ok(found)
}

/// When a file was last written.
fn written(path: &Path) -> Time {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Time(since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
}

/// Reads the folder whenever it changes, until `stop`.
pub async fn watch(mut folder: ToolsFolder, registry: Arc<Registry>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let heard = changed.clone();
    let watcher = notify::recommended_watcher(move |event| {
        if may_have_changed(&event) {
            heard.notify_one();
        }
    });
    let watcher =
        watcher.and_then(|mut watcher| watcher.watch(&folder.path, RecursiveMode::NonRecursive).map(|()| watcher));
    if let Err(error) = &watcher {
        tracing::warn!(%error, "the tools folder cannot be watched; it is looked at every {LOOK_ANYWAY:?}");
    }
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => tokio::time::sleep(SETTLE).await,
            () = tokio::time::sleep(LOOK_ANYWAY) => {}
        }
        let shown = registry.clone();
        let read = tokio::task::spawn_blocking(move || {
            let broken = folder.read(&shown);
            (folder, broken)
        });
        let Ok((back, broken)) = read.await else { return };
        folder = back;
        report(&folder.path, broken);
    }
}

/// Whether something in the folder may be another than before. That somebody has read in it is an event too, and this
/// service does so after each change: it would never rest.
fn may_have_changed(event: &notify::Result<Event>) -> bool {
    const WRITTEN: AccessKind = AccessKind::Close(AccessMode::Write);
    !matches!(event, Ok(Event { kind: EventKind::Access(access), .. }) if *access != WRITTEN)
}

/// Tells the log which files are broken.
pub fn report(folder: &Path, broken: std::io::Result<Vec<InvalidFile>>) {
    match broken {
        Ok(broken) => {
            for InvalidFile { path, reason } in broken {
                tracing::error!(file = %path.display(), reason, "a tools file is broken; its last good state is kept");
            }
        }
        Err(error) => tracing::error!(folder = %folder.display(), %error, "the tools folder cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_folder_is_no_change_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        std::fs::write(&old, "{}").unwrap();
        let (sender, heard) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event| {
            if may_have_changed(&event) {
                // The test may have seen enough.
                let _ = sender.send(event);
            }
        })
        .unwrap();
        watcher.watch(folder.path(), RecursiveMode::NonRecursive).unwrap();
        assert_eq!(contents(folder.path()).unwrap().len(), 1);
        std::fs::write(&new, "{}").unwrap();
        // Events come in their order: what reading had brought would be the first.
        let first = heard.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(first.paths, [new.as_path()]);
    }
}
