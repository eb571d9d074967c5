//! The compiled schemas in use, shared by tools with equal schemas.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

use toolpost_core::schema::{self, CompiledSchema, Role, SchemaError, SchemaHash};

/// Number of schemas from which unused ones are removed from the table.
const MIN_CLEANUP: usize = 64;

/// The compiled schemas by hash. The tools that use a schema keep it alive.
#[derive(Debug, Default)]
pub(super) struct Validators(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    schemas: HashMap<SchemaHash, Weak<CompiledSchema>>,
    /// The size at which unused schemas are removed next.
    cleanup_at: usize,
}

impl Validators {
    /// Compiles a schema, or returns the compiled form of an equal schema that is in use.
    pub fn compile(&self, schema: &Value, role: Role) -> Result<Arc<CompiledSchema>, SchemaError> {
        let hash = schema::hash_of(schema, role);
        if let Some(shared) = self.table().schemas.get(&hash).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        // Compiled without the lock, because it can take long.
        let compiled = Arc::new(schema::compile(schema, role)?);
        let mut table = self.table();
        if let Some(shared) = table.schemas.get(&hash).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        if table.schemas.len() >= table.cleanup_at.max(MIN_CLEANUP) {
            table.schemas.retain(|_, schema| schema.strong_count() > 0);
            table.cleanup_at = table.schemas.len() * 2;
        }
        table.schemas.insert(hash, Arc::downgrade(&compiled));
        Ok(compiled)
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_schemas_share_one_validator_while_it_is_in_use() {
        let validators = Validators::default();
        let schema = |number: usize| json!({"type": "object", "maxProperties": number});
        let first = validators.compile(&schema(1), Role::Input).unwrap();
        assert!(Arc::ptr_eq(&first, &validators.compile(&schema(1), Role::Input).unwrap()));
        assert!(!Arc::ptr_eq(&first, &validators.compile(&schema(1), Role::Output).unwrap()));
        (2..1000).for_each(|number| drop(validators.compile(&schema(number), Role::Input).unwrap()));
        assert!(validators.table().schemas.len() <= MIN_CLEANUP + 1, "unused schemas are removed");
        assert!(Arc::ptr_eq(&first, &validators.compile(&schema(1), Role::Input).unwrap()));
    }
}
