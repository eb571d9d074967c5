//! The authentication requirement of each route. It is declared as `security` in `utoipa::path`, which serves both the
//! gate and the OpenAPI document.
//!
//! A route without a declaration requires `admin`, and a test fails.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Response};

use crate::domain::{Scope, Scopes};
use crate::http::openapi_common::operations_mut;

/// Names of security schemes: an API key with one scope, the call's own token, and a ticket for an event stream.
const API_KEY: &str = "api_key";
const CALL_TOKEN: &str = "call_token";
const EVENT_TICKET: &str = "event_ticket";

/// The authentication requirement of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Requirement {
    /// No authentication.
    Public,
    /// A key with any scopes. Used where the method is not supported.
    Authenticated,
    /// A key with one of these scopes.
    AnyScope(Scopes),
    /// A key with all of these scopes.
    AllScopes(Scopes),
    /// A key with one of these scopes, or the call's own token.
    CallTokenOr(Scopes),
}

impl Requirement {
    const ADMIN: Self = Self::AnyScope(Scopes::of([Scope::Admin]));

    /// Returns the requirement that the operation's `security` declares.
    pub fn of(operation: &Operation) -> Self {
        let Some(required) = &operation.security else { return Self::ADMIN };
        let schemes = serde_json::to_value(required).unwrap_or_default();
        let schemes = || schemes.as_array().into_iter().flatten();
        let names = schemes().filter_map(|one| one[API_KEY].as_array()).flatten().filter_map(Value::as_str);
        let scopes: Scopes = names.filter_map(Scope::named).collect();
        let are_together = schemes().any(|one| one[API_KEY].as_array().is_some_and(|scopes| scopes.len() > 1));
        if are_together {
            Self::AllScopes(scopes)
        } else if schemes().any(|one| one.get(CALL_TOKEN).is_some()) {
            Self::CallTokenOr(scopes)
        } else if scopes == Scopes::default() {
            Self::Public
        } else {
            Self::AnyScope(scopes)
        }
    }
}

/// Paths that reveal only files of the service: the API description, the page that displays it, and the console.
const PUBLIC_PATHS: [&str; 4] = ["/", "/openapi.json", "/docs", "/console"];

/// Returns `true` if a request may wait, so that it ends with the caller's credential. Reads can always be interrupted;
/// accepted calls continue as after a disconnect.
pub(in crate::http) fn may_wait(request: &Request) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD => true,
        Method::POST => {
            let path = request.uri().path();
            matches!(path, "/tool-calls" | "/mcp") || (path.starts_with("/workers/") && path.ends_with("/claim"))
        }
        Method::PATCH => request.uri().path().starts_with("/tool-calls/"),
        _ => false,
    }
}

/// The requirements of all routes.
#[derive(Debug, Default)]
pub(in crate::http) struct RequirementTable(HashMap<String, Vec<(Method, Requirement)>>);

impl RequirementTable {
    /// Adds a route.
    pub fn add(&mut self, path: &str, method: Method, need: Requirement) {
        self.0.entry(path.to_owned()).or_default().push((method, need));
    }

    /// Returns the paths with their methods.
    pub fn routes(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Method>)> {
        self.0.iter().map(|(path, methods)| (path.as_str(), methods.iter().map(|(method, _)| method)))
    }

    /// Returns the requirement of a request after routing.
    pub fn requirement_of(&self, request: &Request) -> Requirement {
        // No route matched, so the response is a 404.
        let Some(path) = request.extensions().get::<MatchedPath>() else { return Requirement::Public };
        self.of_route(path.as_str(), request.method())
    }

    /// Returns the requirement of a route.
    pub fn of_route(&self, path: &str, method: &Method) -> Requirement {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let is_file = PUBLIC_PATHS.iter().any(|open| path == *open || path.starts_with(&format!("{open}/")));
        let otherwise = |need| if is_file { Requirement::Public } else { need };
        let Some(methods) = self.0.get(path) else { return otherwise(Requirement::ADMIN) };
        let listed = methods.iter().find(|(listed, _)| listed == method);
        listed.map_or(otherwise(Requirement::Authenticated), |(_, need)| *need)
    }
}

/// Adds the security schemes and the authentication errors of each route to the document.
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
            "An API key (`tp_…`), or a token of the configured issuer. It must have the listed scope, where several are \
             listed together all of them: `call`, \
             `read`, `tools`, `approve`, `work` or `admin`, which includes all others. A service without keys on a loopback address \
             requires no authentication.",
        ))
        .build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme(API_KEY, SecurityScheme::Http(scheme));
        let description =
            "A ticket that `POST /events/ticket` issued for this path, for browsers: `EventSource` sends no headers.";
        let ticket = ApiKeyValue::with_description("ticket", description);
        components.add_security_scheme(EVENT_TICKET, SecurityScheme::ApiKey(ApiKey::Query(ticket)));
    }
}

/// Returns `true` if a route is an event stream that accepts tickets.
pub(in crate::http) fn takes_tickets(path: &str) -> bool {
    path == "/events" || path.ends_with("}/events")
}

fn describe_refusals(operation: &mut Operation) {
    let refusals = [
        ("401", "`UNAUTHORIZED`: authentication is required. `INVALID_KEY`: the key or token is not valid"),
        ("403", "`SCOPE_MISSING`: the key lacks a required scope. `FORBIDDEN`: the key may not access this resource"),
        ("429", "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
    ];
    for (status, description) in refusals {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(Response::new(description)));
    }
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::PathItem;
    use utoipa::openapi::security::SecurityRequirement;

    use super::*;

    /// Returns the operations of a path by their methods.
    fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
        let PathItem { get, put, post, delete, patch, .. } = item;
        let all = [
            (Method::GET, get),
            (Method::PUT, put),
            (Method::POST, post),
            (Method::DELETE, delete),
            (Method::PATCH, patch),
        ];
        all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
    }

    #[test]
    fn every_route_declares_its_requirement() {
        for (path, item) in &crate::http::routes::document().paths.paths {
            for (method, operation) in operations(item) {
                assert!(operation.security.is_some(), "{method} {path}");
                let ticket = SecurityRequirement::new(EVENT_TICKET, [""; 0]);
                let takes_ticket = operation.security.as_ref().is_some_and(|all| all.contains(&ticket));
                assert_eq!(takes_ticket, takes_tickets(path) && method == Method::GET, "{method} {path}");
            }
        }
    }

    #[test]
    fn unknown_route_requires_admin() {
        let (_, needs) = crate::http::routes::router();
        assert_eq!(needs.of_route("/new", &Method::GET), Requirement::ADMIN);
        assert_eq!(needs.of_route("/docsx", &Method::GET), Requirement::ADMIN);
        assert_eq!(needs.of_route("/docs/{*rest}", &Method::GET), Requirement::Public);
        assert_eq!(needs.of_route("/stats", &Method::PUT), Requirement::Authenticated);
        assert_eq!(needs.of_route("/stats", &Method::HEAD), Requirement::AnyScope(Scopes::of([Scope::Read])));
    }
}
