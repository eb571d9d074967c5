//! The request of an HTTP tool: compiled once at registration, rendered for every call.

use std::collections::BTreeSet;

use reqwest::Method;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::argument_names::ArgumentNames;
use super::body::Fields;
use super::client::Outgoing;
use super::headers::{HeaderTemplate, authorization, check_auth};
use super::payload::Payload;
use super::reporting::Reporting;
use super::styles::Styles;
use super::target::{UrlTemplate, encode_component, encode_cookie};
use super::template::Arguments;
use crate::executor::Invocation;
use crate::executor::secrets::Secrets;
use toolpost_core::domain::json::pointer_token;
use toolpost_core::domain::tool::{HttpAuth, HttpSpec};

/// Accepted media types, in order of preference.
const ACCEPT: &str = "application/json, text/event-stream;q=0.9, text/*;q=0.9, image/*;q=0.9, */*;q=0.5";

/// A compiled request template.
#[derive(Debug, Clone)]
pub struct Plan {
    method: Method,
    /// Template of the URL.
    pub url: UrlTemplate,
    query: Fields,
    headers: Vec<HeaderTemplate>,
    cookies: Fields,
    body: Payload,
    styles: Styles,
    auth: Option<HttpAuth>,
    /// Arguments with a placeholder. In a request without a body, the others become query parameters.
    placed: BTreeSet<String>,
}

impl Plan {
    /// Compiles the request of a definition. `input_schema` determines the valid placeholders.
    ///
    /// # Errors
    /// Returns every fault as a JSON Pointer within the executor's object and a message.
    pub fn new(spec: &HttpSpec, input_schema: &Value) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let method = method(&spec.method).map_err(|fault| faults.push(("/method".to_owned(), fault))).ok();
        let url = UrlTemplate::parse(&spec.url).map_err(|fault| faults.push(("/url".to_owned(), fault))).ok();
        let mut headers = Vec::new();
        for (name, value) in &spec.headers {
            match HeaderTemplate::parse(name, value) {
                Ok(header) if headers.iter().any(|other: &HeaderTemplate| other.name == header.name) => {
                    faults.push((header.pointer, "the same header occurs twice in different spellings".to_owned()));
                }
                Ok(header) => headers.push(header),
                Err(fault) => faults.push((format!("/headers/{}", pointer_token(name)), fault)),
            }
        }
        let query = spec.query.as_ref().map(|query| Fields::parse(query, "/query", &mut faults)).unwrap_or_default();
        let cookies = spec.cookies.as_ref().map(|all| Fields::parse(all, "/cookies", &mut faults)).unwrap_or_default();
        check_cookies(&cookies, &headers, &mut faults);
        let bodyless = method.as_ref().is_some_and(|method| BODYLESS.contains(method));
        let body = Payload::parse(spec, &headers, bodyless, &mut faults);
        if let Some(auth) = &spec.auth {
            check_auth(auth, &mut faults);
            if let Some(header) = headers.iter().find(|header| header.name == header::AUTHORIZATION) {
                faults.push((header.pointer.clone(), "`auth` already sets the header authorization".to_owned()));
            }
        }

        let known = ArgumentNames::of(input_schema);
        let mut placed = BTreeSet::new();
        let mut use_argument = |pointer: &str, name: &str| {
            if placed.insert(name.to_owned())
                && let Some(fault) = known.fault(name)
            {
                faults.push((pointer.to_owned(), fault));
            }
        };
        url.iter().flat_map(UrlTemplate::names).for_each(|name| use_argument("/url", name));
        for header in &headers {
            header.value.names().for_each(|name| use_argument(&header.pointer, name));
        }
        query.names("/query", &mut use_argument);
        cookies.names("/cookies", &mut use_argument);
        body.names("/body", &mut use_argument);
        for name in spec.styles.keys() {
            if let Some(fault) = known.fault(name) {
                faults.push((format!("/styles/{}", pointer_token(name)), fault));
            }
        }
        match (method, url) {
            (Some(method), Some(url)) if faults.is_empty() => {
                let (auth, styles) = (spec.auth.clone(), Styles(spec.styles.clone()));
                Ok(Self { method, url, query, headers, cookies, body, styles, auth, placed })
            }
            _ => Err(faults),
        }
    }

    /// Renders the request for one run.
    ///
    /// # Errors
    /// Returns a message for the model if an argument cannot be encoded or a secret is not set.
    pub fn request(
        &self,
        invocation: &Invocation,
        secrets: &Secrets,
        reporting: &Reporting,
    ) -> Result<Outgoing, String> {
        let none = Arguments::new();
        let arguments = invocation.arguments.as_object().unwrap_or(&none);
        let mut added = self.query.pairs(arguments, &self.styles, encode_component);
        if matches!(self.body, Payload::None) {
            let unplaced = arguments.iter().filter(|(name, _)| !self.placed.contains(*name));
            added.extend(unplaced.flat_map(|(name, value)| self.styles.pairs(name, name, value, encode_component)));
        }
        let url = self.url.render(arguments, &self.styles, &added)?;
        let rendered = self.body.render(invocation, arguments, &self.styles, reporting)?;
        let (content_type, body) = rendered.unzip();

        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(traceparent) = &invocation.traceparent
            && let Ok(value) = HeaderValue::from_str(traceparent)
        {
            headers.insert(HeaderName::from_static("traceparent"), value);
        }
        let mut private = HeaderMap::new();
        private.extend(content_type.map(|value| (header::CONTENT_TYPE, value)));
        if let Ok(key) = HeaderValue::from_str(&invocation.id.to_string()) {
            private.insert(HeaderName::from_static("idempotency-key"), key);
        }
        for header in &self.headers {
            if let Some(value) = header.render(arguments, &self.styles)? {
                private.insert(header.name.clone(), value);
            }
        }
        // The argument of the body is absent, so the declared content type describes nothing.
        if body.is_none() && !matches!(self.body, Payload::None) {
            private.remove(header::CONTENT_TYPE);
        }
        private.extend(self.cookie(arguments).map(|value| (header::COOKIE, value)));
        if let Some(auth) = &self.auth {
            private.insert(header::AUTHORIZATION, authorization(auth, secrets)?);
        }
        Ok(Outgoing { signed_for: Some(invocation.id), method: self.method.clone(), url, headers, private, body })
    }

    /// Renders all cookies as one header. Encoded cookies are always valid in a header.
    fn cookie(&self, arguments: &Arguments) -> Option<HeaderValue> {
        let pairs = self.cookies.pairs(arguments, &self.styles, encode_cookie);
        let text = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let mut value = HeaderValue::from_str(&text).ok().filter(|_| !text.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Methods that have no request body unless it is declared.
const BODYLESS: [Method; 4] = [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS];

/// Checks that cookie names are tokens (RFC 6265, section 4.1.1) and that no declared header sets cookies as well.
fn check_cookies(cookies: &Fields, headers: &[HeaderTemplate], faults: &mut Vec<(String, String)>) {
    for (name, _) in &cookies.0 {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            faults
                .push((format!("/cookies/{}", pointer_token(name)), format!("\"{name}\" is not a valid cookie name")));
        }
    }
    if let Some(header) = headers.iter().find(|header| header.name == header::COOKIE && !cookies.0.is_empty()) {
        faults.push((header.pointer.clone(), "`cookies` already sets the header cookie".to_owned()));
    }
}

fn method(text: &str) -> Result<Method, String> {
    const ALLOWED: [Method; 7] =
        [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let found = ALLOWED.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| "must be one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE".to_owned())
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
