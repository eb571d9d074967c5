//! The request of an HTTP tool, read and checked once at registration, and made for every call.

use std::collections::BTreeSet;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use super::body::JsonTemplate;
use super::headers::{HeaderTemplate, authorization, check_auth};
use super::known::Known;
use super::reporting::Reporting;
use super::target::{UrlTemplate, encode_component};
use super::template::{Arguments, text_of};
use crate::domain::Agent;
use crate::domain::json::pointer_token;
use crate::domain::tool::{HttpAuth, HttpSpec};
use crate::executor::Invocation;
use crate::executor::secrets::Secrets;

/// What an answer may be, in the order of preference.
const ACCEPT: &str = "application/json, text/event-stream;q=0.9, text/*;q=0.9, image/*;q=0.9, */*;q=0.5";

/// A request in the making.
#[derive(Debug, Clone)]
pub struct Plan {
    method: Method,
    url: UrlTemplate,
    query: Vec<(String, JsonTemplate)>,
    headers: Vec<HeaderTemplate>,
    body: BodyPlan,
    auth: Option<HttpAuth>,
    /// Arguments that have a place; the others become query parameters of a request without a body.
    placed: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum BodyPlan {
    /// Nothing; arguments without a place go into the query.
    None,
    /// The service's own envelope.
    Envelope,
    /// `application/json`.
    Json(JsonTemplate),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, JsonTemplate)>),
}

/// One request, ready to be sent.
#[derive(Debug)]
pub struct Outgoing {
    /// The call that it is for; its signature names it.
    pub call: Uuid,
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Headers that any server may see.
    pub headers: HeaderMap,
    /// Headers for the declared server only: those of the definition and the credentials.
    pub private: HeaderMap,
    /// The body, if any.
    pub body: Option<Bytes>,
}

/// What a server gets that is not told otherwise.
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

impl Plan {
    /// Reads and checks a definition's request; `input_schema` tells which placeholders there can be.
    ///
    /// # Errors
    /// Every fault: a JSON Pointer within the executor's object, and a sentence.
    pub fn new(spec: &HttpSpec, input_schema: &Value) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let method = method(&spec.method).map_err(|fault| faults.push(("/method".to_owned(), fault))).ok();
        let url = UrlTemplate::parse(&spec.url).map_err(|fault| faults.push(("/url".to_owned(), fault))).ok();
        let mut headers = Vec::new();
        for (name, value) in &spec.headers {
            match HeaderTemplate::parse(name, value) {
                Ok(header) if headers.iter().any(|other: &HeaderTemplate| other.name == header.name) => {
                    faults.push((header.pointer, "the same header in another spelling is there already".to_owned()));
                }
                Ok(header) => headers.push(header),
                Err(fault) => faults.push((format!("/headers/{}", pointer_token(name)), fault)),
            }
        }
        let query = spec.query.as_ref().map(|query| members(query, "/query", &mut faults)).unwrap_or_default();
        let bodyless =
            method.as_ref().is_some_and(|method| [Method::GET, Method::HEAD, Method::DELETE].contains(method));
        let body = body(spec.body.as_ref(), &headers, bodyless, &mut faults);
        if let Some(auth) = &spec.auth {
            check_auth(auth, &mut faults);
            if let Some(header) = headers.iter().find(|header| header.name == header::AUTHORIZATION) {
                faults.push((header.pointer.clone(), "`auth` sets the header authorization already".to_owned()));
            }
        }

        let known = Known::of(input_schema);
        let mut placed = BTreeSet::new();
        let mut place = |pointer: &str, name: &str| {
            if placed.insert(name.to_owned())
                && let Some(fault) = known.fault(name)
            {
                faults.push((pointer.to_owned(), fault));
            }
        };
        url.iter().flat_map(UrlTemplate::names).for_each(|name| place("/url", name));
        for header in &headers {
            header.names().for_each(|name| place(&header.pointer, name));
        }
        for (name, value) in &query {
            value.names(&format!("/query/{}", pointer_token(name)), &mut place);
        }
        match &body {
            BodyPlan::Json(template) => template.names("/body", &mut place),
            BodyPlan::Form(pairs) => {
                for (name, value) in pairs {
                    value.names(&format!("/body/{}", pointer_token(name)), &mut place);
                }
            }
            BodyPlan::None | BodyPlan::Envelope => {}
        }
        match (method, url) {
            (Some(method), Some(url)) if faults.is_empty() => {
                Ok(Self { method, url, query, headers, body, auth: spec.auth.clone(), placed })
            }
            _ => Err(faults),
        }
    }

    /// The URL as it was declared, without the query.
    #[must_use]
    pub fn declared_url(&self) -> &str {
        self.url.declared()
    }

    /// The request for one run.
    ///
    /// # Errors
    /// A sentence for the model: an argument that has no way into its place, or a secret that is not set.
    pub fn request(
        &self,
        invocation: &Invocation,
        secrets: &Secrets,
        reporting: &Reporting,
    ) -> Result<Outgoing, String> {
        let none = Arguments::new();
        let arguments = invocation.arguments.as_object().unwrap_or(&none);
        let mut added = pairs(&self.query, arguments);
        if matches!(self.body, BodyPlan::None) {
            let unplaced = arguments.iter().filter(|(name, value)| !self.placed.contains(*name) && !value.is_null());
            added.extend(unplaced.map(|(name, value)| (name.clone(), text_of(value).into_owned())));
        }
        let url = self.url.render(arguments, &added)?;
        let (content_type, body) = self.body(invocation, arguments, reporting)?;

        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(traceparent) = &invocation.traceparent
            && let Ok(value) = HeaderValue::from_str(traceparent)
        {
            headers.insert(HeaderName::from_static("traceparent"), value);
        }
        let mut private = HeaderMap::new();
        if body.is_some() {
            private.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if let Ok(key) = HeaderValue::from_str(&invocation.id.to_string()) {
            private.insert(HeaderName::from_static("idempotency-key"), key);
        }
        for header in &self.headers {
            if let Some(value) = header.render(arguments)? {
                private.insert(header.name.clone(), value);
            }
        }
        if let Some(auth) = &self.auth {
            let (name, value) = authorization(auth, secrets)?;
            private.insert(name, value);
        }
        Ok(Outgoing { call: invocation.id, method: self.method.clone(), url, headers, private, body })
    }

    fn body(
        &self,
        run: &Invocation,
        arguments: &Arguments,
        reporting: &Reporting,
    ) -> Result<(&'static str, Option<Bytes>), String> {
        match &self.body {
            BodyPlan::None => Ok(("", None)),
            BodyPlan::Envelope => json(&Envelope {
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
            BodyPlan::Json(template) => template.render(arguments).map_or(Ok(("", None)), |value| json(&value)),
            BodyPlan::Form(fields) => {
                let pairs = pairs(fields, arguments);
                let encoded =
                    pairs.iter().map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
                let text = encoded.collect::<Vec<_>>().join("&");
                Ok(("application/x-www-form-urlencoded", Some(text.into())))
            }
        }
    }
}

fn json(value: &impl Serialize) -> Result<(&'static str, Option<Bytes>), String> {
    let bytes = serde_json::to_vec(value).map_err(|error| format!("the request's body is no JSON: {error}"))?;
    Ok(("application/json", Some(bytes.into())))
}

/// Names and texts of what has a value; `null` has none.
fn pairs(fields: &[(String, JsonTemplate)], arguments: &Arguments) -> Vec<(String, String)> {
    let present = fields.iter().filter_map(|(name, value)| Some((name, value.render(arguments)?)));
    present
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), text_of(&value).into_owned()))
        .collect()
}

fn members(
    object: &serde_json::Map<String, Value>,
    pointer: &str,
    faults: &mut Vec<(String, String)>,
) -> Vec<(String, JsonTemplate)> {
    let mut parse =
        |name: &String, value| JsonTemplate::parse(value, &format!("{pointer}/{}", pointer_token(name)), faults);
    object.iter().map(|(name, value)| (name.clone(), parse(name, value))).collect()
}

fn method(text: &str) -> Result<Method, String> {
    const ALLOWED: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let found = ALLOWED.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "must be one of GET, HEAD, POST, PUT, PATCH, DELETE".to_owned())
}

/// How the body is made. The declared `Content-Type` decides the encoding, because a placeholder can be encoded correctly
/// only in a form that is known.
fn body(
    declared: Option<&Value>,
    headers: &[HeaderTemplate],
    bodyless: bool,
    faults: &mut Vec<(String, String)>,
) -> BodyPlan {
    let mut form = false;
    if let Some(header) = headers.iter().find(|header| header.name == header::CONTENT_TYPE) {
        let fixed = header.fixed();
        let text = fixed.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
        let media_type = text.split(';').next().unwrap_or_default().trim();
        form = media_type == "application/x-www-form-urlencoded";
        let json = media_type == "application/json" || media_type.ends_with("+json");
        let fits = if form { declared.is_some_and(Value::is_object) } else { json };
        if !fits {
            let fault = "must be application/json, a type that ends in +json, or, where `body` is an object, \
                         application/x-www-form-urlencoded";
            faults.push((header.pointer.clone(), fault.to_owned()));
        }
    }
    match declared {
        None if bodyless => BodyPlan::None,
        None => BodyPlan::Envelope,
        Some(Value::Object(object)) if form => BodyPlan::Form(members(object, "/body", faults)),
        Some(template) => BodyPlan::Json(JsonTemplate::parse(template, "/body", faults)),
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
