//! Tests of the schema module.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Checked, Compiled, Role, SchemaError, Violation, compile};

mod backtracking;
mod coercing;
mod correcting;
mod defaulting;
mod explaining;
mod properties;
mod refusing;

fn input(schema: Value) -> Compiled {
    compile(&schema, Role::Input).unwrap()
}

/// Compiles an input schema with one property `x`.
fn of_x(schema: Value) -> Compiled {
    input(json!({"type": "object", "properties": {"x": schema}}))
}

fn refused(schema: Value) -> SchemaError {
    compile(&schema, Role::Input).unwrap_err()
}

fn checked(compiled: &Compiled, arguments: Value) -> Checked {
    compiled.check(&Arc::new(arguments), true).unwrap()
}

fn wrong(compiled: &Compiled, arguments: Value) -> Vec<Violation> {
    compiled.check(&Arc::new(arguments), true).unwrap_err()
}
