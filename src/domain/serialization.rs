//! How the arguments of an `http` tool are written into its request, where JSON does not say it.

use serde::{Deserialize, Serialize};

/// Headers that belong to the connection or the message itself (RFC 9110, sections 7.6.1 and 8.6), which the HTTP library
/// writes, `Accept-Encoding`, because only plain answers are read, and those of the signature (Standard Webhooks). No
/// definition sets them.
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

/// What a body is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyType {
    /// JSON.
    Json,
    /// The members of an object, as `application/x-www-form-urlencoded`.
    Form,
    /// A string, as it is; `text/plain` unless `Content-Type` says otherwise.
    Text,
    /// The members of an object as the parts of `multipart/form-data`: an array as a part for each element, a file
    /// (`{"filename": …, "content_base64": …, "content_type": …}`; all but the content may be absent) as its bytes, any
    /// other object as JSON, everything else as text.
    Multipart,
    /// The bytes that a string of base64 stands for; `application/octet-stream` unless `Content-Type` says otherwise.
    Base64,
    /// Nothing is sent, whatever the method.
    None,
}

/// How an argument that is an array or an object is written where there is only text. The words are those of OpenAPI
/// (parameter object, `style` and `explode`); numbers, booleans and strings look the same in all of them but `label` and
/// `json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueStyle {
    /// The separator, or another form.
    pub style: Style,
    /// In a query, a form and cookies: a parameter for each element or member. In a path and a header: `key=value` for each
    /// member.
    #[serde(default)]
    pub explode: bool,
}

/// See [`ValueStyle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// `a,b`.
    Simple,
    /// `a,b`; exploded, the parameter once for each.
    Form,
    /// `a b`, encoded.
    SpaceDelimited,
    /// `a`, a tab, `b`, encoded.
    TabDelimited,
    /// `a|b`, encoded.
    PipeDelimited,
    /// `.a,b`; exploded `.a.b`.
    Label,
    /// `name[key]=value` for each member, `name[]=value` for each element, at every depth.
    DeepObject,
    /// Compact JSON, of a string as well.
    Json,
    /// The parameter once for each element of an array; everything else as without a style: a string as it is, an object
    /// as compact JSON.
    Repeat,
}
