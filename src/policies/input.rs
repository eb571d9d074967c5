//! What expressions see of a call.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::objects::{Key, Map};
use serde_json::Value as Json;

use crate::domain::tool::Annotations;
use crate::domain::{Call, Source, Time, ToolDefinition, json};

/// The variables of expressions.
pub const VARIABLES: [&str; 6] = ["tool", "args", "caller", "session", "call", "now"];
/// Maximum size of the arguments that expressions look at, in bytes of JSON.
pub const MAX_ARGUMENTS: usize = 256 * 1024;

/// A call as expressions see it. Each variable is converted when it is first used.
pub struct Input<'a> {
    call: &'a Call,
    tool: Option<(&'a ToolDefinition, Source)>,
    arguments: &'a Json,
    now: Time,
    converted: [OnceLock<Option<Box<dyn Val>>>; VARIABLES.len()],
}

impl<'a> Input<'a> {
    /// Creates the input of a call with these arguments. `tool` is `None` if the tool no longer exists.
    #[must_use]
    pub fn new(call: &'a Call, tool: Option<(&'a ToolDefinition, Source)>, arguments: &'a Json, now: Time) -> Self {
        Self { call, tool, arguments, now, converted: Default::default() }
    }

    /// Returns `true` if the arguments are too large to be looked at.
    pub(super) fn is_too_large(&self) -> bool {
        self.arguments.as_object().is_some_and(|members| json::size_of(members) > MAX_ARGUMENTS)
    }

    /// Returns the number of values within the arguments.
    pub(super) fn values(&self) -> usize {
        count(self.arguments)
    }

    fn convert(&self, variable: usize) -> cel::Value {
        let call = self.call;
        match VARIABLES[variable] {
            "tool" => self.tool(),
            "args" => value_of(self.arguments),
            "caller" => {
                let identity = call.caller.as_deref();
                let scopes =
                    identity.map(|identity| identity.scopes.iter().map(|scope| text(scope.as_str())).collect());
                map([
                    ("tenant", text(call.tenant.as_str())),
                    ("key", optional(identity.and_then(|one| one.key).map(|key| text(&key.to_string())))),
                    ("subject", optional(identity.map(|one| text(&one.subject)))),
                    ("scopes", cel::Value::List(Arc::new(scopes.unwrap_or_default()))),
                ])
            }
            "session" => map([("id", optional(call.session.as_deref().map(text)))]),
            "call" => map([
                ("batch", optional(call.batch_id.map(|id| text(&id.to_string())))),
                ("index", cel::Value::Int(call.index.into())),
                ("priority", cel::Value::Int(call.priority.into())),
            ]),
            _ => {
                let now = chrono::DateTime::from_timestamp_micros(self.now.0).unwrap_or_default();
                cel::Value::Timestamp(now.fixed_offset())
            }
        }
    }

    fn tool(&self) -> cel::Value {
        let Some((tool, source)) = self.tool else {
            return map([("name", text(&self.call.name)), ("tags", list(&[])), ("groups", list(&[]))]);
        };
        // What an upstream server says about its own tools must not loosen a rule.
        let hints = if source == Source::Mcp { Annotations::default() } else { tool.annotations };
        let source = match source {
            Source::Builtin => "builtin",
            Source::Mcp => "mcp",
            Source::File => "file",
            Source::Api => "api",
        };
        map([
            ("name", text(&tool.name)),
            ("source", text(source)),
            ("tags", list(&tool.tags)),
            ("groups", list(&tool.groups)),
            (
                "annotations",
                map([
                    ("read_only", hints.read_only.into()),
                    ("destructive", hints.destructive.into()),
                    ("idempotent", hints.idempotent.into()),
                    ("open_world", hints.open_world.into()),
                ]),
            ),
        ])
    }
}

impl VariableResolver for Input<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let place = VARIABLES.iter().position(|known| *known == variable)?;
        // Lent, because the conversion copies all that a variable contains.
        let value = self.converted[place].get_or_init(|| self.convert(place).try_into().ok());
        value.as_deref().map(CowVal::Borrowed)
    }
}

fn text(text: &str) -> cel::Value {
    cel::Value::String(Arc::new(text.to_owned()))
}

fn optional(value: Option<cel::Value>) -> cel::Value {
    value.unwrap_or(cel::Value::Null)
}

fn list(items: &[String]) -> cel::Value {
    cel::Value::List(Arc::new(items.iter().map(|item| text(item)).collect()))
}

fn map<const N: usize>(members: [(&str, cel::Value); N]) -> cel::Value {
    let members = members.into_iter().map(|(name, value)| (Key::from(name), value));
    cel::Value::Map(Map { map: Arc::new(members.collect::<HashMap<_, _>>()) })
}

/// Converts JSON: whole numbers become `int` or `uint`, others `double`.
fn value_of(json: &Json) -> cel::Value {
    match json {
        Json::Null => cel::Value::Null,
        Json::Bool(value) => (*value).into(),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => cel::Value::Int(value),
            (_, Some(value), _) => cel::Value::UInt(value),
            (.., Some(value)) => cel::Value::Float(value),
            _ => cel::Value::Null,
        },
        Json::String(value) => text(value),
        Json::Array(items) => cel::Value::List(Arc::new(items.iter().map(value_of).collect())),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (Key::from(name.as_str()), value_of(value)));
            cel::Value::Map(Map { map: Arc::new(members.collect::<HashMap<_, _>>()) })
        }
    }
}

fn count(json: &Json) -> usize {
    match json {
        Json::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}
