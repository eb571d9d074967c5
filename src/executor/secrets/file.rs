//! The secrets file: `NAME=value` lines, read again when it changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A secrets file. Cheap to clone; not shown by `Debug`.
#[derive(Clone)]
pub struct SecretsFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    read: Mutex<Read>,
}

/// What was read, and of which state of the file.
#[derive(Default)]
struct Read {
    state: Option<State>,
    values: HashMap<String, String>,
}

/// Changes with the file.
type State = (Option<SystemTime>, u64, u64);

impl SecretsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is none. No line is repeated.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let state = state_of(&path).map_err(|error| error.to_string())?;
        let values = read(&path)?;
        warn_if_open(&path);
        let read = Mutex::new(Read { state: Some(state), values });
        Ok(Self(Arc::new(Inner { path, read })))
    }

    /// The value of the secret `name`, as the file has it now. What was last good in it stays while it is broken.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let Inner { path, read: held } = &*self.0;
        let state = state_of(path).ok();
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() && state != held.state {
            match read(path) {
                Ok(values) => held.values = values,
                Err(reason) => {
                    tracing::error!(file = %path.display(), reason, "the secrets file is broken; its last good state is kept");
                }
            }
            held.state = state;
            warn_if_open(path);
        }
        held.values.get(name).cloned()
    }
}

fn state_of(path: &Path) -> std::io::Result<State> {
    let metadata = std::fs::metadata(path)?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Ok((metadata.modified().ok(), metadata.len(), number))
}

/// Lines as in an environment file: empty ones and those that begin with `#` say nothing; a value in quotes loses them.
fn read(path: &Path) -> Result<HashMap<String, String>, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut values = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once('=').map(|(name, value)| (name.trim(), unquoted(value.trim())));
        let Some((name, value)) = pair.filter(|(name, _)| super::is_valid_secret_name(name)) else {
            return Err(format!("line {} is not NAME=value", index + 1));
        };
        values.insert(name.to_owned(), value.to_owned());
    }
    Ok(values)
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

#[cfg(unix)]
fn warn_if_open(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        tracing::warn!(file = %path.display(), "the secrets file can be read by others; `chmod 600` keeps it to its owner");
    }
}

#[cfg(not(unix))]
fn warn_if_open(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_secrets_and_a_change_counts_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        std::fs::write(&path, "# mail\nMAIL_KEY = a=b \n\nQUOTED=\"with # and blanks \"\n").unwrap();
        let file = SecretsFile::open(path.clone()).unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("a=b"));
        assert_eq!(file.get("QUOTED").as_deref(), Some("with # and blanks "));
        assert_eq!(file.get("NONE"), None);
        std::fs::write(&path, "MAIL_KEY=other value").unwrap();
        assert_eq!((file.get("MAIL_KEY").as_deref(), file.get("QUOTED")), (Some("other value"), None));
        std::fs::write(&path, "what is this").unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("other value"), "the last good state stays");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("other value"));
    }

    #[test]
    fn a_broken_file_is_refused_by_its_line_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        for broken in ["A=1\nsk-hidden", "A-B=sk-hidden\n", "=sk-hidden"] {
            std::fs::write(&path, broken).unwrap();
            let reason = SecretsFile::open(path.clone()).err().unwrap();
            assert!(reason.starts_with("line ") && !reason.contains("hidden"), "{reason}");
        }
        assert!(SecretsFile::open(folder.path().join("none")).is_err());
    }
}
