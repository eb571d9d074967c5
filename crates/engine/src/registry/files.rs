//! The tools folder: `*.json` and `*.toml` files with one definition or an array, read again when they change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::declared::DeclaredDefinition;
use super::{Fault, Registry, check, declared_of};
use toolpost_core::domain::{Time, ToolDefinition, tool};

pub mod scripts;

/// Delay between a change and the reading of the folder, so that a file is written completely.
const SETTLE: Duration = Duration::from_millis(50);
/// Interval of reads without a notification, because some file systems send none.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);

/// The tools folder with the last valid definitions of each file.
#[derive(Debug)]
pub struct ToolsFolder {
    path: PathBuf,
    files: BTreeMap<PathBuf, DefinitionFile>,
    last_valid: BTreeMap<PathBuf, Vec<DatedDefinition>>,
    reported: Vec<InvalidFile>,
}

/// A definition and the modification time of its file.
type DatedDefinition = (DeclaredDefinition, Time);

/// The bytes of a file and its modification time.
type FileContent = (Vec<u8>, Time);

/// The content of a definition file and the result of checking it.
#[derive(Debug)]
struct DefinitionFile {
    content: FileContent,
    definitions: Result<Vec<DeclaredDefinition>, String>,
}

/// An invalid definition file. Its last valid definitions stay in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason as text.
    pub reason: String,
}

impl ToolsFolder {
    /// Creates a folder without reading it.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, files: BTreeMap::new(), last_valid: BTreeMap::new(), reported: Vec::new() }
    }

    /// Reads changed files and publishes their definitions; an invalid file keeps its last valid definitions. Returns
    /// the invalid files whose fault was not reported before.
    ///
    /// # Errors
    /// Returns an error if the folder itself cannot be read.
    pub fn read(&mut self, registry: &Registry) -> std::io::Result<Vec<InvalidFile>> {
        let found = contents(&self.path)?;
        let same = |(path, file): (&PathBuf, &DefinitionFile)| found.get(path) == Some(&file.content);
        // A missing script may have been added, which changes no definition file.
        let waits = self.files.values().any(DefinitionFile::may_lack_scripts);
        if found.len() == self.files.len() && self.files.iter().all(same) && !waits {
            return Ok(Vec::new());
        }
        let mut known = std::mem::take(&mut self.files);
        for (path, content) in found {
            let unchanged = known.remove(&path).filter(|file| file.content == content && !file.may_lack_scripts());
            let file = unchanged.unwrap_or_else(|| {
                let definitions = checked(&path, &content.0, registry);
                DefinitionFile { content, definitions }
            });
            self.files.insert(path, file);
        }
        let broken = self.choose();
        // Every definition was checked above, and names are unique.
        if let Err((name, faults)) = registry.show_declared(self.last_valid.values().flatten().cloned().collect()) {
            tracing::error!(
                tool = name,
                reason = check::summary(&faults),
                "the definitions of the tools folder cannot be published"
            );
        }
        let news = broken.iter().filter(|broken| !self.reported.contains(broken)).cloned().collect();
        self.reported = broken;
        Ok(news)
    }

    /// Selects the definitions of each file, in the order of the paths: the first file with a name owns it.
    fn choose(&mut self) -> Vec<InvalidFile> {
        let mut last_good = std::mem::take(&mut self.last_valid);
        let mut broken = Vec::new();
        let mut owners: BTreeMap<Arc<str>, PathBuf> = BTreeMap::new();
        for (path, file) in &self.files {
            let is_taken = |(definition, _): &&DatedDefinition| owners.contains_key(definition.name());
            let fresh = file.definitions.clone().and_then(|definitions| {
                let dated: Vec<DatedDefinition> = definitions.into_iter().map(|one| (one, file.content.1)).collect();
                match dated.iter().find(is_taken) {
                    Some((taken, _)) => {
                        let (name, owner) = (taken.name(), &owners[taken.name()]);
                        Err(format!("tool \"{name}\" is already declared in {}", owner.display()))
                    }
                    None => Ok(dated),
                }
            });
            let shown = fresh.unwrap_or_else(|reason| {
                broken.push(InvalidFile { path: path.clone(), reason });
                let mut kept = last_good.remove(path).unwrap_or_default();
                kept.retain(|(definition, _)| !owners.contains_key(definition.name()));
                kept
            });
            owners.extend(shown.iter().map(|(definition, _)| (definition.name().clone(), path.clone())));
            self.last_valid.insert(path.clone(), shown);
        }
        broken
    }
}

impl DefinitionFile {
    /// Returns `true` if the file is invalid, maybe because a script next to it is missing.
    fn may_lack_scripts(&self) -> bool {
        self.definitions.is_err() && self.content.0.windows(4).any(|word| word == b"argv")
    }
}

/// Returns the definitions of a file after checking each one.
fn checked(path: &Path, bytes: &[u8], registry: &Registry) -> Result<Vec<DeclaredDefinition>, String> {
    let mut definitions = definitions(path, bytes)?;
    for definition in &mut definitions {
        scripts::resolve(definition, path)
            .map_err(|faults| format!("tool \"{}\": {}", definition.name, check::summary(&faults)))?;
    }
    for (index, definition) in definitions.iter().enumerate() {
        let name = &definition.name;
        registry
            .try_definition(definition)
            .map_err(|faults| format!("tool \"{name}\": {}", check::summary(&faults)))?;
        if definitions[..index].iter().any(|other| other.name == *name) {
            return Err(format!("tool \"{name}\" is declared twice"));
        }
    }
    let declared: Result<Vec<DeclaredDefinition>, Vec<Fault>> = definitions.iter().map(declared_of).collect();
    declared.map_err(|faults| check::summary(&faults))
}

/// Parses the definitions of a file.
fn definitions(path: &Path, bytes: &[u8]) -> Result<Vec<ToolDefinition>, String> {
    let list = values(path, bytes)?;
    list.into_iter().map(|value| tool::read_definition(value).map_err(|error| error.to_string())).collect()
}

/// Parses the JSON values of the definitions in a file.
///
/// # Errors
/// Returns a message if the file is not valid JSON or TOML.
pub fn values(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, String> {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let mut value: Value = if is_toml {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        toml::from_str(text).map_err(|error| error.to_string())?
    } else {
        let (value, replaced) = tool::parse_definition(bytes, before).map_err(|error| error.to_string())?;
        for bound in replaced {
            let file = path.display().to_string();
            tracing::warn!(file, bound = bound.to_string(), "a bound in a schema was replaced");
        }
        value
    };
    // TOML has no array at its root, so a file with several definitions has `[[tools]]`.
    let only = value.as_object_mut().filter(|members| members.len() == 1);
    if let Some(list @ Value::Array(_)) = only.and_then(|members| members.get_mut("tools")) {
        value = list.take();
    }
    Ok(match value {
        Value::Array(list) => list,
        one => vec![one],
    })
}

/// Returns how many tokens of a path in a file lead to the definition: 0, 1 (its index) or 2 (`tools` and its index).
fn before(path: &[String]) -> usize {
    match path.first().map(String::as_str) {
        Some("tools") => 2,
        Some(token) if token.bytes().all(|byte| byte.is_ascii_digit()) => 1,
        _ => 0,
    }
}

/// Returns the content and the modification time of each definition file in the folder.
fn contents(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, FileContent>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_definition = path.extension().is_some_and(|extension| extension == "json" || extension == "toml");
        if is_definition && !hidden && path.is_file() {
            // A file may be deleted between listing and reading.
            if let Ok(bytes) = std::fs::read(&path) {
                let at = written(&path);
                found.insert(path, (bytes, at));
            }
        }
    }
    Ok(found)
}

/// Returns the modification time of a file.
fn written(path: &Path) -> Time {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Time(since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
}

/// Reads the folder after each change, until `stop`.
pub async fn watch(mut folder: ToolsFolder, registry: Arc<Registry>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    let watcher = notify::recommended_watcher(move |event| {
        if may_have_changed(&event) {
            notify.notify_one();
        }
    });
    let watcher =
        watcher.and_then(|mut watcher| watcher.watch(&folder.path, RecursiveMode::NonRecursive).map(|()| watcher));
    if let Err(error) = &watcher {
        tracing::warn!(%error, "the tools folder cannot be watched; polling every {LOOK_ANYWAY:?}");
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

/// Returns `true` if an event may change the content of the folder. Read accesses are ignored: the service reads the
/// folder after each change and would trigger itself in an endless loop.
fn may_have_changed(event: &notify::Result<Event>) -> bool {
    const WRITTEN: AccessKind = AccessKind::Close(AccessMode::Write);
    !matches!(event, Ok(Event { kind: EventKind::Access(access), .. }) if *access != WRITTEN)
}

/// Logs invalid files.
pub fn report(folder: &Path, broken: std::io::Result<Vec<InvalidFile>>) {
    match broken {
        Ok(broken) => {
            for InvalidFile { path, reason } in broken {
                tracing::error!(file = %path.display(), reason, "a tools file is invalid; its last valid definitions are kept");
            }
        }
        Err(error) => tracing::error!(folder = %folder.display(), %error, "the tools folder cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_folder_is_not_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        std::fs::write(&old, "{}").unwrap();
        let (sender, events) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event| {
            if may_have_changed(&event) {
                // The test may have ended already.
                let _ = sender.send(event);
            }
        })
        .unwrap();
        watcher.watch(folder.path(), RecursiveMode::NonRecursive).unwrap();
        assert_eq!(contents(folder.path()).unwrap().len(), 1);
        std::fs::write(&new, "{}").unwrap();
        // Events arrive in order, so an event caused by reading would be the first.
        let first = events.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(first.paths, [new.as_path()]);
    }
}
