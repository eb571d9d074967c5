//! The limits of OpenAI's strict schemas.

use serde_json::{Map, Value};

use super::Unlowerable;

const MAX_PROPERTIES: usize = 5_000;
const MAX_LEVELS: usize = 10;
const MAX_VALUES: usize = 1_000;
/// Maximum total number of characters in names and enum values.
const MAX_CHARS: usize = 120_000;
/// Enums with more strings than this have a limit of their own.
const LONG_LIST: usize = 250;
const MAX_LIST_CHARS: usize = 15_000;

#[derive(Default)]
struct Counts {
    properties: usize,
    values: usize,
    chars: usize,
    levels: usize,
    list_too_long: bool,
}

/// Checks a finished schema against the limits.
///
/// # Errors
/// Returns [`Unlowerable`] with the first limit that is exceeded.
pub(super) fn strict(schema: &Value) -> Result<(), Unlowerable> {
    let mut counts = Counts::default();
    counts.schema(schema, 0);
    let Counts { properties, values, chars, levels, list_too_long } = counts;
    let what = if properties > MAX_PROPERTIES {
        format!("has {properties} properties, the maximum is {MAX_PROPERTIES}")
    } else if levels > MAX_LEVELS {
        format!("is nested {levels} levels deep, the maximum is {MAX_LEVELS}")
    } else if values > MAX_VALUES {
        format!("lists {values} values in enums, the maximum is {MAX_VALUES}")
    } else if chars > MAX_CHARS {
        format!("has {chars} characters in names and values, the maximum is {MAX_CHARS}")
    } else if list_too_long {
        format!("has an enum of more than {LONG_LIST} strings with more than {MAX_LIST_CHARS} characters in total")
    } else {
        return Ok(());
    };
    Err(Unlowerable { pointer: String::new(), message: format!("strict: the schema {what}") })
}

impl Counts {
    fn schema(&mut self, schema: &Value, level: usize) {
        let Value::Object(keywords) = schema else { return };
        let container = keywords.contains_key("properties") || keywords.contains_key("items");
        let level = level + usize::from(container);
        self.levels = self.levels.max(level);
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(members)) => {
                    self.properties += members.len();
                    self.members(members, level);
                }
                ("$defs", Value::Object(members)) => self.members(members, 0),
                ("anyOf", Value::Array(schemas)) => schemas.iter().for_each(|schema| self.schema(schema, level)),
                ("items", schema) => self.schema(schema, level),
                ("enum", Value::Array(values)) => {
                    let chars: usize = values.iter().filter_map(Value::as_str).map(|text| text.chars().count()).sum();
                    self.values += values.len();
                    self.chars += chars;
                    self.list_too_long |= values.len() > LONG_LIST && chars > MAX_LIST_CHARS;
                }
                _ => {}
            }
        }
    }

    fn members(&mut self, members: &Map<String, Value>, level: usize) {
        for (name, schema) in members {
            self.chars += name.chars().count();
            self.schema(schema, level);
        }
    }
}
