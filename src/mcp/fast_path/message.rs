//! The messages of the fast path. A message with an unknown or repeated member is left to rmcp.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::domain::json::{DeserializeWeighed, Scale};

/// A request.
#[derive(Debug)]
pub(super) struct Message {
    pub id: Id,
    pub method: Method,
    pub params: Params,
}

/// The id of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

/// A supported method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Call,
    List,
}

impl Method {
    const NAMES: [&str; 2] = ["tools/call", "tools/list"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Params {
    pub name: Option<String>,
    pub arguments: Option<Map<String, Value>>,
    pub meta: Meta,
}

/// The metadata of a request. Members that change nothing are not kept.
#[derive(Debug, Default)]
pub(super) struct Meta {
    /// `true` if the version is 2026-07-28. No other version is read.
    pub has_version: bool,
    /// The capabilities of the client, which are not checked yet.
    pub capabilities: Option<Value>,
}

/// The first revision whose requests have their own metadata.
pub(super) const MODERN: &str = "2026-07-28";
/// The prefix of the members of `_meta` that the protocol defines.
const RESERVED: &str = "io.modelcontextprotocol/";

impl DeserializeWeighed for Message {
    fn deserialize_weighed<'de, D: Deserializer<'de>>(
        deserializer: D,
        scale: &mut Scale<'_>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor(scale))
    }
}

struct MessageVisitor<'s, 'a>(&'s mut Scale<'a>);

impl<'de> Visitor<'de> for MessageVisitor<'_, '_> {
    type Value = Message;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let (mut version, mut id, mut method, mut params) = (None, None, None, None);
        while let Some(member) = map.next_key_seed(OneOf(&["jsonrpc", "id", "method", "params"]))? {
            match member {
                0 => once(&mut version, map.next_value_seed(OneOf(&["2.0"]))?)?,
                1 => once(&mut id, map.next_value_seed(IdSeed)?)?,
                2 => once(&mut method, map.next_value_seed(OneOf(&Method::NAMES))?)?,
                _ => once(&mut params, map.next_value_seed(ParamsSeed(self.0))?)?,
            }
        }
        let (Some(_), Some(id), Some(method)) = (version, id, method) else {
            return Err(A::Error::custom("not a request"));
        };
        let method = if method == 0 { Method::Call } else { Method::List };
        Ok(Message { id, method, params: params.unwrap_or_default() })
    }
}

struct ParamsSeed<'s, 'a>(&'s mut Scale<'a>);

impl<'de> DeserializeSeed<'de> for ParamsSeed<'_, '_> {
    type Value = Params;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Params, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ParamsSeed<'_, '_> {
    type Value = Params;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
        let (mut name, mut arguments, mut meta) = (None, None, None);
        while let Some(member) = map.next_key_seed(OneOf(&["name", "arguments", "_meta"]))? {
            match member {
                0 => once(&mut name, map.next_value::<String>()?)?,
                1 => match map.next_value_seed(&mut *self.0)? {
                    Value::Object(members) => once(&mut arguments, members)?,
                    _ => return Err(A::Error::custom("not an object")),
                },
                _ => once(&mut meta, map.next_value_seed(MetaSeed(&mut *self.0))?)?,
            }
        }
        Ok(Params { name, arguments, meta: meta.unwrap_or_default() })
    }
}

struct MetaSeed<'s, 'a>(&'s mut Scale<'a>);

impl<'de> DeserializeSeed<'de> for MetaSeed<'_, '_> {
    type Value = Meta;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Meta, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetaSeed<'_, '_> {
    type Value = Meta;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let (mut version, mut capabilities) = (None, None);
        while let Some(member) = map.next_key_seed(MetaMember)? {
            match member {
                Member::Version => once(&mut version, map.next_value_seed(OneOf(&[MODERN]))?)?,
                Member::Capabilities => once(&mut capabilities, map.next_value_seed(&mut *self.0)?)?,
                // Parsed because its numbers are checked, too.
                Member::Other => drop(map.next_value_seed(&mut *self.0)?),
            }
        }
        Ok(Meta { has_version: version.is_some(), capabilities })
    }
}

/// A member of `_meta`.
enum Member {
    Version,
    Capabilities,
    /// A member that changes nothing.
    Other,
}

struct MetaMember;

impl<'de> DeserializeSeed<'de> for MetaMember {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Member, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MetaMember {
    type Value = Member;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a member of the metadata")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Member, E> {
        match name.strip_prefix(RESERVED) {
            Some("protocolVersion") => Ok(Member::Version),
            Some("clientCapabilities") => Ok(Member::Capabilities),
            Some("clientInfo") => Ok(Member::Other),
            None if name != "progressToken" => Ok(Member::Other),
            _ => Err(E::custom("a member with a meaning")),
        }
    }
}

/// The index of a text among these.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "one of {:?}", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        self.0.iter().position(|one| *one == text).ok_or_else(|| E::custom("another text"))
    }
}

struct IdSeed;

impl<'de> DeserializeSeed<'de> for IdSeed {
    type Value = Id;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Id, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for IdSeed {
    type Value = Id;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an id")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Id, E> {
        Ok(Id::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
        i64::try_from(number).map(Id::Number).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
        Ok(Id::Text(text.to_owned()))
    }
}

/// Fills a slot, unless the member is repeated.
fn once<T, E: Error>(slot: &mut Option<T>, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom("a repeated member")),
    }
}
