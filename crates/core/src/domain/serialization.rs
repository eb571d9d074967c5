//! Serialization of arguments in the requests of `http` tools.

use serde::{Deserialize, Serialize};

/// Headers that a definition cannot set: headers of the connection or the message (RFC 9110, sections 7.6.1 and 8.6),
/// which the HTTP library writes; `Accept-Encoding`, because only uncompressed responses are read; and the headers of
/// the signature (Standard Webhooks).
pub const RESERVED_HEADERS: [&str; 17] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "accept-encoding",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyType {
    /// JSON.
    Json,
    /// The members of an object, as `application/x-www-form-urlencoded`.
    Form,
    /// A string as it is; `text/plain` unless `Content-Type` is set.
    Text,
    /// The members of an object as the parts of `multipart/form-data`: an array as one part for each element; a file
    /// (`{"filename": …, "content_base64": …, "content_type": …}`, only the content is required) as its bytes; any
    /// other object as JSON; any other value as text.
    Multipart,
    /// The bytes of a base64 string; `application/octet-stream` unless `Content-Type` is set.
    Base64,
    /// No body, for any method.
    None,
}

/// The serialization of an array or object as text. The terms are those of OpenAPI (parameter object, `style` and
/// `explode`). Numbers, booleans and strings are the same in all styles except `label` and `json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueStyle {
    /// The separator or another form.
    pub style: Style,
    /// In a query, a form and cookies: one parameter for each element or member. In a path and a header: `key=value`
    /// for each member.
    #[serde(default)]
    pub explode: bool,
}

/// A serialization style; see [`ValueStyle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// `a,b`.
    Simple,
    /// `a,b`; exploded: one parameter for each element or member.
    Form,
    /// `a b`, encoded.
    SpaceDelimited,
    /// `a`, a tab, `b`, encoded.
    TabDelimited,
    /// `a|b`, encoded.
    PipeDelimited,
    /// `.a,b`; exploded `.a.b`.
    Label,
    /// `name[key]=value` for each member, `name[]=value` for each element, at every depth. The elements of an array with
    /// objects or arrays are numbered: `name[0][key]=value`.
    DeepObject,
    /// Compact JSON, also of a string.
    Json,
    /// One parameter for each element of an array. Other values are serialized as without a style: a string as it is,
    /// an object as compact JSON.
    Repeat,
}
