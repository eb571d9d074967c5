//! The request body of HTTP tools.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{self, HeaderValue};
use serde::Serialize;
use serde_json::Value;

use super::body::{Fields, JsonTemplate};
use super::headers::HeaderTemplate;
use super::multipart;
use super::reporting::Reporting;
use super::styles::Styles;
use super::target::encode_component;
use super::template::{Arguments, text_of};
use crate::executor::Invocation;
use crate::executor::envelope::Envelope;
use toolpost_core::domain::serialization::BodyType;
use toolpost_core::domain::tool::HttpSpec;

const FORM: &str = "application/x-www-form-urlencoded";

/// The kind of a request body, with its template.
#[derive(Debug, Clone)]
pub enum Payload {
    /// No body; arguments without a placeholder become query parameters.
    None,
    /// The default envelope of the service.
    Envelope,
    /// `application/json`.
    Json(JsonTemplate),
    /// `application/x-www-form-urlencoded`.
    Form(Fields),
    /// `multipart/form-data`.
    Multipart(Fields),
    /// Plain text.
    Text(JsonTemplate),
    /// Bytes, given as base64.
    Base64(JsonTemplate),
}

/// The default request body.
#[derive(Serialize)]
struct DefaultBody<'a> {
    #[serde(flatten)]
    run: Envelope<'a>,
    progress_url: Option<String>,
    result_url: Option<String>,
    token: Option<String>,
}

impl Payload {
    /// Parses the body of a definition. Errors are added to `faults`. The declared type decides the encoding, because
    /// placeholders can be encoded correctly only if the format is known.
    pub fn parse(
        spec: &HttpSpec,
        headers: &[HeaderTemplate],
        bodyless: bool,
        faults: &mut Vec<(String, String)>,
    ) -> Self {
        let declared = spec.body.as_ref();
        let content_type = headers.iter().find(|header| header.name == header::CONTENT_TYPE);
        let media_type = content_type.map(|header| {
            let fixed = header.fixed();
            let text = fixed.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
            text.split(';').next().unwrap_or_default().trim().to_owned()
        });
        let kind = (spec.body_type, media_type.as_deref());
        let is_form = matches!(kind, (None | Some(BodyType::Form), Some(FORM)) | (Some(BodyType::Form), None));
        if let Some(fault) = content_type_fault(kind, is_form, declared) {
            let pointer = content_type.map_or("/body_type", |header| &header.pointer);
            faults.push((pointer.to_owned(), fault.to_owned()));
        }
        let parsed = match (spec.body_type, declared) {
            (Some(BodyType::None), None) => Ok(Self::None),
            (None, None) if bodyless => Ok(Self::None),
            (None | Some(BodyType::Form), None) => Ok(Self::Envelope),
            (Some(BodyType::Text), Some(text @ Value::String(_))) => {
                Ok(Self::Text(JsonTemplate::parse(text, "/body", faults)))
            }
            (Some(BodyType::Base64), Some(text @ Value::String(_))) => {
                Ok(Self::Base64(JsonTemplate::parse(text, "/body", faults)))
            }
            (Some(BodyType::Multipart), Some(Value::Object(object))) => {
                Ok(Self::Multipart(Fields::parse(object, "/body", faults)))
            }
            (None | Some(BodyType::Form), Some(Value::Object(object))) if is_form => {
                Ok(Self::Form(Fields::parse(object, "/body", faults)))
            }
            (None | Some(BodyType::Json | BodyType::Form), Some(template)) => {
                Ok(Self::Json(JsonTemplate::parse(template, "/body", faults)))
            }
            (Some(BodyType::None), Some(_)) => Err("must be omitted, because `body_type` is \"none\""),
            (Some(BodyType::Multipart), _) => Err("must be an object for this `body_type`"),
            (Some(BodyType::Text | BodyType::Base64), _) => Err("must be a string for this `body_type`"),
            (Some(BodyType::Json), None) => Err("is required by `body_type`"),
        };
        parsed.unwrap_or_else(|fault| {
            faults.push(("/body".to_owned(), fault.to_owned()));
            Self::None
        })
    }

    /// Calls `visit` with the pointer and the name of every placeholder.
    pub fn names<'t>(&'t self, pointer: &str, visit: &mut impl FnMut(&str, &'t str)) {
        match self {
            Self::Json(template) | Self::Text(template) | Self::Base64(template) => template.names(pointer, visit),
            Self::Form(fields) | Self::Multipart(fields) => fields.names(pointer, visit),
            Self::None | Self::Envelope => {}
        }
    }

    /// Renders the content type and the body for one run; `None` if there is no body or its argument is absent.
    ///
    /// # Errors
    /// Returns a message for the model if an argument cannot be encoded.
    pub fn render(
        &self,
        run: &Invocation,
        arguments: &Arguments,
        styles: &Styles,
        reporting: &Reporting,
    ) -> Result<Option<(HeaderValue, Bytes)>, String> {
        let text = |template: &JsonTemplate| {
            template.render(arguments).filter(|value| !value.is_null()).map(|value| text_of(&value).into_owned())
        };
        let (content_type, body) = match self {
            Self::None => return Ok(None),
            Self::Envelope => (
                "application/json",
                json(&DefaultBody {
                    run: Envelope::new(run, run.timeout_ms),
                    progress_url: reporting.progress_url(run.id),
                    result_url: reporting.result_url(run.id),
                    token: reporting.token(run.id),
                })?,
            ),
            Self::Json(template) => match template.render(arguments) {
                Some(value) => ("application/json", json(&value)?),
                None => return Ok(None),
            },
            Self::Form(fields) => {
                let pairs = fields.pairs(arguments, styles, encode_component);
                let text = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
                (FORM, text.into())
            }
            Self::Multipart(fields) => return multipart::render(fields, arguments, styles).map(Some),
            Self::Text(template) => match text(template) {
                Some(text) => ("text/plain; charset=utf-8", text.into()),
                None => return Ok(None),
            },
            Self::Base64(template) => match text(template).map(|text| STANDARD.decode(text.trim())) {
                Some(Ok(bytes)) => ("application/octet-stream", bytes.into()),
                Some(Err(error)) => return Err(format!("the request body is not base64: {error}")),
                None => return Ok(None),
            },
        };
        Ok(Some((HeaderValue::from_static(content_type), body)))
    }
}

/// Returns the error in a declared `Content-Type` for this body type, if any.
fn content_type_fault(
    kind: (Option<BodyType>, Option<&str>),
    is_form: bool,
    declared: Option<&Value>,
) -> Option<&'static str> {
    let is_json = |media_type: &str| media_type == "application/json" || media_type.ends_with("+json");
    Some(match kind {
        _ if is_form && declared.is_some_and(Value::is_object) => return None,
        _ if is_form => "a form requires a `body` that is an object",
        (Some(BodyType::None), Some(_)) => "must be omitted, because `body_type` is \"none\"",
        (Some(BodyType::Text | BodyType::Base64), Some("")) => "must be a media type without placeholders",
        (None | Some(BodyType::Json), Some(media_type)) if !is_json(media_type) => {
            "must be application/json, a type that ends in +json, or, if `body` is an object, \
             application/x-www-form-urlencoded; other types require the `body_type` \"text\" or \"base64\""
        }
        (Some(BodyType::Multipart), Some(_)) => {
            "must be omitted: the service sets the Content-Type of a multipart body, including the boundary"
        }
        (Some(BodyType::Form), Some(_)) => "must be application/x-www-form-urlencoded for a form",
        _ => return None,
    })
}

fn json(value: &impl Serialize) -> Result<Bytes, String> {
    let bytes = serde_json::to_vec(value);
    bytes.map(Into::into).map_err(|error| format!("cannot encode the request body as JSON: {error}"))
}
