//! The request body of HTTP tools.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{self, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::body::JsonTemplate;
use super::fields::Fields;
use super::headers::HeaderTemplate;
use super::multipart;
use super::reporting::Reporting;
use super::styles::Styles;
use super::target::encode_component;
use super::template::{Arguments, text_of};
use crate::domain::Agent;
use crate::domain::serialization::BodyType;
use crate::domain::tool::HttpSpec;
use crate::executor::Invocation;

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
struct Envelope<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Value,
    context: &'a Arguments,
    agent: Option<&'a Agent>,
    attempt: u32,
    deadline_ms: u64,
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
        let mut misfit = |fault: &str| {
            let pointer = content_type.map_or("/body_type", |header| &header.pointer);
            faults.push((pointer.to_owned(), fault.to_owned()));
        };
        let is_json = |media_type: &str| media_type == "application/json" || media_type.ends_with("+json");
        let is_form = match (spec.body_type, media_type.as_deref()) {
            (Some(BodyType::None), Some(_)) => {
                misfit("must be omitted, because `body_type` is \"none\"");
                false
            }
            (Some(BodyType::Text | BodyType::Base64), Some("")) => {
                misfit("must be a media type without placeholders");
                false
            }
            (None | Some(BodyType::Form), Some(FORM)) | (Some(BodyType::Form), None) => {
                if !declared.is_some_and(Value::is_object) {
                    misfit("a form requires a `body` that is an object");
                }
                true
            }
            (None | Some(BodyType::Json), Some(media_type)) if !is_json(media_type) => {
                misfit(
                    "must be application/json, a type that ends in +json, or, if `body` is an object, \
                     application/x-www-form-urlencoded; other types require the `body_type` \"text\" or \"base64\"",
                );
                false
            }
            (Some(BodyType::Multipart), Some(_)) => {
                misfit(
                    "must be omitted: the service sets the Content-Type of a multipart body, including the boundary",
                );
                false
            }
            (Some(BodyType::Form), Some(_)) => {
                misfit("must be application/x-www-form-urlencoded for a form");
                false
            }
            _ => false,
        };
        match (spec.body_type, declared) {
            (Some(BodyType::None), declared) => {
                if declared.is_some() {
                    faults.push(("/body".to_owned(), "must be omitted, because `body_type` is \"none\"".to_owned()));
                }
                Self::None
            }
            (Some(kind @ (BodyType::Text | BodyType::Base64)), Some(text @ Value::String(_))) => {
                let template = JsonTemplate::parse(text, "/body", faults);
                if kind == BodyType::Text { Self::Text(template) } else { Self::Base64(template) }
            }
            (Some(BodyType::Multipart), Some(Value::Object(object))) => {
                Self::Multipart(Fields::parse(object, "/body", faults))
            }
            (Some(BodyType::Multipart), _) => {
                faults.push(("/body".to_owned(), "must be an object for this `body_type`".to_owned()));
                Self::None
            }
            (Some(BodyType::Text | BodyType::Base64), _) => {
                faults.push(("/body".to_owned(), "must be a string for this `body_type`".to_owned()));
                Self::None
            }
            (None, None) if bodyless => Self::None,
            (Some(BodyType::Json), None) => {
                faults.push(("/body".to_owned(), "is required by `body_type`".to_owned()));
                Self::None
            }
            (_, None) => Self::Envelope,
            (_, Some(Value::Object(object))) if is_form => Self::Form(Fields::parse(object, "/body", faults)),
            (_, Some(template)) => Self::Json(JsonTemplate::parse(template, "/body", faults)),
        }
    }

    /// Calls `visit` with the pointer and the name of every placeholder.
    pub fn names<'t>(&'t self, pointer: &str, visit: &mut impl FnMut(&str, &'t str)) {
        match self {
            Self::Json(template) | Self::Text(template) | Self::Base64(template) => template.names(pointer, visit),
            Self::Form(fields) | Self::Multipart(fields) => fields.names(pointer, visit),
            Self::None | Self::Envelope => {}
        }
    }

    /// Returns `true` if arguments without a placeholder become query parameters.
    #[must_use]
    pub fn leaves_arguments(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns `true` if the body is omitted when its arguments are absent.
    #[must_use]
    pub fn may_be_absent(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Text(_) | Self::Base64(_))
    }

    /// Renders the content type and the body for one run.
    ///
    /// # Errors
    /// Returns a message for the model if an argument cannot be encoded.
    pub fn render(
        &self,
        run: &Invocation,
        arguments: &Arguments,
        styles: &Styles,
        reporting: &Reporting,
    ) -> Result<(HeaderValue, Option<Bytes>), String> {
        match self {
            Self::None => Ok((HeaderValue::from_static(""), None)),
            Self::Envelope => json(&Envelope {
                id: run.id,
                call_id: &run.call_id,
                name: &run.name,
                arguments: &run.arguments,
                context: &run.context,
                agent: run.agent.as_deref(),
                attempt: run.attempt,
                deadline_ms: run.timeout_ms,
                progress_url: reporting.progress_url(run.id),
                result_url: reporting.result_url(run.id),
                token: reporting.token(run.id),
            }),
            Self::Json(template) => {
                template.render(arguments).map_or(Ok((HeaderValue::from_static(""), None)), |value| json(&value))
            }
            Self::Form(fields) => {
                let pairs = fields.pairs(arguments, styles, encode_component);
                let text = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
                Ok((HeaderValue::from_static(FORM), Some(text.into())))
            }
            Self::Multipart(fields) => {
                let (content_type, body) = multipart::render(fields, arguments, styles)?;
                Ok((content_type, Some(body)))
            }
            Self::Text(template) => {
                let text = text(template, arguments).map(|text| Bytes::from(text.into_bytes()));
                Ok((HeaderValue::from_static("text/plain; charset=utf-8"), text))
            }
            Self::Base64(template) => {
                let decode = |text: String| STANDARD.decode(text.trim()).map(Bytes::from);
                let bytes = text(template, arguments).map(decode).transpose();
                let bytes = bytes.map_err(|error| format!("the request body is not base64: {error}"))?;
                Ok((HeaderValue::from_static("application/octet-stream"), bytes))
            }
        }
    }
}

fn text(template: &JsonTemplate, arguments: &Arguments) -> Option<String> {
    template.render(arguments).filter(|value| !value.is_null()).map(|value| text_of(&value).into_owned())
}

fn json(value: &impl Serialize) -> Result<(HeaderValue, Option<Bytes>), String> {
    let bytes =
        serde_json::to_vec(value).map_err(|error| format!("cannot encode the request body as JSON: {error}"))?;
    Ok((HeaderValue::from_static("application/json"), Some(bytes.into())))
}
