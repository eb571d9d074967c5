//! Counts of HTTP requests by route template. The routes are known in advance, so an arbitrary path never becomes a
//! series, and a request costs one lookup.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Histogram};
use tokio::time::Instant;

use super::Registry;

/// The method and route of requests for an unknown path or method.
const UNMATCHED: &str = "unmatched";
/// The status of a request whose client disconnected before the response, as proxies log it.
const CLIENT_CLOSED: u16 = 499;
/// The counted statuses, in ascending order. Any other status is counted as `other`.
const STATUSES: [u16; 34] = [
    200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 412, 413, 415,
    416, 422, 428, 429, 431, 499, 500, 501, 502, 503, 504,
];

/// The series of all routes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Routes(Arc<RouteTable>);

#[derive(Debug)]
struct RouteTable {
    /// The routes of each template, one for each method.
    routes: HashMap<Box<str>, Vec<Arc<Route>>>,
    unmatched: Arc<Route>,
}

/// The series of a route.
#[derive(Debug)]
pub struct Route {
    method: Box<str>,
    template: Box<str>,
    registry: Registry,
    statuses: [OnceLock<Counter>; STATUSES.len() + 1],
    duration: OnceLock<Histogram>,
}

impl Routes {
    pub(super) fn new<'r>(registry: &Registry, routes: impl IntoIterator<Item = (&'r str, Vec<String>)>) -> Self {
        let one = |method: &str, template: &str| Arc::new(Route::new(registry, method, template));
        let routes = routes.into_iter().map(|(template, methods)| {
            (template.into(), methods.iter().map(|method| one(method, template)).collect::<Vec<_>>())
        });
        Self(Arc::new(RouteTable { routes: routes.collect(), unmatched: one(UNMATCHED, UNMATCHED) }))
    }

    /// Returns the series of a route.
    #[must_use]
    pub fn one(&self, method: &str, template: Option<&str>) -> Arc<Route> {
        // The handler of GET also answers HEAD.
        let method = if method == "HEAD" { "GET" } else { method };
        let methods = template.and_then(|template| self.0.routes.get(template));
        let route = methods.and_then(|methods| methods.iter().find(|route| *route.method == *method));
        route.unwrap_or(&self.0.unmatched).clone()
    }
}

impl Route {
    fn new(registry: &Registry, method: &str, template: &str) -> Self {
        Self {
            method: method.into(),
            template: template.into(),
            registry: registry.clone(),
            statuses: [const { OnceLock::new() }; STATUSES.len() + 1],
            duration: OnceLock::new(),
        }
    }

    /// Starts counting a request.
    #[must_use]
    pub fn begin(self: Arc<Self>) -> InFlightRequest {
        InFlightRequest { route: self, began: Instant::now(), status: None }
    }

    fn count(&self, status: u16, began: Instant) {
        let index = STATUSES.binary_search(&status).unwrap_or(STATUSES.len());
        let counter = self.statuses[index].get_or_init(|| {
            let status = STATUSES.get(index).map_or_else(|| "other".to_owned(), u16::to_string);
            let labels = [("method", &*self.method), ("route", &*self.template), ("status", status.as_str())];
            self.registry.counter("toolpost_http_requests_total", &labels)
        });
        counter.increment(1);
        let duration = self.duration.get_or_init(|| {
            let labels = [("method", &*self.method), ("route", &*self.template)];
            self.registry.histogram("toolpost_http_request_duration_seconds", &labels)
        });
        duration.record(began.elapsed());
    }
}

/// A request in flight. If it is dropped without a status, the client disconnected or the handler panicked.
#[derive(Debug)]
pub struct InFlightRequest {
    route: Arc<Route>,
    began: Instant,
    status: Option<u16>,
}

impl InFlightRequest {
    /// Sets the status once the response head is ready.
    pub fn answered(mut self, status: u16) {
        self.status = Some(status);
    }

    /// Returns the template of the route.
    #[must_use]
    pub fn route(&self) -> &str {
        &self.route.template
    }

    /// Returns the time since the request began, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let broken = if std::thread::panicking() { 500 } else { CLIENT_CLOSED };
        self.route.count(self.status.unwrap_or(broken), self.began);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn statuses_are_sorted() {
        assert!(STATUSES.is_sorted());
    }

    #[test]
    fn requests_are_counted_by_route_and_not_by_path() {
        let metrics = Metrics::default();
        let routes = metrics.routes([("/tools/{name}", vec!["GET".to_owned()])]);
        routes.one("GET", Some("/tools/{name}")).begin().answered(200);
        routes.one("HEAD", Some("/tools/{name}")).begin().answered(200);
        routes.one("GET", Some("/tools/{name}")).begin().answered(299);
        routes.one("BREW", Some("/tools/{name}")).begin().answered(405);
        routes.one("GET", Some("/made/up")).begin().answered(404);
        drop(routes.one("GET", None).begin());
        let text = metrics.render();
        let mut lines: Vec<&str> = text.lines().filter(|l| l.starts_with("toolpost_http_requests_total{")).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                r#"toolpost_http_requests_total{method="GET",route="/tools/{name}",status="200"} 2"#,
                r#"toolpost_http_requests_total{method="GET",route="/tools/{name}",status="other"} 1"#,
                r#"toolpost_http_requests_total{method="unmatched",route="unmatched",status="404"} 1"#,
                r#"toolpost_http_requests_total{method="unmatched",route="unmatched",status="405"} 1"#,
                r#"toolpost_http_requests_total{method="unmatched",route="unmatched",status="499"} 1"#,
            ]
        );
    }
}
