//! What expressions see of a call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::Value as Json;
use uuid::Uuid;

use toolpost_core::domain::tool::Annotations;
use toolpost_core::domain::{Call, Identity, Source, Tenant, Time, ToolDefinition};

/// The variables of expressions.
pub const VARIABLES: [&str; 6] = ["tool", "args", "caller", "session", "call", "now"];
/// Maximum size of the arguments that expressions look at, in bytes of JSON.
pub const MAX_ARGUMENTS: usize = 256 * 1024;
/// Maximum size of the arguments about which the async threads evaluate expressions, in bytes of JSON.
const MAX_INLINE_ARGUMENTS: usize = 8 * 1024;

/// A value that borrows texts of the call and its tool.
type BoxedValue<'a> = Box<dyn Val + 'a>;

/// The parts of a call that expressions see.
#[derive(Debug, Clone)]
pub struct Input {
    tool_name: Arc<str>,
    tenant: Tenant,
    caller: Option<Arc<Identity>>,
    session: Option<Arc<str>>,
    batch_id: Option<Uuid>,
    index: u32,
    priority: i32,
    tool: Option<(Arc<ToolDefinition>, Source)>,
    arguments: Arc<Json>,
    now: Time,
}

impl Input {
    /// Creates the input of a call with these arguments. `tool` is `None` if the tool no longer exists.
    #[must_use]
    pub fn new(call: &Call, tool: Option<(&Arc<ToolDefinition>, Source)>, arguments: &Arc<Json>, now: Time) -> Self {
        Self {
            tool_name: call.name.clone(),
            tenant: call.tenant.clone(),
            caller: call.caller.clone(),
            session: call.session.clone(),
            batch_id: call.batch_id,
            index: call.index,
            priority: call.priority,
            tool: tool.map(|(tool, source)| (tool.clone(), source)),
            arguments: arguments.clone(),
            now,
        }
    }

    /// Returns the size of the arguments, as far as it matters. The cost is bounded by [`MAX_ARGUMENTS`], not by the size.
    pub(super) fn size(&self) -> ArgumentsSize {
        let mut left = MAX_ARGUMENTS;
        match spend(&self.arguments, &mut left) {
            false => ArgumentsSize::TooLarge,
            true if MAX_ARGUMENTS - left > MAX_INLINE_ARGUMENTS => ArgumentsSize::Large,
            true => ArgumentsSize::Small,
        }
    }
}

/// The size of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentsSize {
    /// The async threads evaluate expressions about them.
    Small,
    /// Expressions about them are evaluated on another thread.
    Large,
    /// Expressions cannot look at them.
    TooLarge,
}

/// Takes the size of a value as JSON, in bytes and without escapes, from what is left. Returns `false` if it is more.
fn spend(json: &Json, left: &mut usize) -> bool {
    // With a comma each.
    let own = match json {
        Json::String(text) => text.len() + 3,
        Json::Number(number) => match number.as_u64() {
            Some(digits) => 2 + digits.checked_ilog10().unwrap_or(0) as usize,
            None => 20,
        },
        Json::Null | Json::Bool(_) => 5,
        Json::Array(_) | Json::Object(_) => 3,
    };
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match json {
        Json::Array(items) => items.iter().all(|item| spend(item, left)),
        Json::Object(members) => members.iter().all(|(name, member)| {
            let rest = left.checked_sub(name.len() + 4);
            *left = rest.unwrap_or(0);
            rest.is_some() && spend(member, left)
        }),
        _ => true,
    }
}

/// The variables of expressions about one call. Each is converted when it is first used.
pub struct Variables<'a> {
    input: &'a Input,
    converted: [OnceLock<BoxedValue<'a>>; VARIABLES.len()],
}

impl<'a> Variables<'a> {
    /// Creates the variables of a call.
    #[must_use]
    pub fn new(input: &'a Input) -> Self {
        Self { input, converted: Default::default() }
    }

    fn convert(&self, variable: usize) -> BoxedValue<'a> {
        let call = self.input;
        match VARIABLES[variable] {
            "tool" => self.tool(),
            "args" => value_of(&call.arguments),
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
                let now = chrono::DateTime::from_timestamp_micros(call.now.0).unwrap_or_default();
                Box::new(CelTimestamp::from(now.fixed_offset()))
            }
        }
    }

    fn tool(&self) -> BoxedValue<'a> {
        let Some((tool, source)) = &self.input.tool else {
            return map([
                ("name", text(&*self.input.tool_name)),
                ("tags", list(Vec::new())),
                ("groups", list(Vec::new())),
            ]);
        };
        // What an upstream server says about its own tools must not loosen a rule.
        let hints = if *source == Source::Mcp { Annotations::default() } else { tool.annotations };
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

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let index = VARIABLES.iter().position(|known| *known == variable)?;
        // Lent, because a copy would copy all that the variable contains.
        Some(CowVal::Borrowed(&**self.converted[index].get_or_init(|| self.convert(index))))
    }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> BoxedValue<'a> {
    Box::new(CelString::from(text.into()))
}

fn boolean<'a>(value: bool) -> BoxedValue<'a> {
    Box::new(CelBool::from(value))
}

fn optional(value: Option<BoxedValue<'_>>) -> BoxedValue<'_> {
    value.unwrap_or_else(|| Box::new(CelNull))
}

fn list(items: Vec<BoxedValue<'_>>) -> BoxedValue<'_> {
    Box::new(CelList::from(items))
}

fn map<'a>(members: impl IntoIterator<Item = (&'a str, BoxedValue<'a>)>) -> BoxedValue<'a> {
    let members = members.into_iter().map(|(name, value)| (CelMapKey::from(name), value));
    Box::new(CelMap::from(members.collect::<HashMap<_, _>>()))
}

/// Converts JSON: whole numbers become `int` or `uint`, others `double`.
fn value_of(json: &Json) -> BoxedValue<'_> {
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
