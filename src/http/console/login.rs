//! `POST /console/login` and `/console/logout`: the sign-in of the console, and `GET /whoami`, which says what the
//! caller may do.

use axum::Extension;
use axum::extract::State;
use axum::http::header::{ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{Scope, Scopes, Tenant, Time};
use crate::http::auth::cookie;
use crate::http::client_address::ClientAddress;
use crate::http::events::ticket_refused;
use crate::http::responses::Unavailable;
use crate::http::{Api, AppState, BodyErrors, HttpResult, JsonBody, Problem, auth, reply};

/// Maximum number of characters of a key or token.
const MAX_KEY: usize = 3500;

/// The key to sign in with.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LoginBody {
    /// An API key, or a token of the configured issuer.
    #[schema(min_length = 1, max_length = 3500, example = "tp_…")]
    key: String,
}

/// Signs the console in. The response sets a cookie with a random value that counts as the key for requests of pages of the
/// service itself, for 12 h at most, until the key ends or the console signs out. A service that requires no authentication
/// sets none.
#[utoipa::path(post, path = "/console/login", operation_id = "login", tag = "operations", request_body(content = LoginBody, example = json!({"key": "tp_…"})),
    security(()),
    responses((status = 204, description = "Signed in; `Set-Cookie` has the cookie, unless the service requires no authentication"),
        (status = 401, description = "`INVALID_KEY`: the key is not valid"),
        (status = 403, description = "`CROSS_ORIGIN`: the page belongs to another origin"),
        (status = 422, description = "The body has not the shape of LoginBody"),
        (status = 429, description = "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded, or the address has sent too many invalid keys"),
        BodyErrors, Unavailable))]
pub(in crate::http) async fn login(
    State(state): State<AppState>,
    headers: HeaderMap,
    client: Option<Extension<ClientAddress>>,
    mut body: JsonBody,
) -> HttpResult {
    require_own_page(&state, &headers)?;
    let LoginBody { key } = body.read()?;
    if !(1..=MAX_KEY).contains(&key.chars().count()) {
        return Err(Problem::field("/key", format!("must have 1 to {MAX_KEY} characters")));
    }
    if state.auth.operator().is_some() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let client = client.map(|Extension(ClientAddress(address))| address);
    let admitted = state.auth.admit(&key, client).await.map_err(auth::refused)?;
    let session = state.auth.sign_in(&admitted).await.map_err(ticket_refused)?;
    let cookie = cookie::of_session(&session.text, &headers);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

/// Signs the console out: ends its session on all nodes and removes the cookie. The key remains valid.
#[utoipa::path(post, path = "/console/logout", operation_id = "logout", tag = "operations",
    security(()),
    responses((status = 204, description = "Signed out"),
        (status = 403, description = "`CROSS_ORIGIN`: the page belongs to another origin"), Unavailable))]
pub(in crate::http) async fn logout(State(state): State<AppState>, headers: HeaderMap) -> HttpResult {
    require_own_page(&state, &headers)?;
    if let Some(session) = cookie::value(&headers) {
        state.auth.sign_out(session).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::removal(&headers))]).into_response())
}

/// Rejects pages of other origins. Programs send no `Origin`, and have no cookie to protect.
fn require_own_page(state: &AppState, headers: &HeaderMap) -> HttpResult<()> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    cookie::require_own_origin(headers, &state.config.server.public_url)
}

/// The caller and its permissions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Whoami {
    /// Whether the service requires no authentication.
    open: bool,
    /// The id of the key; `null` for a token or an open service.
    key_id: Option<Uuid>,
    /// The name of the key; `null` for a token or an open service.
    name: Option<String>,
    /// The tenant of the caller.
    #[schema(value_type = String)]
    tenant: Tenant,
    /// The scopes of the caller.
    #[schema(value_type = Vec<Scope>)]
    scopes: Scopes,
    /// The tools that the caller may use, as globs over their names; `null` for all tools.
    tools: Option<Vec<String>>,
    /// When the key expires; `null` if it does not, or if the caller has none.
    expires_at: Option<Time>,
}

/// Says who the caller is and what it may do.
#[utoipa::path(get, path = "/whoami", operation_id = "whoami", tag = "operations",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"]), ("api_key" = ["approve"]), ("api_key" = ["admin"])),
    responses((status = 200, description = "The caller", body = Whoami), Unavailable))]
pub(in crate::http) async fn whoami(Api { state, access }: Api) -> HttpResult {
    let caller = access.caller();
    let key = match caller.key {
        Some(id) => state.stores.key(id).await?,
        None => None,
    };
    Ok(reply::ok(&Whoami {
        open: state.auth.operator().is_some(),
        key_id: caller.key,
        expires_at: key.as_ref().and_then(|key| key.expires_at),
        name: key.map(|key| key.name),
        tenant: caller.tenant.clone(),
        scopes: caller.scopes,
        tools: access.allowed().map(|tools| tools.globs().to_vec()),
    }))
}
