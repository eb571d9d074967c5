//! Parts of the OpenAPI document that many routes share.

use serde_json::json;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Content, Object, OpenApi, PathItem, Ref, RefOr, Required, Response, Type};

use toolpost_core::described_as;

/// An event, in the form that every stream sends.
pub(super) enum Event {}

described_as!(Event as "Event", [], {
    "type": "object", "description": "A Server-Sent Event.", "required": ["event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Resumes any stream if sent as `Last-Event-ID`.", "pattern": "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)$"},
        "event": {"type": "string", "enum": EVENTS.map(|(event, _)| event)},
        "data": {"type": "string", "description": "One JSON object."}
    },
    "anyOf": EVENTS.map(|(event, schema)| json!({
        "properties": {
            "event": {"enum": [event]},
            "data": {
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": format!("#/components/schemas/{schema}")}
            }
        }
    }))
});

/// The events of all streams, with the schemas of their data.
const EVENTS: [(&str, &str); 7] = [
    ("tool_call", "ToolCallEvent"),
    ("status", "StatusEvent"),
    ("progress", "ProgressEvent"),
    ("hook_error", "HookErrorEvent"),
    ("tool_result", "ToolResultEvent"),
    ("batch", "BatchAnswer"),
    ("session", "SessionEvent"),
];

/// Describes every error response as a problem document, and every 429 and 503 with a `Retry-After` header.
pub(super) fn describe_failures(document: &mut OpenApi) {
    for operation in document.paths.paths.values_mut().flat_map(operations_mut) {
        for (status, response) in &mut operation.responses.responses {
            if let RefOr::T(response) = response
                && status.starts_with(['4', '5'])
            {
                describe_failure(status, response);
            }
        }
    }
}

/// The operations whose body may be empty: a result without output, and a stream in which the model calls nothing.
const EMPTY_BODIES: [&str; 2] = ["post_result", "pipe_model_stream"];

/// Declares the bodies that may be empty. The attribute of a route can only say so of a type that may be null.
pub(super) fn allow_empty_bodies(document: &mut OpenApi) {
    for operation in document.paths.paths.values_mut().flat_map(operations_mut) {
        let is_empty = operation.operation_id.as_deref().is_some_and(|id| EMPTY_BODIES.contains(&id));
        if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| is_empty) {
            body.required = Some(Required::False);
        }
    }
}

fn describe_failure(status: &str, response: &mut Response) {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    response.content.insert("application/problem+json".to_owned(), content.into());
    if matches!(status, "429" | "503") {
        let seconds = HeaderBuilder::new()
            .schema(Some(Object::with_type(Type::Integer)))
            .description(Some("Seconds to wait before retrying"));
        response.headers.insert("Retry-After".to_owned(), seconds.build().into());
    }
}

/// Returns the operations of a path.
pub(super) fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

/// Adds the security scheme `call_token`: the token with which the tool of a call authenticates.
pub(super) fn describe_token(components: &mut Components) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The `token` that was sent to an `http` tool with the call"))
        .build();
    components.add_security_scheme("call_token", SecurityScheme::Http(scheme));
}
