//! What expressions see of a call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::Value as Json;

use crate::domain::tool::Annotations;
use crate::domain::{Call, Source, Time, ToolDefinition, json};

/// The variables of expressions.
pub const VARIABLES: [&str; 6] = ["tool", "args", "caller", "session", "call", "now"];
/// Maximum size of the arguments that expressions look at, in bytes of JSON.
pub const MAX_ARGUMENTS: usize = 256 * 1024;

/// A value that borrows texts of the call and its tool.
type Boxed<'a> = Box<dyn Val + 'a>;

/// A call as expressions see it. Each variable is converted when it is first used.
pub struct Input<'a> {
    call: &'a Call,
    tool: Option<(&'a ToolDefinition, Source)>,
    arguments: &'a Json,
    now: Time,
    converted: [OnceLock<Boxed<'a>>; VARIABLES.len()],
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

    fn convert(&self, variable: usize) -> Boxed<'a> {
        let call = self.call;
        match VARIABLES[variable] {
            "tool" => self.tool(),
            "args" => value_of(self.arguments),
            "caller" => {
                let identity = call.caller.as_deref();
                let scopes = identity.into_iter().flat_map(|one| one.scopes.iter()).map(|scope| text(scope.as_str()));
                map([
                    ("tenant", text(call.tenant.as_str())),
                    ("key", optional(identity.and_then(|one| one.key).map(|key| text(key.to_string())))),
                    ("subject", optional(identity.map(|one| text(&*one.subject)))),
                    ("scopes", list(scopes.collect())),
                ])
            }
            "session" => map([("id", optional(call.session.as_deref().map(text)))]),
            "call" => map([
                ("batch", optional(call.batch_id.map(|id| text(id.to_string())))),
                ("index", Box::new(CelInt::from(i64::from(call.index)))),
                ("priority", Box::new(CelInt::from(i64::from(call.priority)))),
            ]),
            _ => {
                let now = chrono::DateTime::from_timestamp_micros(self.now.0).unwrap_or_default();
                Box::new(CelTimestamp::from(now.fixed_offset()))
            }
        }
    }

    fn tool(&self) -> Boxed<'a> {
        let Some((tool, source)) = self.tool else {
            return map([("name", text(&*self.call.name)), ("tags", list(Vec::new())), ("groups", list(Vec::new()))]);
        };
        // What an upstream server says about its own tools must not loosen a rule.
        let hints = if source == Source::Mcp { Annotations::default() } else { tool.annotations };
        map([
            ("name", text(&*tool.name)),
            ("source", text(source.as_str())),
            ("tags", list(tool.tags.iter().map(text).collect())),
            ("groups", list(tool.groups.iter().map(text).collect())),
            (
                "annotations",
                map([
                    ("read_only", boolean(hints.read_only)),
                    ("destructive", boolean(hints.destructive)),
                    ("idempotent", boolean(hints.idempotent)),
                    ("open_world", boolean(hints.open_world)),
                ]),
            ),
        ])
    }
}

impl VariableResolver for Input<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let place = VARIABLES.iter().position(|known| *known == variable)?;
        // Lent, because a copy would copy all that the variable contains.
        Some(CowVal::Borrowed(&**self.converted[place].get_or_init(|| self.convert(place))))
    }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Boxed<'a> {
    Box::new(CelString::from(text.into()))
}

fn boolean<'a>(value: bool) -> Boxed<'a> {
    Box::new(CelBool::from(value))
}

fn optional(value: Option<Boxed<'_>>) -> Boxed<'_> {
    value.unwrap_or_else(|| Box::new(CelNull))
}

fn list(items: Vec<Boxed<'_>>) -> Boxed<'_> {
    Box::new(CelList::from(items))
}

fn map<'a>(members: impl IntoIterator<Item = (&'a str, Boxed<'a>)>) -> Boxed<'a> {
    let members = members.into_iter().map(|(name, value)| (CelMapKey::from(name), value));
    Box::new(CelMap::from(members.collect::<HashMap<_, _>>()))
}

/// Converts JSON: whole numbers become `int` or `uint`, others `double`.
fn value_of(json: &Json) -> Boxed<'_> {
    match json {
        Json::Null => Box::new(CelNull),
        Json::Bool(value) => boolean(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Box::new(CelInt::from(value)),
            (_, Some(value), _) => Box::new(CelUInt::from(value)),
            (.., Some(value)) => Box::new(CelDouble::from(value)),
            _ => Box::new(CelNull),
        },
        Json::String(value) => text(value),
        Json::Array(items) => list(items.iter().map(value_of).collect()),
        Json::Object(members) => map(members.iter().map(|(name, value)| (name.as_str(), value_of(value)))),
    }
}

fn count(json: &Json) -> usize {
    match json {
        Json::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}
