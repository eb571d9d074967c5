//! Tests of the schema module.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{CheckedArguments, CompiledSchema, Role, SchemaError, Violation, compile};

mod backtracking;
mod coercing;
mod correcting;
mod defaulting;
mod explaining;
mod properties;
mod refusing;

fn input(schema: Value) -> CompiledSchema {
    compile(&schema, Role::Input).unwrap()
}

/// Compiles an input schema with one property `x`.
fn of_x(schema: Value) -> CompiledSchema {
    input(json!({"type": "object", "properties": {"x": schema}}))
}

fn refused(schema: Value) -> SchemaError {
    compile(&schema, Role::Input).unwrap_err()
}

fn checked(compiled: &CompiledSchema, arguments: Value) -> CheckedArguments {
    compiled.check(&Arc::new(arguments), true).unwrap()
}

fn wrong(compiled: &CompiledSchema, arguments: Value) -> Vec<Violation> {
    compiled.check(&Arc::new(arguments), true).unwrap_err()
}
