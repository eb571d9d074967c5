//! The secrets file: `NAME=value` lines, read again when it changes.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A secrets file. Not shown by `Debug`.
pub struct SecretsFile {
    path: PathBuf,
    read: Mutex<ParsedFile>,
}

/// The parsed values and the file state that they belong to.
struct ParsedFile {
    state: Option<State>,
    values: HashMap<String, String>,
}

/// Modification time, length and inode; differs after each change of the file.
type State = (Option<SystemTime>, u64, u64);

impl SecretsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns a message if the file cannot be read or a line is invalid. The message never contains the line.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let state = state_of(&path).map_err(|error| error.to_string())?;
        let values = read(&path)?;
        warn_if_open(&path);
        Ok(Self { path, read: Mutex::new(ParsedFile { state: Some(state), values }) })
    }

    /// Returns the current value of the secret `name`. While the file is invalid, its last valid values are used.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let path = &self.path;
        let state = state_of(path).ok();
        let mut held = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() && state != held.state {
            match read(path) {
                Ok(values) => held.values = values,
                Err(reason) => {
                    tracing::error!(file = %path.display(), reason, "the secrets file is invalid; keeping its last valid state");
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
    Ok((metadata.modified().ok(), metadata.len(), metadata.ino()))
}

/// Parses lines as in an environment file: skips empty lines and comments (`#`), and removes quotes around values.
fn read(path: &Path) -> Result<HashMap<String, String>, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > MAX_BYTES {
        return Err(format!("the file is larger than {MAX_BYTES} bytes"));
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

fn warn_if_open(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        tracing::warn!(file = %path.display(), "the secrets file is readable by other users; restrict it with `chmod 600`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_file_apply_immediately() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets");
        std::fs::write(&path, "# mail\nMAIL_KEY = a=b \n\nQUOTED=\"with # and blanks \"\n").unwrap();
        let file = SecretsFile::open(path.clone()).unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("a=b"));
        assert_eq!(file.get("QUOTED").as_deref(), Some("with # and blanks "));
        assert_eq!(file.get("NONE"), None);
        std::fs::write(&path, "MAIL_KEY=other value").unwrap();
        assert_eq!((file.get("MAIL_KEY").as_deref(), file.get("QUOTED")), (Some("other value"), None));
        std::fs::write(&path, "not a secret").unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("other value"), "the last valid state stays");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.get("MAIL_KEY").as_deref(), Some("other value"));
    }

    #[test]
    fn errors_name_the_line_and_not_its_content() {
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
