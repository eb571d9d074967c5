//! Authentication and authorization of requests. [`requirements`] defines what each route requires.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Either};
use http_body_util::BodyExt;
use tower::Service;

use super::client_address::ClientAddress;
use super::{AppState, HttpResult, Problem, paths};
use crate::access::Access;
use crate::auth::{AdmittedCaller, AuthError, Credential, Limits};
use crate::domain::Scopes;

pub(super) mod cookie;
pub(super) mod events_path;
pub(super) mod requirements;

use events_path::ShownTicket;
use requirements::{Requirement, RequirementTable};

/// A layer that authenticates requests, checks the route's requirement, and passes the caller on to the handler.
#[derive(Clone)]
pub(super) struct Gate {
    state: AppState,
    needs: Arc<RequirementTable>,
    /// The requirement of the route, if the layer is only in front of one.
    only: Option<Requirement>,
    /// `true` if the layer rejects requests while the service is overloaded.
    checks_load: bool,
}

impl Gate {
    /// Creates the layer for routes with these requirements.
    pub fn new(state: AppState, needs: RequirementTable) -> Self {
        Self { state, needs: Arc::new(needs), only: None, checks_load: false }
    }

    /// Returns the layer for a `POST` to this path alone.
    pub fn at(&self, path: &str) -> Self {
        Self { only: Some(self.needs.of_route(path, &paths::METHOD)), ..self.clone() }
    }

    /// Returns the layer for `POST /tool-calls` alone. It rejects calls before reading them if the service is
    /// overloaded.
    pub fn of_calls(&self) -> Self {
        Self { checks_load: true, ..self.at(paths::CALLS) }
    }

    /// Wraps a service.
    pub fn service<S>(&self, inner: S) -> GateService<S> {
        GateService { inner, gate: self.clone() }
    }

    fn need(&self, request: &Request) -> Requirement {
        self.only.unwrap_or_else(|| self.needs.requirement_of(request))
    }
}

/// The service of [`Gate`].
#[derive(Clone)]
pub(super) struct GateService<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request> for GateService<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let need = self.gate.need(&request);
        if let Requirement::Public = need {
            return Either::Left(self.inner.call(request));
        }
        if self.gate.checks_load && !self.gate.state.engine.takes_calls() {
            return Either::Right(Box::pin(std::future::ready(Ok(Problem::too_many_calls().into_response()))));
        }
        let ticket = ShownTicket::take(&mut request);
        if ticket.is_none()
            && let Some(operator) = self.gate.state.auth.operator()
        {
            request.extensions_mut().insert(operator.clone());
            return Either::Left(self.inner.call(request));
        }
        // Only the polled service is known to be ready, so it is moved out and its clone is left in place.
        let other = self.inner.clone();
        let (mut inner, state) = (std::mem::replace(&mut self.inner, other), self.gate.state.clone());
        Either::Right(Box::pin(async move {
            let (permit, credential) = match admit_request(&state, &request_head(&request), ticket, need).await {
                Ok(Some(AdmittedCaller { access, limits, permit, credential })) => {
                    request.extensions_mut().insert(access);
                    request.extensions_mut().insert(CallerLimits { limits, credential: credential.clone() });
                    (permit, credential)
                }
                Ok(None) => return inner.call(request).await,
                Err(problem) => return Ok(problem.into_response()),
            };
            let may_wait = requirements::may_wait(&request);
            let response = tokio::select! {
                biased;
                response = inner.call(request) => response?,
                () = credential.ended(), if may_wait => return Ok(Problem::invalid_key(CREDENTIAL_ENDED).into_response()),
            };
            if response.body().size_hint().exact().is_some() {
                return Ok(response);
            }
            // The credential stays in use until then, because only credentials in use are ended.
            let ended = async move { credential.ended().await };
            Ok(held(response, permit).map(|body| Body::from_stream(body.into_data_stream().take_until(ended))))
        }))
    }
}

/// The detail of the problem if a credential ends while its request waits.
const CREDENTIAL_ENDED: &str =
    "the API key or the token ended while the request waited; accepted calls continue as after a disconnect";

/// The caller's limits and credential, as an extension of the request.
#[derive(Debug, Clone)]
pub(super) struct CallerLimits {
    pub limits: Arc<Limits>,
    pub credential: Arc<Credential>,
}

/// Keeps `what` alive until a streamed response ends. A response of known size drops it immediately.
pub(super) fn held<T: Send + 'static>(response: Response, what: T) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _ = &what;
            error
        }))
    })
}

/// The parts of a request that authenticate its caller.
struct RequestHead<'r> {
    method: &'r Method,
    headers: &'r HeaderMap,
    client: Option<IpAddr>,
}

fn request_head(request: &Request) -> RequestHead<'_> {
    let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
    RequestHead { method: request.method(), headers: request.headers(), client }
}

/// Authenticates the caller and checks its scopes. Returns `None` if the route is public or the request has a call's
/// token.
async fn admit_request(
    state: &AppState,
    head: &RequestHead<'_>,
    ticket: Option<ShownTicket>,
    need: Requirement,
) -> HttpResult<Option<AdmittedCaller>> {
    let bearer = bearer(head.headers);
    let scopes = match need {
        Requirement::Public => return Ok(None),
        Requirement::CallTokenOr(_) if bearer.is_some_and(|bearer| !state.auth.is_for(bearer)) => return Ok(None),
        Requirement::Authenticated | Requirement::AllScopes(_) => None,
        Requirement::AnyScope(scopes) | Requirement::CallTokenOr(scopes) => Some(scopes),
    };
    let admitted = match (bearer, ticket) {
        (_, Some(ticket)) => {
            let admitted = state.auth.admit_ticket(&ticket.text, |path| ticket.is_covered_by(path)).await;
            let other_path = || Problem::forbidden("the event ticket was issued for another path");
            admitted.map_err(refused)?.ok_or_else(other_path)?
        }
        (Some(bearer), None) => state.auth.admit(bearer, head.client).await.map_err(refused)?,
        (None, None) => match cookie::session(head.headers, head.method, &state.config.server.public_url)? {
            Some(session) => state.auth.admit_console(session).await.map_err(refused)?,
            None => return Err(Problem::missing_key()),
        },
    };
    scopes.map_or(Ok(()), |scopes| require(&admitted.access, scopes))?;
    if let Requirement::AllScopes(scopes) = need {
        scopes.iter().try_for_each(|scope| require(&admitted.access, Scopes::of([scope])))?;
    }
    Ok(Some(admitted))
}

pub(super) fn refused(refused: AuthError) -> Problem {
    match refused {
        AuthError::Invalid(reason) => Problem::invalid_key(reason),
        AuthError::Unknown(reason) => Problem::unavailable("ISSUER_UNAVAILABLE", reason),
        AuthError::Store(error) => error.into(),
        AuthError::Busy(busy) => Problem::too_many("TOO_MANY_REQUESTS", busy.what, busy.retry_after_s),
    }
}

/// Checks that the caller has one of these scopes.
pub(super) fn require(access: &Access, scopes: Scopes) -> HttpResult<()> {
    if access.caller().scopes.allow(scopes) { Ok(()) } else { Err(Problem::scope_missing(scopes)) }
}

/// Checks that the caller may use all tools. Keys for some tools cannot do what affects every tool.
pub(super) fn require_all_tools(access: &Access) -> HttpResult<()> {
    match access.allowed() {
        None => Ok(()),
        Some(_) => Err(Problem::forbidden("this affects all tools, but the key is restricted to some of them")),
    }
}

/// Checks that the caller may use all of these tools.
pub(super) fn require_tools(access: &Access, tools: impl IntoIterator<Item = String>) -> HttpResult<()> {
    match tools.into_iter().all(|tool| access.caller().may_have(&tool)) {
        true => Ok(()),
        false => Err(Problem::forbidden("this would end a call of a tool that the key may not use")),
    }
}

/// Checks that the caller may see data of all tenants: it belongs to the default tenant and may use all tools.
pub(super) fn require_operator(access: &Access) -> HttpResult<()> {
    if !access.tenant().is_default() {
        return Err(Problem::forbidden("this requires a key of the tenant `default`, because it covers all tenants"));
    }
    require_all_tools(access)
}

/// Returns the token of `Authorization: Bearer` (RFC 6750, section 2.1).
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The service and the caller of a request, for its handler.
pub(super) struct Api {
    pub state: AppState,
    pub access: Access,
}

impl FromRequestParts<AppState> for Api {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> HttpResult<Self> {
        let access = Access::from_request_parts(parts, state).await?;
        Ok(Self { state: state.clone(), access })
    }
}

impl FromRequestParts<AppState> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> HttpResult<Self> {
        // The gate sets the extension, so a route outside the gate rejects all requests.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::missing_key)
    }
}
