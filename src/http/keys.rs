//! `/keys`: API keys and their permissions. Only the response to the creation of a key contains the key.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::responses::{InvalidQuery, Unavailable};
use super::{Api, BodyErrors, HttpResult, JsonBody, NoContent, Params, Problem, extract, reply};
use crate::access::Access;
use crate::auth::create::NewKey;
use crate::domain::schemas::Glob;
use crate::domain::{AllowList, Caller, Scope, Tenant, json};
use crate::store::keys::StoredKey;

/// Default number of keys per page.
const PAGE: u32 = 100;
/// Maximum number of keys per page.
const MAX_PAGE: u32 = 500;

/// The properties of a new key.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub(super) struct KeyBody {
    /// A name for display.
    #[serde(default)]
    #[schema(max_length = 128, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    name: String,
    /// The scopes of the key.
    #[schema(min_items = 1)]
    scopes: Vec<Scope>,
    /// The tools that the key may use, as globs over their names. Default: all tools.
    #[serde(default)]
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    tools: Vec<String>,
    /// The queues whose calls the key may fetch, as globs over their names. Default: all queues.
    #[serde(default)]
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    queues: Vec<String>,
    /// The tenant of the key. Default: the caller's tenant. Only keys of the default tenant can create keys of other
    /// tenants.
    #[schema(min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    tenant: Option<String>,
    /// The lifetime: a number with `s`, `m`, `h`, `d` or `w`. Default: unlimited.
    #[schema(
        example = "30d",
        pattern = "^([1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,4}h|[1-9][0-9]{0,3}d|[1-9][0-9]{0,2}w)$"
    )]
    expires: Option<String>,
    /// Maximum number of requests per minute. Default: as configured.
    #[schema(minimum = 1)]
    rate: Option<u32>,
    /// Maximum number of concurrent requests. Default: as configured.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
}

/// A newly created key.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = MadeKey)]
struct CreatedKey<'a> {
    #[serde(flatten)]
    stored: &'a StoredKey,
    /// The key itself. No other response contains it.
    #[schema(example = "tp_…")]
    key: String,
}

/// A page of keys.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ApiKeyPage)]
struct Page {
    /// The keys, newest first, including revoked ones.
    keys: Vec<StoredKey>,
    /// The cursor of the next page; `null` on the last page.
    next_cursor: Option<Uuid>,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Maximum number of keys per page.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

/// Creates a key. The first key enables authentication for all requests.
///
/// A key cannot create a key with more permissions than its own.
#[utoipa::path(post, path = "/keys", operation_id = "create_key", tag = "keys",
    request_body(content = KeyBody, example = json!({"name": "agent", "scopes": ["call"], "expires": "30d"})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Created. Only this response contains the key", body = CreatedKey, headers(("Location" = String))),
        (status = 422, description = "The body does not match the schema, or a property of the key is invalid"),
        (status = 429, description = "`TOO_MANY_KEYS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
    let KeyBody { name, scopes, tools, queues, tenant, expires, rate, concurrency } = body.read()?;
    let tenant = match tenant {
        None => access.tenant().clone(),
        Some(name) => Tenant::named(&name)
            .ok_or_else(|| Problem::field("/tenant", "must have 1 to 128 characters and no control characters"))?,
    };
    let new = NewKey { tenant, name, scopes: scopes.into_iter().collect(), tools, queues, expires, rate, concurrency };
    check_within(access.caller(), &new)?;
    let (id, now) = (state.engine.new_id(), state.clock.now());
    let (stored, key) = new.create_key(id, now).map_err(|fault| match fault {
        Some((pointer, message)) => Problem::field(pointer, message),
        None => Problem::internal(),
    })?;
    access.store().insert_key(&stored).await?;
    state.auth.look().await?;
    let mut response = reply::ok(&CreatedKey { stored: &stored, key });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply::created(&format!("/keys/{id}"), response))
}

/// Checks that the caller has all permissions that it grants.
fn check_within(caller: &Caller, new: &NewKey) -> HttpResult<()> {
    if new.tenant != caller.tenant && !caller.tenant.is_default() {
        return Err(Problem::forbidden("only a key of the default tenant can create keys of other tenants"));
    }
    if !new.scopes.are_within(caller.scopes) {
        let own = caller.scopes.to_text();
        return Err(Problem::forbidden(format!("cannot grant a scope that your key does not have; yours are {own}")));
    }
    check_globs(caller.tools.as_deref(), &new.tools, "cannot grant a tool that your key may not use")?;
    check_globs(caller.queues.as_deref(), &new.queues, "cannot grant a queue that your key may not use")
}

/// Checks that a list of globs grants nothing beyond the caller's own.
fn check_globs(own: Option<&AllowList>, new: &[String], fault: &str) -> HttpResult<()> {
    let Some(own) = own else { return Ok(()) };
    if !new.is_empty() && new.iter().all(|glob| own.globs().contains(glob)) {
        return Ok(());
    }
    let own = own.globs().join(", ");
    let own = json::shorten(&own, 500);
    Err(Problem::forbidden(format!("{fault}; name some of {own}")))
}

/// Lists the keys of the caller's tenant. The default tenant sees the keys of all tenants.
#[utoipa::path(get, path = "/keys", operation_id = "list_keys", tag = "keys", params(PageParams),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "A page", body = Page), InvalidQuery, Unavailable))]
pub(super) async fn list(access: Access, Params(params): Params<PageParams>) -> HttpResult {
    let limit = extract::limit(params.limit, PAGE, MAX_PAGE)?;
    // One more key shows whether there is a next page.
    let mut keys = access.store().keys(seen_by(&access), params.cursor, limit + 1).await?;
    let more = keys.len() > limit as usize;
    keys.truncate(limit as usize);
    let next_cursor = keys.last().filter(|_| more).map(|key| key.id);
    Ok(reply::ok(&Page { keys, next_cursor }))
}

/// Returns a key's metadata.
#[utoipa::path(get, path = "/keys/{id}", operation_id = "read_key", tag = "keys", params(("id" = String, Path, description = "The key's id")),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The key's metadata, without the secret", body = StoredKey),
        (status = 404, description = "Unknown key"), Unavailable))]
pub(super) async fn read(access: Access, Path(id): Path<String>) -> HttpResult {
    let known: Uuid = id.parse().map_err(|_| Problem::unknown("key", &id))?;
    let behind = known.as_u128().checked_add(1).map(Uuid::from_u128);
    let newest = access.store().keys(seen_by(&access), behind, 1).await?;
    let key = newest.first().filter(|key| key.id == known).ok_or_else(|| Problem::unknown("key", &id))?;
    Ok(reply::ok(key))
}

/// Revokes a key. All nodes reject it after at most 5 s. Revoking a key again changes nothing.
#[utoipa::path(delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "keys", params(("id" = String, Path, description = "The key's id")),
    security(("api_key" = ["admin"])),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "Unknown key"), Unavailable))]
pub(super) async fn revoke(Api { state, access }: Api, Path(id): Path<String>) -> HttpResult<NoContent> {
    let known: Uuid = id.parse().map_err(|_| Problem::unknown("key", &id))?;
    if !access.store().revoke_key(seen_by(&access), known, state.clock.now()).await? {
        return Err(Problem::unknown("key", &id));
    }
    state.auth.look().await?;
    Ok(NoContent)
}

/// Returns the tenant whose keys the caller sees; `None` means all tenants.
fn seen_by(access: &Access) -> Option<&Tenant> {
    Some(access.tenant()).filter(|tenant| !tenant.is_default())
}
