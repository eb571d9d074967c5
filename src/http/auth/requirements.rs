//! What each route asks of its callers: the one table, from which the OpenAPI document says it too.
//!
//! A route that is not in it is for `admin` alone, and a test fails.

use std::collections::{HashMap, HashSet};

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{OpenApi, PathItem, RefOr, Response};

use crate::domain::Scope;
use crate::domain::Scope::{Admin, Call, Read, Tools};

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Requirement {
    /// Nothing.
    Public,
    /// A key, whatever it may do: the answer is that there is no such method.
    Authenticated,
    /// A key with one of these scopes.
    AnyScope(&'static [Scope]),
    /// The same, or the token of the call that is meant.
    CallTokenOr(&'static [Scope]),
}

use Requirement::{AnyScope, CallTokenOr, Public};

const LOOK: Requirement = AnyScope(&[Call, Read, Tools]);
const FOLLOW: Requirement = AnyScope(&[Call, Read]);
const CALL: Requirement = AnyScope(&[Call]);
const READ: Requirement = AnyScope(&[Read]);
const TOOLS: Requirement = AnyScope(&[Tools]);
/// For one session a caller may switch groups, too; the handler tells which is meant.
const SWITCH: Requirement = AnyScope(&[Call, Tools]);
const ADMIN: Requirement = AnyScope(&[Admin]);

const TABLE: &[(&str, &[(Method, Requirement)])] = &[
    ("/tools", &[(Method::GET, LOOK), (Method::POST, TOOLS)]),
    ("/tools/{name}", &[(Method::GET, LOOK), (Method::PUT, TOOLS), (Method::DELETE, TOOLS)]),
    ("/tools/{name}/validate", &[(Method::POST, LOOK)]),
    ("/tools/{name}/resume", &[(Method::POST, TOOLS)]),
    ("/tools/{name}/presets", &[(Method::GET, TOOLS), (Method::PUT, TOOLS)]),
    ("/tools/{name}/stats", &[(Method::GET, READ), (Method::DELETE, TOOLS)]),
    ("/stats", &[(Method::GET, READ), (Method::DELETE, TOOLS)]),
    ("/tool-groups", &[(Method::GET, LOOK), (Method::POST, TOOLS), (Method::PATCH, SWITCH)]),
    ("/tool-groups/{name}", &[(Method::GET, LOOK), (Method::PATCH, SWITCH), (Method::DELETE, TOOLS)]),
    ("/hooks", &[(Method::GET, ADMIN), (Method::POST, ADMIN)]),
    ("/hooks/{id}", &[(Method::GET, ADMIN), (Method::DELETE, ADMIN)]),
    ("/keys", &[(Method::GET, ADMIN), (Method::POST, ADMIN)]),
    ("/keys/{id}", &[(Method::GET, ADMIN), (Method::DELETE, ADMIN)]),
    ("/tool-calls", &[(Method::GET, READ), (Method::POST, CALL)]),
    ("/tool-calls/stream", &[(Method::POST, CALL)]),
    ("/tool-calls/{id}", &[(Method::GET, FOLLOW)]),
    ("/tool-calls/{id}/events", &[(Method::GET, FOLLOW)]),
    ("/tool-calls/{id}/output", &[(Method::GET, FOLLOW)]),
    ("/tool-calls/{id}/content/{n}", &[(Method::GET, FOLLOW)]),
    ("/tool-calls/{id}/arguments", &[(Method::PATCH, CALL)]),
    ("/tool-calls/{id}/cancel", &[(Method::POST, CALL)]),
    ("/tool-calls/{id}/progress", &[(Method::POST, CallTokenOr(&[Call]))]),
    ("/tool-calls/{id}/result", &[(Method::POST, CallTokenOr(&[Call]))]),
    ("/events", &[(Method::GET, READ)]),
    // For the path that is asked for, the handler looks again.
    ("/events/ticket", &[(Method::POST, FOLLOW)]),
    ("/sessions", &[(Method::GET, READ), (Method::POST, CALL)]),
    ("/sessions/{id}", &[(Method::GET, FOLLOW), (Method::DELETE, CALL)]),
    ("/sessions/{id}/abort", &[(Method::POST, CALL)]),
    ("/sessions/{id}/complete", &[(Method::POST, CALL)]),
    ("/sessions/{id}/events", &[(Method::GET, FOLLOW)]),
    ("/sessions/{id}/messages", &[(Method::GET, FOLLOW)]),
    ("/sessions/{id}/prompt", &[(Method::GET, FOLLOW)]),
    ("/imports/openapi", &[(Method::POST, TOOLS)]),
    ("/upstreams", &[(Method::GET, ADMIN), (Method::POST, ADMIN)]),
    ("/upstreams/{name}", &[(Method::GET, ADMIN), (Method::DELETE, ADMIN)]),
    ("/upstreams/{name}/restart", &[(Method::POST, ADMIN)]),
    ("/upstreams/{name}/accept", &[(Method::POST, ADMIN)]),
    ("/mcp", &[(Method::POST, CALL), (Method::GET, CALL), (Method::DELETE, CALL)]),
    ("/healthz", &[(Method::GET, Public)]),
    ("/readyz", &[(Method::GET, Public)]),
    // Of all tenants together: the handler lets the operator's keys in only.
    ("/metrics", &[(Method::GET, READ)]),
];

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

/// What there is, and what it asks for.
#[derive(Debug)]
pub(in crate::http) struct RequirementTable {
    routes: HashMap<&'static str, &'static [(Method, Requirement)]>,
    /// Every path and method of the document.
    documented: HashSet<(String, Method)>,
}

impl RequirementTable {
    /// Of the routes that this document describes.
    pub fn new(document: &OpenApi) -> Self {
        let paths = document.paths.paths.iter();
        let documented = paths.flat_map(|(path, item)| methods(item).map(|(method, _)| (path.clone(), method)));
        Self { routes: TABLE.iter().copied().collect(), documented: documented.collect() }
    }

    /// What a request asks for that was matched to a route.
    pub fn of(&self, request: &Request) -> Requirement {
        // Nothing was matched: there is nothing at this path.
        let Some(path) = request.extensions().get::<MatchedPath>() else { return Public };
        self.of_route(path.as_str(), request.method())
    }

    /// What one of them asks for.
    pub fn of_route(&self, path: &str, method: &Method) -> Requirement {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(methods) = self.routes.get(path) else {
            let is_open = OPEN.iter().any(|open| path == *open || path.starts_with(&format!("{open}/")));
            return if is_open { Public } else { ADMIN };
        };
        let listed = methods.iter().find(|(listed, _)| listed == method).map(|(_, need)| *need);
        listed.unwrap_or_else(|| {
            let is_there = self.documented.contains(&(path.to_owned(), method.clone()));
            if is_there { ADMIN } else { Requirement::Authenticated }
        })
    }
}

fn methods(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Says of each route in the document what it asks for, and how it refuses.
pub(in crate::http) fn describe(document: &mut OpenApi) {
    let needs = RequirementTable::new(document);
    for (path, item) in &mut document.paths.paths {
        let all = [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::DELETE, &mut item.delete),
            (Method::PATCH, &mut item.patch),
        ];
        for (method, operation) in all {
            if let Some(operation) = operation {
                describe_one(operation, needs.of_route(path, &method));
                if method == Method::GET && takes_tickets(path) {
                    describe_ticket(operation);
                }
            }
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
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
        let description =
            "What `POST /events/ticket` has made for this path, for browsers, whose `EventSource` sends no headers.";
        let ticket = ApiKeyValue::with_description("ticket", description);
        components.add_security_scheme("event_ticket", SecurityScheme::ApiKey(ApiKey::Query(ticket)));
    }
}

/// Whether a route answers with an event stream that a ticket opens.
pub(in crate::http) fn takes_tickets(path: &str) -> bool {
    path == "/events" || path.ends_with("}/events")
}

fn describe_ticket(operation: &mut Operation) {
    operation.security.get_or_insert_default().push(SecurityRequirement::new("event_ticket", [""; 0]));
}

fn describe_one(operation: &mut Operation, need: Requirement) {
    let (scopes, has_token) = match need {
        Public | Requirement::Authenticated => {
            operation.security = Some(Vec::new());
            return;
        }
        AnyScope(scopes) => (scopes, false),
        CallTokenOr(scopes) => (scopes, true),
    };
    let mut security: Vec<SecurityRequirement> =
        scopes.iter().map(|scope| SecurityRequirement::new("api_key", [scope.as_str()])).collect();
    if has_token {
        security.push(SecurityRequirement::new("call_token", [""; 0]));
    }
    operation.security = Some(security);
    let refusals = [
        ("401", "`UNAUTHORIZED`: no key is shown. `INVALID_KEY`: the key or the token does not count"),
        ("403", "`SCOPE_MISSING`: the key may not do this. `FORBIDDEN`: nor with this"),
        ("429", "`TOO_MANY_REQUESTS`: the key asks more than it may"),
    ];
    for (status, description) in refusals {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(Response::new(description)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_table_and_the_table_has_no_other() {
        let document = crate::http::derived();
        let needs = RequirementTable::new(&document);
        let listed: HashSet<(String, Method)> = TABLE
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(|(method, _)| ((*path).to_owned(), method.clone())))
            .collect();
        assert_eq!(listed, needs.documented);
    }

    #[test]
    fn what_is_not_known_is_for_admin_alone() {
        let needs = RequirementTable::new(&crate::http::derived());
        assert_eq!(needs.of_route("/new", &Method::GET), ADMIN);
        assert_eq!(needs.of_route("/docsx", &Method::GET), ADMIN);
        assert_eq!(needs.of_route("/docs/{*rest}", &Method::GET), Public);
        assert_eq!(needs.of_route("/stats", &Method::PUT), Requirement::Authenticated);
        assert_eq!(needs.of_route("/stats", &Method::HEAD), READ);
    }
}
