//! What each route asks of its callers: `security` of its `utoipa::path` says it, to this gate and in the OpenAPI document.
//!
//! A route that says nothing is for `admin` alone, and a test fails.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Response};

use crate::domain::{Scope, Scopes};
use crate::http::openapi_common::{operations, operations_mut};

/// Names of security schemes: an API key with one scope, the token of the call that is meant, and a ticket for an event stream.
const API_KEY: &str = "api_key";
const CALL_TOKEN: &str = "call_token";
const EVENT_TICKET: &str = "event_ticket";

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Requirement {
    /// Nothing.
    Public,
    /// A key, whatever it may do: the answer is that there is no such method.
    Authenticated,
    /// A key with one of these scopes.
    AnyScope(Scopes),
    /// The same, or the token of the call that is meant.
    CallTokenOr(Scopes),
}

impl Requirement {
    const ADMIN: Self = Self::AnyScope(Scopes::of([Scope::Admin]));

    /// Returns what the `security` of an operation requires.
    fn of(operation: &Operation) -> Self {
        let Some(required) = &operation.security else { return Self::ADMIN };
        let schemes = serde_json::to_value(required).unwrap_or_default();
        let schemes = || schemes.as_array().into_iter().flatten();
        let names = schemes().filter_map(|one| one[API_KEY].as_array()).flatten().filter_map(Value::as_str);
        let scopes: Scopes = names.filter_map(Scope::named).collect();
        if schemes().any(|one| one.get(CALL_TOKEN).is_some()) {
            Self::CallTokenOr(scopes)
        } else if scopes == Scopes::default() {
            Self::Public
        } else {
            Self::AnyScope(scopes)
        }
    }
}

/// What tells nothing but what the service can do: the document, and the page that shows it.
const OPEN: [&str; 2] = ["/openapi.json", "/docs"];

/// Whether a request waits for something else than its own work, so that it ends with the credential of its caller. What
/// reads can always be cut off; calls that were accepted go on as after a disconnect.
pub(in crate::http) fn may_wait(request: &Request) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD => true,
        Method::POST => matches!(request.uri().path(), "/tool-calls" | "/mcp"),
        Method::PATCH => request.uri().path().starts_with("/tool-calls/"),
        _ => false,
    }
}

/// What each route asks for.
#[derive(Debug)]
pub(in crate::http) struct RequirementTable(HashMap<String, Vec<(Method, Requirement)>>);

impl RequirementTable {
    /// Of the routes that this document describes.
    pub fn new(document: &OpenApi) -> Self {
        let of_path = |item| operations(item).map(|(method, operation)| (method, Requirement::of(operation))).collect();
        Self(document.paths.paths.iter().map(|(path, item)| (path.clone(), of_path(item))).collect())
    }

    /// What a request asks for that was matched to a route.
    pub fn of(&self, request: &Request) -> Requirement {
        // Nothing was matched: there is nothing at this path.
        let Some(path) = request.extensions().get::<MatchedPath>() else { return Requirement::Public };
        self.of_route(path.as_str(), request.method())
    }

    /// What one of them asks for.
    pub fn of_route(&self, path: &str, method: &Method) -> Requirement {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(methods) = self.0.get(path) else {
            let is_open = OPEN.iter().any(|open| path == *open || path.starts_with(&format!("{open}/")));
            return if is_open { Requirement::Public } else { Requirement::ADMIN };
        };
        methods.iter().find(|(listed, _)| listed == method).map_or(Requirement::Authenticated, |(_, need)| *need)
    }
}

/// Says how each route refuses callers, and by what they can show who they are.
pub(in crate::http) fn describe(document: &mut OpenApi) {
    for operation in document.paths.paths.values_mut().flat_map(operations_mut) {
        if Requirement::of(operation) == Requirement::Public {
            operation.security = Some(Vec::new());
        } else {
            describe_refusals(operation);
        }
    }
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key (`tp_…`), or a token of the issuer that the operator has named. What is required is one of the \
             scopes beside it: `call`, `read`, `tools` or `admin`, which is all of them. A service without keys on a \
             loopback address asks for none.",
        ))
        .build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme(API_KEY, SecurityScheme::Http(scheme));
        let description =
            "What `POST /events/ticket` has made for this path, for browsers, whose `EventSource` sends no headers.";
        let ticket = ApiKeyValue::with_description("ticket", description);
        components.add_security_scheme(EVENT_TICKET, SecurityScheme::ApiKey(ApiKey::Query(ticket)));
    }
}

/// Whether a route answers with an event stream that a ticket opens.
pub(in crate::http) fn takes_tickets(path: &str) -> bool {
    path == "/events" || path.ends_with("}/events")
}

fn describe_refusals(operation: &mut Operation) {
    let refusals = [
        ("401", "`UNAUTHORIZED`: no key is shown. `INVALID_KEY`: the key or the token does not count"),
        ("403", "`SCOPE_MISSING`: the key may not do this. `FORBIDDEN`: nor with this"),
        ("429", "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
    ];
    for (status, description) in refusals {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(Response::new(description)));
    }
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::security::SecurityRequirement;

    use super::*;

    #[test]
    fn every_route_says_what_it_asks_for() {
        for (path, item) in &crate::http::routes().into_openapi().paths.paths {
            for (method, operation) in operations(item) {
                assert!(operation.security.is_some(), "{method} {path}");
                let ticket = SecurityRequirement::new(EVENT_TICKET, [""; 0]);
                let takes_ticket = operation.security.as_ref().is_some_and(|all| all.contains(&ticket));
                assert_eq!(takes_ticket, takes_tickets(path) && method == Method::GET, "{method} {path}");
            }
        }
    }

    #[test]
    fn what_is_not_known_is_for_admin_alone() {
        let needs = RequirementTable::new(&crate::http::derived());
        assert_eq!(needs.of_route("/new", &Method::GET), Requirement::ADMIN);
        assert_eq!(needs.of_route("/docsx", &Method::GET), Requirement::ADMIN);
        assert_eq!(needs.of_route("/docs/{*rest}", &Method::GET), Requirement::Public);
        assert_eq!(needs.of_route("/stats", &Method::PUT), Requirement::Authenticated);
        assert_eq!(needs.of_route("/stats", &Method::HEAD), Requirement::AnyScope(Scopes::of([Scope::Read])));
    }
}
