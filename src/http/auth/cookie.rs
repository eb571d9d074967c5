//! The cookie of the console: the value of a session, which counts as an API key for requests of the same origin.

use axum::http::header::{COOKIE, HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderName, Method};
use url::Url;

use crate::http::{HttpResult, Problem};

/// The names of the cookie: over HTTPS, over HTTPS below a gateway's prefix, and over plain HTTP. Browsers accept the first
/// two from secure pages only (RFC 6265bis, section 4.1.3), and the first one for no other host.
const NAMES: [&str; 3] = ["__Host-toolpost_session", "__Secure-toolpost_session", "toolpost_session"];

/// Fetch Metadata: the relation between the page's origin and this service.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns the session of the cookie. A page of another origin has none.
///
/// # Errors
/// Returns a 403 if the request could change something and does not come from a page of the service itself.
pub(in crate::http) fn session<'h>(
    headers: &'h HeaderMap,
    method: &Method,
    public_url: &str,
) -> HttpResult<Option<&'h str>> {
    let Some(session) = value(headers) else { return Ok(None) };
    let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if changes {
        require_own_origin(headers, public_url)?;
    }
    let relation = headers.get(SEC_FETCH_SITE).map(|value| value.as_bytes());
    Ok(matches!(relation, None | Some(b"same-origin" | b"none")).then_some(session))
}

/// Returns the value of the cookie, whatever page sent it.
pub(in crate::http) fn value(headers: &HeaderMap) -> Option<&str> {
    let pairs = || {
        let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='))
    };
    let named = |wanted: &str| pairs().find(|(name, value)| *name == wanted && !value.is_empty());
    NAMES.iter().find_map(|name| named(name)).map(|(_, value)| value)
}

/// Requires the `Origin` of a page of the service itself. Behind a gateway, its host is that of `Host` or
/// `server.public_url`, or of `X-Forwarded-Host`, which requests have only from trusted proxies, or the browser says that the
/// origin is the same.
///
/// # Errors
/// Returns a 403 for any other origin, and for none.
pub(in crate::http) fn require_own_origin(headers: &HeaderMap, public_url: &str) -> HttpResult<()> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(&ORIGIN) else { return Err(Problem::cross_origin()) };
    if let Some(relation) = text(&SEC_FETCH_SITE) {
        return if relation == "same-origin" { Ok(()) } else { Err(Problem::cross_origin()) };
    }
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let is_host = [HOST, FORWARDED_HOST].iter().any(|name| text(name).is_some_and(|named| named == host));
    let public = Url::parse(public_url).is_ok_and(|url| url.origin().ascii_serialization() == origin);
    if !host.is_empty() && (is_host || public) { Ok(()) } else { Err(Problem::cross_origin()) }
}

/// Returns the `Set-Cookie` of a session.
pub(in crate::http) fn of_session(session: &str, headers: &HeaderMap) -> String {
    let (name, attributes) = form(headers);
    format!("{name}={session}; {attributes}")
}

/// Returns the `Set-Cookie` that removes the session.
pub(in crate::http) fn removal(headers: &HeaderMap) -> String {
    let (name, attributes) = form(headers);
    format!("{name}=; Max-Age=0; {attributes}")
}

/// Returns the name and the attributes (RFC 6265, section 4.1.2). The path is that of the service below a gateway's prefix,
/// so that other services of the gateway do not receive the cookie.
fn form(headers: &HeaderMap) -> (&'static str, String) {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_secure = text(ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
        || text(FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let page = text(REFERER).and_then(|page| Url::parse(page).ok());
    let prefix = page.as_ref().and_then(|page| page.path().rsplit_once("/console")).map_or("", |(prefix, _)| prefix);
    let is_path = prefix.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    let prefix = if is_path { prefix } else { "" };
    let [host, secure, plain] = NAMES;
    let name = match is_secure {
        true if prefix.is_empty() => host,
        true => secure,
        false => plain,
    };
    let secure = if is_secure { "; Secure" } else { "" };
    (name, format!("Path={prefix}/; HttpOnly; SameSite=Strict{secure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn change_needs_the_origin_of_the_service() {
        let own = |list: &[(HeaderName, &str)]| {
            let mut list = list.to_vec();
            list.extend([(COOKIE, "a=b; toolpost_session=tpt_1"), (HOST, "tools.test:8080")]);
            session(&headers(&list), &Method::POST, "https://agents.test/toolpost").ok().flatten().map(str::to_owned)
        };
        let accepted = Some("tpt_1".to_owned());
        assert_eq!(own(&[(ORIGIN, "http://tools.test:8080")]), accepted);
        assert_eq!(own(&[(ORIGIN, "https://agents.test")]), accepted);
        assert_eq!(own(&[(ORIGIN, "https://shown.test"), (FORWARDED_HOST, "shown.test")]), accepted);
        assert_eq!(own(&[(ORIGIN, "https://rewritten.test"), (SEC_FETCH_SITE, "same-origin")]), accepted);
        assert_eq!(own(&[]), None);
        assert_eq!(own(&[(ORIGIN, "null")]), None);
        assert_eq!(own(&[(ORIGIN, "http://tools.test")]), None);
        assert_eq!(own(&[(ORIGIN, "http://tools.test:8080"), (SEC_FETCH_SITE, "same-site")]), None);
    }

    #[test]
    fn reading_needs_no_origin_but_no_foreign_page_either() {
        let read = |list: &[(HeaderName, &str)]| {
            let mut list = list.to_vec();
            list.push((COOKIE, "toolpost_session=tpt_1"));
            session(&headers(&list), &Method::GET, "").unwrap().is_some()
        };
        assert!(read(&[]) && read(&[(SEC_FETCH_SITE, "same-origin")]) && read(&[(SEC_FETCH_SITE, "none")]));
        assert!(!read(&[(SEC_FETCH_SITE, "same-site")]) && !read(&[(SEC_FETCH_SITE, "cross-site")]));
    }

    #[test]
    fn cookie_is_limited_to_the_path_of_the_service() {
        let of = |list: &[(HeaderName, &str)]| of_session("tpt_1", &headers(list));
        assert_eq!(of(&[]), "toolpost_session=tpt_1; Path=/; HttpOnly; SameSite=Strict");
        let page = "https://a.test/toolpost/console/login";
        let cookie = of(&[(ORIGIN, "https://a.test"), (REFERER, page)]);
        assert_eq!(cookie, "__Secure-toolpost_session=tpt_1; Path=/toolpost/; HttpOnly; SameSite=Strict; Secure");
    }

    #[test]
    fn over_https_the_cookie_belongs_to_one_host() {
        for secure in [(ORIGIN, "https://a.test"), (FORWARDED_PROTO, "https")] {
            let headers = headers(&[secure]);
            let of = of_session("tpt_1", &headers);
            assert_eq!(of, "__Host-toolpost_session=tpt_1; Path=/; HttpOnly; SameSite=Strict; Secure");
            let removal = removal(&headers);
            assert_eq!(removal, "__Host-toolpost_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure");
        }
        let both = headers(&[(COOKIE, "toolpost_session=plain; __Host-toolpost_session=safe")]);
        assert_eq!(value(&both), Some("safe"));
        assert_eq!(value(&headers(&[(COOKIE, "toolpost_key=tp_1; a=b")])), None);
    }
}
