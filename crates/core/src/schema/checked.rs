//! Checks of schemas without keeping the compiled form, and the memory of schemas that passed.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Role, SchemaError, bounds, compile};

/// The SHA-256 hash of a schema and its role. Equal schemas compile to equal validators.
pub type SchemaHash = [u8; 32];

/// Maximum number of remembered schemas, of 32 bytes each.
const MAX_REMEMBERED: usize = 8192;

/// Schemas that compiled. A schema that is imported, checked with its definition and registered compiles once.
static VALID: LazyLock<Mutex<HashSet<SchemaHash>>> = LazyLock::new(Mutex::default);

/// Returns the hash of a schema with its role.
#[must_use]
pub fn hash_of(schema: &Value, role: Role) -> SchemaHash {
    let mut hasher = Sha256::new_with_prefix([role as u8]);
    // Hashing cannot fail, and neither can the serialization of a value.
    let _ = serde_json::to_writer(&mut Writer(&mut hasher), schema);
    hasher.finalize().into()
}

/// Checks that a schema compiles. The result of a valid schema is remembered.
///
/// # Errors
/// Returns the same [`SchemaError`] as [`compile`].
pub fn check(schema: &Value, role: Role) -> Result<(), SchemaError> {
    // Only a schema of limited size is hashed.
    bounds::size(schema)?;
    let hash = hash_of(schema, role);
    if valid().contains(&hash) {
        return Ok(());
    }
    compile(schema, role)?;
    let mut valid = valid();
    if valid.len() >= MAX_REMEMBERED {
        valid.clear();
    }
    valid.insert(hash);
    Ok(())
}

fn valid() -> std::sync::MutexGuard<'static, HashSet<SchemaHash>> {
    VALID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to a hasher in blocks.
struct Writer<'a>(&'a mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_schema_is_rejected_each_time() {
        let schema = json!({"type": "array"});
        let first = check(&schema, Role::Input).unwrap_err();
        assert_eq!(
            (check(&schema, Role::Input).unwrap_err(), compile(&schema, Role::Input).unwrap_err()),
            (first.clone(), first)
        );
        assert!(check(&schema, Role::Output).is_ok(), "the role is a part of the hash");
        assert!(check(&schema, Role::Output).is_ok() && check(&schema, Role::Input).is_err());
    }
}
