//! All routes, each with its handlers and its part of the OpenAPI document.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;
use utoipa::openapi::{HttpMethod, OpenApi as Document};
use utoipa::{OpenApi, Path};

use super::auth::requirements::{Requirement, RequirementTable};
use super::{
    AppState, approvals, arguments, budgets, calls, cancel_calls, console, control, docs, events, groups, hooks,
    imports, keys, listing, mcp, model_stream, operations, policies, presets, rerun, sessions, stats, system,
    tool_list, tools, upstreams, workers,
};

/// A handler without its type. Otherwise, the compiler builds the router's types for each handler, and proves for each of them
/// that the future of the handler can be sent.
#[derive(Clone)]
struct BoxedHandler(Arc<dyn Fn(Request, AppState) -> BoxFuture<'static, Response> + Send + Sync>);

fn boxed<T, H>(handler: H) -> BoxedHandler
where
    H: Handler<T, AppState, Future = BoxFuture<'static, Response>> + Sync,
{
    BoxedHandler(Arc::new(move |request, state| handler.clone().call(request, state)))
}

impl Handler<(), AppState> for BoxedHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: AppState) -> Self::Future {
        (self.0)(request, state)
    }
}

/// The routes so far, and what they require.
#[derive(Default)]
struct Routes {
    router: Router<AppState>,
    needs: RequirementTable,
}

impl Routes {
    fn add<P: Path>(&mut self, handler: BoxedHandler) {
        self.insert(&P::path(), &P::methods(), Requirement::of(&P::operation()), handler);
    }

    fn insert(&mut self, path: &str, methods: &[HttpMethod], need: Requirement, handler: BoxedHandler) {
        for method in methods {
            let (method, filter) = method_of(method);
            self.needs.add(path, method, need);
            self.router = std::mem::take(&mut self.router).route(path, on(filter, handler.clone()));
        }
    }
}

/// Defines the router and the document of these handlers, given as `module.function`.
///
/// Each function builds its part only, because each start needs the router, and few services serve the document.
macro_rules! routes {
    ($( $($module:ident)::+ . $handler:ident, )+) => { pastey::paste! {
        /// Returns the router, and what its routes require.
        pub(super) fn router() -> (Router<AppState>, RequirementTable) {
            let mut routes = Routes::default();
            $( routes.add::<$($module)::+::[<__path_ $handler>]>(boxed($($module)::+::$handler)); )+
            (routes.router, routes.needs)
        }

        #[derive(OpenApi)]
        #[openapi(paths($( $($module)::+::$handler ),+))]
        struct RouteDocument;
    } };
}

routes! {
    tool_list.list, tools.create, tools.read, tools.replace, tools.delete, tools.validate,
    hooks.list, hooks.create, hooks.read, hooks.delete,
    budgets.list, budgets.create, budgets.read, budgets.put, budgets.delete,
    policies.list, policies.create, policies.read, policies.put, policies.delete, policies::test.test,
    keys.list, keys.create, keys.read, keys.revoke,
    imports.openapi, upstreams.list, upstreams.create, upstreams.read, upstreams.delete, upstreams.restart,
    upstreams.accept,
    tools.resume,
    groups.list, groups.create, groups.switch, groups.read, groups.change, groups.delete,
    presets.read, presets.put,
    stats.of_tool, stats.reset_tool, stats.of_all, stats.reset_all,
    calls.execute, listing.page, listing.one, listing.output, listing.content,
    events.of_call,
    arguments.patch, model_stream.pipe, control.cancel, cancel_calls.cancel_matching, rerun.rerun,
    approvals.decide, approvals.page, approvals.events,
    workers::listing.list, workers.claim, workers.heartbeat, workers::results.post, workers::tools.put,
    control.progress, control.result,
    events.of_all, events.create_ticket, sessions.create, sessions.page, sessions::detail.read,
    sessions::detail.delete, sessions.abort, sessions.complete, events.of_session, sessions::render.messages,
    sessions::render.prompt,
    mcp.post, mcp.stream, mcp.end,
    console::login.login, console::login.logout, console::login.whoami,
    system.read, operations.healthz, operations.readyz, operations.metrics,
}

/// Returns the document as derived from the routes.
pub(super) fn document() -> Document {
    let mut document = docs::frame();
    document.merge(RouteDocument::openapi());
    document
}

fn method_of(method: &HttpMethod) -> (Method, MethodFilter) {
    match method {
        HttpMethod::Get => (Method::GET, MethodFilter::GET),
        HttpMethod::Put => (Method::PUT, MethodFilter::PUT),
        HttpMethod::Post => (Method::POST, MethodFilter::POST),
        HttpMethod::Delete => (Method::DELETE, MethodFilter::DELETE),
        HttpMethod::Options => (Method::OPTIONS, MethodFilter::OPTIONS),
        HttpMethod::Head => (Method::HEAD, MethodFilter::HEAD),
        HttpMethod::Patch => (Method::PATCH, MethodFilter::PATCH),
        HttpMethod::Trace => (Method::TRACE, MethodFilter::TRACE),
    }
}
