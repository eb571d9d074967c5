//! The cookie of the console, which counts as an API key for requests of the same origin.

use axum::http::header::{COOKIE, HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderName, Method};
use url::Url;

use crate::http::{HttpResult, Problem};

/// The name of the cookie.
const NAME: &str = "toolpost_key";
/// The longest key that a browser keeps with its name and attributes (RFC 6265, section 6.1).
const MAX_BYTES: usize = 3500;

/// Fetch Metadata: the relation between the page's origin and this service.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Returns the key of the cookie. A page of another origin has none.
///
/// # Errors
/// Returns a 403 if the request could change something and does not come from a page of the service itself.
pub(in crate::http) fn key<'h>(
    headers: &'h HeaderMap,
    method: &Method,
    public_url: &str,
) -> HttpResult<Option<&'h str>> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let named = pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == NAME);
    let Some((_, key)) = named.filter(|(_, key)| !key.is_empty()) else { return Ok(None) };
    let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if changes {
        require_own_origin(headers, public_url)?;
    }
    let relation = headers.get(SEC_FETCH_SITE).map(|value| value.as_bytes());
    Ok(matches!(relation, None | Some(b"same-origin" | b"none")).then_some(key))
}

/// Requires the `Origin` of a page of the service itself. Behind a gateway, its host is that of `Host`,
/// `X-Forwarded-Host` or `server.public_url`, or the browser says that the origin is the same.
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

/// Returns the `Set-Cookie` of a key, or `None` if a cookie cannot have it.
pub(in crate::http) fn of_key(key: &str, headers: &HeaderMap) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+/=".contains(&byte);
    let fits = !key.is_empty() && key.len() <= MAX_BYTES && key.bytes().all(is_token);
    fits.then(|| format!("{NAME}={key}; {}", attributes(headers)))
}

/// Returns the `Set-Cookie` that removes the key.
pub(in crate::http) fn removal(headers: &HeaderMap) -> String {
    format!("{NAME}=; Max-Age=0; {}", attributes(headers))
}

/// Returns the attributes (RFC 6265, section 4.1.2). `Secure` is for pages over HTTPS. The path is that of the service
/// below a gateway's prefix, so that other services of the gateway do not receive the key.
fn attributes(headers: &HeaderMap) -> String {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let secure = if text(ORIGIN).is_some_and(|origin| origin.starts_with("https://")) { "; Secure" } else { "" };
    let page = text(REFERER).and_then(|page| Url::parse(page).ok());
    let prefix = page.as_ref().and_then(|page| page.path().rsplit_once("/console")).map_or("", |(prefix, _)| prefix);
    let is_path = prefix.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    let prefix = if is_path { prefix } else { "" };
    format!("Path={prefix}/; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_change_needs_the_origin_of_the_service() {
        let own = |list: &[(HeaderName, &str)]| {
            let mut list = list.to_vec();
            list.extend([(COOKIE, "a=b; toolpost_key=tp_1"), (HOST, "tools.test:8080")]);
            key(&headers(&list), &Method::POST, "https://agents.test/toolpost").ok().flatten().map(str::to_owned)
        };
        let accepted = Some("tp_1".to_owned());
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
            list.push((COOKIE, "toolpost_key=tp_1"));
            key(&headers(&list), &Method::GET, "").unwrap().is_some()
        };
        assert!(read(&[]) && read(&[(SEC_FETCH_SITE, "same-origin")]) && read(&[(SEC_FETCH_SITE, "none")]));
        assert!(!read(&[(SEC_FETCH_SITE, "same-site")]) && !read(&[(SEC_FETCH_SITE, "cross-site")]));
    }

    #[test]
    fn the_cookie_is_limited_to_the_path_of_the_service() {
        let of = |list: &[(HeaderName, &str)]| of_key("tp_1", &headers(list)).unwrap();
        assert_eq!(of(&[]), "toolpost_key=tp_1; Path=/; HttpOnly; SameSite=Strict");
        let page = "https://a.test/toolpost/console/login";
        let cookie = of(&[(ORIGIN, "https://a.test"), (REFERER, page)]);
        assert_eq!(cookie, "toolpost_key=tp_1; Path=/toolpost/; HttpOnly; SameSite=Strict; Secure");
        assert_eq!(of_key("a;b", &HeaderMap::new()), None);
    }
}
