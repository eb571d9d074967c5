//! Schemas that several declarations share, and keywords for schemas that no attribute of `utoipa` can express.
//!
//! A field declares them with `extensions`: `x-is` is its complete schema except for the description, and `x-together` is a
//! condition on the object that contains the field, such as members that exclude each other. The served document contains
//! neither: `http/openapi_patches` replaces both by what they declare.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The keyword whose value is the complete schema of a field.
pub const IS: &str = "x-is";
/// The keyword whose value is a condition on the object that contains the field.
pub const TOGETHER: &str = "x-together";

/// Schemas that are an `anyOf` with null where they are optional.
pub const OPTIONAL: [&str; 4] = ["HttpUrl", "SecretName", "SessionId", "ArgumentsSchema"];

/// `http://` or `https://`, without a user or a password, and without names in Punycode (which are taken, if they are good).
#[derive(utoipa::ToSchema)]
#[schema(
    max_length = 2048,
    pattern = r"^https?://((([A-WYZa-wyz0-9_-][A-Za-z0-9_-]*|[Xx]([A-MO-Za-mo-z0-9_-][A-Za-z0-9_-]*|[Nn]([A-Za-z0-9_][A-Za-z0-9_-]*|-([A-Za-z0-9_][A-Za-z0-9_-]*)?)?)?)\.)*([A-WYZa-wyz_][A-Za-z0-9_-]*|[Xx]([A-MO-Za-mo-z0-9_-][A-Za-z0-9_-]*|[Nn]([A-Za-z0-9_][A-Za-z0-9_-]*|-([A-Za-z0-9_][A-Za-z0-9_-]*)?)?)?)|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|\[(::|([0-9A-Fa-f]{1,4}:){7}|([0-9A-Fa-f]{1,4}:){1,6}:)[0-9A-Fa-f]{1,4}\])(:([1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?#][!-\[\]-~]*)?$",
    example = "https://example.com/hooks"
)]
pub struct HttpUrl(pub String);

/// The name of a tool or a group.
#[derive(utoipa::ToSchema)]
#[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "get_weather")]
pub struct ToolName(pub String);

/// Of tool names: `*` is any text, `?` any character, `[a-z]` one of these, and `{mail,post}` are alternatives.
#[derive(utoipa::ToSchema)]
#[schema(
    min_length = 1,
    max_length = 256,
    pattern = r"^([A-Za-z0-9_.*?-]|\[!?([A-Za-z0-9_.]|a-z|A-Z|0-9)+\]|\{[A-Za-z0-9_.*?-]+(,[A-Za-z0-9_.*?-]+)*\})+$",
    example = "mail_*"
)]
pub struct Glob(pub String);

/// Of session ids: `*` is any text, and `?` is any character. Brackets and braces in an id match `?`.
#[derive(utoipa::ToSchema)]
#[schema(min_length = 1, max_length = 512, pattern = r"^[^\u0000\[\]{}\\]+$", example = "chat-*")]
pub struct SessionGlob(pub String);

/// The name of a secret of the service.
#[derive(utoipa::ToSchema)]
#[schema(pattern = "^[A-Za-z0-9_]{1,128}$", example = "MAIL_API_KEY")]
pub struct SecretName(pub String);

/// The id of a session.
#[derive(utoipa::ToSchema)]
#[schema(min_length = 1, max_length = 512, pattern = r"^[^\u0000]+$", example = "chat-1")]
pub struct SessionId(pub String);

/// Any JSON. Integers have 64 bits at most; numbers are doubles.
#[derive(utoipa::ToSchema)]
#[schema(value_type = Value)]
pub struct Json(pub Value);

/// Returns a schema that is written out.
#[must_use]
pub fn written(schema: Value) -> RefOr<Schema> {
    let object = utoipa::openapi::ObjectBuilder::new().extensions(Some([(IS, schema)].into_iter().collect()));
    RefOr::T(object.build().into())
}

/// A definition in the body of a request whose path has its name.
pub struct Replacement<T>(PhantomData<T>);

impl<T: ToSchema> PartialSchema for Replacement<T> {
    fn schema() -> RefOr<Schema> {
        // The schemas of `utoipa` can always be written as JSON.
        let mut schema = serde_json::to_value(T::schema()).unwrap_or_default();
        if let Some(required) = schema["required"].as_array_mut() {
            required.retain(|name| name != "name");
        }
        schema["description"] = format!("A {}. The name is taken from the path and can be omitted.", T::name()).into();
        written(schema)
    }
}

impl<T: ToSchema> ToSchema for Replacement<T> {
    fn name() -> Cow<'static, str> {
        T::name().replace("Definition", "Replacement").into()
    }

    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(all);
    }
}

/// Describes a type by a JSON Schema that is written out, which may refer to the schemas of other types.
#[macro_export]
macro_rules! described_as {
    ($type:ty as $name:literal, [$($other:ty),*], $($schema:tt)+) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::domain::schemas::written(serde_json::json!($($schema)+))
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schemas(_all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                $(
                    _all.push((<$other as utoipa::ToSchema>::name().into(), <$other as utoipa::PartialSchema>::schema()));
                    <$other as utoipa::ToSchema>::schemas(_all);
                )*
            }
        }
    };
}

/// Any bytes.
pub enum Bytes {}

described_as!(Bytes as "Bytes", [], {"type": "string", "format": "binary"});

/// The JSON Schema of a tool's arguments.
pub enum ArgumentsSchema {}

described_as!(ArgumentsSchema as "ArgumentsSchema", [], {
    "type": "object",
    "description": "JSON Schema (2020-12, or what `$schema` says) of the arguments: an object. At most 256 KiB, 64 levels and 10,000 nodes; it refers to nothing outside itself.",
    "properties": {
        "type": {
            "anyOf": [
                {"type": "string", "const": "object"},
                {"type": "array", "items": {"type": "string", "const": "object"}, "minItems": 1, "maxItems": 1}
            ]
        },
        "properties": {"type": "object", "additionalProperties": {"type": ["object", "boolean"]}},
        "required": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
        "description": {"type": "string"}, "title": {"type": "string"}
    },
    "required": ["type"]
});
