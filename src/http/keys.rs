//! `/keys`: who may do what. A key is shown once, when it is made.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::extract::{JsonBody, Params};
use super::openapi_common::BodyErrors;
use super::problem::Problem;
use super::{AppState, reply};
use crate::access::Access;
use crate::auth::create::NewKey;
use crate::domain::schemas::Glob;
use crate::domain::{Caller, Scope, Scopes, Tenant, Time, json};
use crate::store::keys::StoredKey;

/// Keys of a page unless asked otherwise, and at most.
const PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 500;

/// What a key is to be.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub(super) struct KeyBody {
    /// What it is called, for people.
    #[serde(default)]
    #[schema(max_length = 128, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    name: String,
    /// What it may do.
    #[schema(min_items = 1)]
    scopes: Vec<Scope>,
    /// The tools that there are for it, by globs over their names; all unless given.
    #[serde(default)]
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    tools: Vec<String>,
    /// Whose it is; the caller's tenant unless given. Only a key of the default tenant makes keys of others.
    #[schema(min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    tenant: Option<String>,
    /// How long it is good: a number with `s`, `m`, `h`, `d` or `w`; for ever unless given.
    #[schema(
        example = "30d",
        pattern = "^([1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,4}h|[1-9][0-9]{0,3}d|[1-9][0-9]{0,2}w)$"
    )]
    expires: Option<String>,
    /// Requests a minute; as the settings have it unless given.
    #[schema(minimum = 1)]
    rate: Option<u32>,
    /// Requests at once; as the settings have it unless given.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
}

/// A key, without what makes it one.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ApiKey)]
pub(super) struct KeyView<'a> {
    /// Its id.
    id: Uuid,
    /// What it is called.
    name: &'a str,
    /// How it begins.
    prefix: &'a str,
    /// Whose it is.
    tenant: &'a str,
    /// What it may do.
    scopes: Vec<Scope>,
    /// The tools that there are for it; an empty list is all.
    tools: &'a [String],
    /// Requests a minute; `null`: as the settings have it.
    rate: Option<u32>,
    /// Requests at once; `null`: as the settings have it.
    concurrency: Option<u32>,
    /// When it was made.
    created_at: Time,
    /// When it ends; `null` is never.
    expires_at: Option<Time>,
    /// When it was revoked, if it was.
    revoked_at: Option<Time>,
    /// When it was used last, to about a minute.
    last_used_at: Option<Time>,
}

impl<'a> From<&'a StoredKey> for KeyView<'a> {
    fn from(key: &'a StoredKey) -> Self {
        Self {
            id: key.id,
            name: &key.name,
            prefix: &key.prefix,
            tenant: key.tenant.as_str(),
            scopes: key.scopes.iter().collect(),
            tools: &key.tools,
            rate: key.rate,
            concurrency: key.concurrency,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// A key that was just made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = MadeKey)]
struct CreatedKey<'a> {
    #[serde(flatten)]
    view: KeyView<'a>,
    /// The key itself. It is shown this once.
    #[schema(example = "tp_…")]
    key: String,
}

/// A page of keys.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ApiKeyPage)]
struct Page<'a> {
    /// Newest first, revoked ones included.
    keys: Vec<KeyView<'a>>,
    /// For the next page; `null` at the end.
    next_cursor: Option<Uuid>,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Most keys of a page.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// Makes a key. From the first key on everybody has to show one.
///
/// A key cannot make one that may do more than itself.
#[utoipa::path(post, path = "/keys", operation_id = "create_key", tag = "keys",
    request_body(content = KeyBody, example = json!({"name": "agent", "scopes": ["call"], "expires": "30d"})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Made. The answer is the only one that has the key", body = CreatedKey, headers(("Location" = String))),
        BodyErrors,
        (status = 422, description = "The body does not match the schema, or the key cannot be as it says"),
        (status = 429, description = "`TOO_MANY_KEYS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn create(
    State(state): State<AppState>,
    access: Access,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let KeyBody { name, scopes, tools, tenant, expires, rate, concurrency } = body.read()?;
    let tenant = match tenant {
        None => access.tenant().clone(),
        Some(name) => Tenant::named(&name)
            .ok_or_else(|| Problem::field("/tenant", "must have 1 to 128 characters, none of them a control"))?,
    };
    let new = NewKey { tenant, name, scopes: scopes.into_iter().collect(), tools, expires, rate, concurrency };
    check_within(access.caller(), &new)?;
    let (id, now) = (state.engine.new_id(), state.clock.now());
    let (stored, key) = new.create_key(id, now).map_err(|fault| match fault {
        Some((pointer, message)) => Problem::field(pointer, message),
        None => Problem::internal(),
    })?;
    access.store().insert_key(&stored).await?;
    state.auth.look().await?;
    let mut response = reply::json(StatusCode::CREATED, &CreatedKey { view: (&stored).into(), key });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply::at(&format!("/keys/{id}"), response))
}

/// Nobody gives away what they do not have.
fn check_within(caller: &Caller, new: &NewKey) -> Result<(), Problem> {
    if new.tenant != caller.tenant && !caller.tenant.is_default() {
        return Err(Problem::forbidden("only a key of the default tenant makes keys of other tenants"));
    }
    if !new.scopes.are_within(caller.scopes) {
        let scopes: Scopes = caller.scopes;
        return Err(Problem::forbidden(format!(
            "a key gets no scope that its maker lacks; yours are {}",
            scopes.to_text()
        )));
    }
    let Some(own) = &caller.tools else { return Ok(()) };
    let is_within = !new.tools.is_empty() && new.tools.iter().all(|glob| own.globs().contains(glob));
    if is_within {
        return Ok(());
    }
    Err(Problem::forbidden(format!(
        "a key gets no tool that its maker lacks; name some of {}",
        json::shorten(&own.globs().join(", "), 500)
    )))
}

/// Lists the keys of the caller's tenant; of the default tenant those of all.
#[utoipa::path(get, path = "/keys", operation_id = "list_keys", tag = "keys", params(PageParams),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "A page", body = Page),
        (status = 422, description = "A query parameter is invalid"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn list(access: Access, Params(params): Params<PageParams>) -> Result<Response, Problem> {
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("", format!("query: limit must be 1 to {LARGEST_PAGE}")));
    }
    // One more tells whether there is another page.
    let mut keys = access.store().keys(seen_by(&access), params.cursor, limit + 1).await?;
    let more = keys.len() > limit as usize;
    keys.truncate(limit as usize);
    let next_cursor = keys.last().filter(|_| more).map(|key| key.id);
    Ok(reply::json(StatusCode::OK, &Page { keys: keys.iter().map(KeyView::from).collect(), next_cursor }))
}

/// Reads a key.
#[utoipa::path(get, path = "/keys/{id}", operation_id = "read_key", tag = "keys", params(("id" = String, Path, description = "The key's id")),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The key, without what makes it one", body = KeyView),
        (status = 404, description = "Unknown key"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn read(access: Access, Path(id): Path<String>) -> Result<Response, Problem> {
    let known: Uuid = id.parse().map_err(|_| no_such_key(&id))?;
    let behind = known.as_u128().checked_add(1).map(Uuid::from_u128);
    let newest = access.store().keys(seen_by(&access), behind, 1).await?;
    let key = newest.first().filter(|key| key.id == known).ok_or_else(|| no_such_key(&id))?;
    Ok(reply::json(StatusCode::OK, &KeyView::from(key)))
}

/// Revokes a key: 5 s later no node takes it any more. One that is revoked stays as it is.
#[utoipa::path(delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "keys", params(("id" = String, Path, description = "The key's id")),
    security(("api_key" = ["admin"])),
    responses((status = 204, description = "Revoked"),
        (status = 404, description = "Unknown key"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn revoke(
    State(state): State<AppState>,
    access: Access,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let known: Uuid = id.parse().map_err(|_| no_such_key(&id))?;
    if !access.store().revoke_key(seen_by(&access), known, state.clock.now()).await? {
        return Err(no_such_key(&id));
    }
    state.auth.look().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whose keys there are for a caller; `None`: everybody's.
fn seen_by(access: &Access) -> Option<&Tenant> {
    Some(access.tenant()).filter(|tenant| !tenant.is_default())
}

fn no_such_key(id: &str) -> Problem {
    Problem::not_found(format!("there is no key \"{}\"", json::shorten(id, 64)))
}
