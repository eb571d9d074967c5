//! `/imports`: creates tools from OpenAPI documents.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Api, AppState, BodyErrors, HttpResult, Problem, extract, reply};
use crate::domain::{decode, json};
use crate::import::document::{self, Bounds, Document};
use crate::import::{Credential, ImportError, Options, Report};
use crate::memory::Footprint;
use crate::registry::imports::{self, ImportMode};

/// Maximum number of concurrent imports. An import needs many times the document's size in memory.
pub(super) const MAX_CONCURRENT: usize = 2;

/// Maximum length of a body, in bytes: a document and its options. Replaces `server.max_body_bytes`.
pub(super) const MAX_BODY_BYTES: usize = Bounds::SENT.bytes + 64 * 1024;

/// Timeout for fetching a document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Maximum number of elements in a list.
const MAX_ELEMENTS: usize = 1000;

/// The body of `POST /imports/openapi`: a document or its URL, with options.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportBody {
    /// The document: an object, or its text as JSON or YAML.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    document: Value,
    /// The URL of the document. It is fetched only without `document`; relative server URLs are resolved against it.
    #[serde(default)]
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// The base URL for requests, instead of the document's servers.
    #[serde(default)]
    server: Option<String>,
    /// Credentials for requests: `bearer:SECRET`, `basic:USER:SECRET`, `header:NAME:SECRET`, `query:NAME:SECRET`,
    /// `cookie:NAME:SECRET`, where `SECRET` is the name of a secret. Each is sent to the operations that require it.
    #[serde(default)]
    auth: Vec<String>,
    /// Tags, operation ids, paths, or `GET /path` to import. Default: all operations.
    #[serde(default)]
    only: Vec<String>,
    /// A prefix for the names of the tools.
    #[serde(default)]
    #[schema(max_length = 64)]
    prefix: Option<String>,
    /// Replaces registered tools of the same name.
    #[serde(default)]
    replace: bool,
    /// Registers nothing; the response reports what would be registered.
    #[serde(default)]
    dry_run: bool,
}

/// A document to import, with options.
struct ImportRequest {
    document: Document,
    options: Options,
    how: ImportMode,
    /// Whether the body is the document, without options.
    is_bare: bool,
}

impl ImportRequest {
    fn bare(document: Document) -> Self {
        Self { document, options: Options::default(), how: ImportMode::default(), is_bare: true }
    }
}

/// Creates an `http` tool for each operation of an OpenAPI document (2.0, 3.0 or 3.1). Operations that cannot be
/// imported are listed with the reason.
///
/// The body is an object as described here, or the document itself as JSON or YAML. A document may have at most 32 MiB,
/// also if it is fetched from its `url`; `server.max_body_bytes` does not apply.
#[utoipa::path(post, path = "/imports/openapi", operation_id = "import_openapi", tag = "tools",
    security(("api_key" = ["tools"])),
    request_body(content((ImportBody = "application/json", example = json!({"document": {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1.0.0"},
        "servers": [{"url": "https://pets.example.com"}], "paths": {"/pets": {"get": {"operationId": "list_pets",
        "summary": "Lists pets", "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}],
        "responses": {"200": {"description": "The pets"}}}}}}})), 
        (String = "application/yaml", example = "openapi: 3.1.0\ninfo:\n  title: Pets\n  version: 1.0.0\nservers:\n  - url: https://pets.example.com\npaths:\n  /pets:\n    get:\n      operationId: list_pets\n      summary: Lists pets\n      parameters:\n        - name: limit\n          in: query\n          schema:\n            type: integer\n      responses:\n        '200':\n          description: The pets\n"))),
    responses((status = 200, description = "The registered tools, and the operations that were not imported", body = Report),
        (status = 422, description = "The body does not match the schema, the document cannot be read or fetched, or none of it can be imported; see `errors`"),
        (status = 503, description = "The database is unavailable, or too many documents are being imported"),
        BodyErrors))]
pub(super) async fn openapi(Api { state, access }: Api, request: Request) -> HttpResult {
    let (parts, body) = request.into_parts();
    let is_yaml = is_yaml(parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()));
    if !is_yaml && extract::check_content_type(&parts.headers).is_err() {
        let found = parts.headers.get(header::CONTENT_TYPE).map_or("none", |value| value.to_str().unwrap_or("?"));
        let detail = format!("the Content-Type must be application/json or application/yaml, not {found}");
        return Err(Problem::unsupported(detail));
    }
    let budget = state.engine.memory();
    let (bytes, mut footprint) = extract::read_up_to(MAX_BODY_BYTES, &parts.headers, body, &state, budget).await?;
    footprint.take(budget, bytes.len()).map_err(extract::memory_problem)?;
    let busy = |_| Problem::overloaded("other documents are being imported; nothing was imported, retry later");
    let _permit = state.imports.try_acquire().map_err(busy)?;
    let import = if is_yaml {
        let document = parse(bytes.to_vec()).await.map_err(|error| refused(error, true))?;
        ImportRequest::bare(document)
    } else {
        // The number of tokens that lead to the document: it is either the body or its member `document`.
        let within = |path: &[String]| usize::from(path.first().is_some_and(|token| token == "document"));
        let parsed = tokio::task::spawn_blocking(move || document::parse_json(&bytes, within)).await?;
        let body = parsed.map_err(|error| Problem::bad_json(error.to_string()))?;
        read(&state, body, &mut footprint).await?
    };
    let ImportRequest { document, options, how, is_bare } = import;
    let (registry, tenant) = (state.engine.registry().clone(), access.tenant().clone());
    let made = tokio::task::spawn_blocking(move || {
        document.import(&options).map(|imported| registry.check_imported(&tenant, imported))
    });
    let imported = made.await?.map_err(|error| refused(error, is_bare))?;
    let report: Report = imports::register(state.engine.registry(), access.store(), imported, how).await?;
    Ok(reply::ok(&report))
}

/// Parses a JSON body: the document itself, or an object with the document and options.
async fn read(state: &AppState, body: Document, footprint: &mut Footprint) -> HttpResult<ImportRequest> {
    let Document { value, warnings } = body;
    if ["openapi", "swagger"].iter().any(|name| value.get(name).is_some()) {
        return Ok(ImportRequest::bare(Document { value, warnings }));
    }
    decode::expect_objects(&value, &[""])?;
    let body: ImportBody = decode::read(value)?;
    let document_url = body.url.as_deref().map(document_url).transpose()?;
    let credentials = credentials(&body.auth)?;
    if body.only.len() > MAX_ELEMENTS {
        return Err(Problem::field("/only", format!("must have at most {MAX_ELEMENTS} elements")));
    }
    let options = Options { server: body.server, credentials, only: body.only, prefix: body.prefix, document_url };
    let document = match body.document {
        value @ Value::Object(_) => Document { value, warnings },
        Value::String(text) => parse(text.into_bytes()).await.map_err(|error| refused(error, false))?,
        Value::Null => fetch(state, options.document_url.as_ref(), footprint).await?,
        other => {
            let message = format!("must be an object or the text of the document, not {}", json::type_name(&other));
            return Err(Problem::field("/document", message));
        }
    };
    let how = ImportMode { replace: body.replace, dry_run: body.dry_run };
    Ok(ImportRequest { document, options, how, is_bare: false })
}

fn document_url(text: &str) -> HttpResult<Url> {
    let is_good = |url: &Url| matches!(url.scheme(), "http" | "https") && text.len() <= MAX_URL_BYTES;
    let fault = || format!("must be an http:// or https:// URL of at most {MAX_URL_BYTES} bytes");
    Url::parse(text).ok().filter(is_good).ok_or_else(|| Problem::field("/url", fault()))
}

fn credentials(texts: &[String]) -> HttpResult<Vec<Credential>> {
    let parse = |(index, text): (usize, &String)| {
        text.parse::<Credential>().map_err(|error| Problem::field(format!("/auth/{index}"), error.to_string()))
    };
    texts.iter().take(MAX_ELEMENTS).enumerate().map(parse).collect()
}

/// Fetches a document through the egress guard.
async fn fetch(state: &AppState, url: Option<&Url>, footprint: &mut Footprint) -> HttpResult<Document> {
    let Some(url) = url else {
        return Err(Problem::field("/document", "is missing; set `document` or `url`"));
    };
    let client = state.engine.registry().http_client();
    let bytes =
        client.fetch_text(url, Bounds::SENT.bytes, FETCH_TIMEOUT).await.map_err(|why| Problem::field("/url", why))?;
    footprint.take(state.engine.memory(), bytes.len()).map_err(extract::memory_problem)?;
    let at_url =
        |error: ImportError| Problem::field("/url", format!("the fetched document cannot be imported: {error}"));
    parse(bytes).await.map_err(at_url)
}

/// Parses a document on a blocking thread, because parsing can take long.
async fn parse(bytes: Vec<u8>) -> Result<Document, ImportError> {
    let read = tokio::task::spawn_blocking(move || document::read(&bytes, Bounds::SENT)).await;
    read.unwrap_or_else(|_| Err(ImportError::unreadable()))
}

fn refused(error: ImportError, is_bare: bool) -> Problem {
    let pointer = match error.option {
        Some(option) => format!("/{option}"),
        None if is_bare => String::new(),
        None => "/document".to_owned(),
    };
    Problem::field(format!("{pointer}{}", error.pointer), error.message)
}

/// Returns `true` for the media type of YAML (RFC 9512), its unregistered predecessors, and that of OpenAPI.
fn is_yaml(content_type: Option<&str>) -> bool {
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        &*media_type,
        "application/yaml"
            | "application/x-yaml"
            | "text/yaml"
            | "text/x-yaml"
            | "text/vnd.yaml"
            | "application/vnd.oai.openapi"
    ) || media_type.ends_with("+yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_media_types_are_recognized() {
        for media_type in
            ["application/yaml", "Application/YAML; charset=utf-8", "text/x-yaml", "application/openapi+yaml"]
        {
            assert!(is_yaml(Some(media_type)), "{media_type}");
        }
        for media_type in [None, Some("application/json"), Some("text/plain")] {
            assert!(!is_yaml(media_type));
        }
    }
}
