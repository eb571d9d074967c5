//! Validation of arguments and results against schemas.

mod coercion;
mod defaults;
mod output_schema;
mod violations;
