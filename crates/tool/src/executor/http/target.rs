//! The URL of an HTTP tool: a fixed origin, with placeholders in path and query that cannot change the path's
//! structure.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::styles::Styles;
use super::template::{Arguments, Part, Template};

/// Characters to encode in cookie values (RFC 6265, section 4.1.1), including `%`, so that decoding is unambiguous.
const COOKIE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\').add(b'%');

/// All characters except the unreserved ones (RFC 3986, section 2.3).
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters that definitions may contain but URLs may not.
const LITERAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'|').add(b'^');

/// Maximum length of a URL, in bytes; the HTTP library accepts at most 65,534.
const MAX_URL_BYTES: usize = 65_000;

/// Maximum length of a URL that a caller provides, in characters.
const MAX_URL_CHARS: usize = 2048;

/// A URL with placeholders in its path and query.
#[derive(Debug, Clone)]
pub struct UrlTemplate {
    /// The origin, as in `https://example.com:8443`.
    origin: String,
    /// The parts between slashes; the first one is always empty.
    segments: Vec<Template>,
    /// The query parameters between ampersands.
    pairs: Vec<Template>,
    /// The declared URL, without the query. It is safe to show, because it contains no argument values.
    pub declared: String,
}

impl UrlTemplate {
    /// Parses a URL.
    ///
    /// # Errors
    /// Returns a message if the scheme is invalid, the authority has a user or a placeholder, or the URL has a fragment
    /// or a stray `%`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, authority, rest) = split_url(text)?;
        if authority.contains(['{', '}']) {
            return Err("the host and the port cannot contain placeholders".to_owned());
        }
        if authority.contains('@') {
            return Err("a URL must not contain a user or password; use `auth`".to_owned());
        }
        let url = Url::parse(&format!("{scheme}://{authority}")).map_err(|error| format!("not a URL: {error}"))?;

        let template = Template::parse(rest)?;
        check_literals(&template)?;
        let mut halves = split(&template, '?', 2).into_iter();
        let (path, query) = (halves.next().unwrap_or_default(), halves.next());
        let pairs = query.map(|query| split(&query, '&', usize::MAX)).unwrap_or_default();
        Ok(Self {
            origin: url.origin().ascii_serialization(),
            segments: split(&path, '/', usize::MAX).into_iter().map(encode_literals).collect(),
            pairs: pairs.into_iter().filter(|pair| !pair.0.is_empty()).map(encode_literals).collect(),
            declared: text.split('?').next().unwrap_or_default().to_owned(),
        })
    }

    /// Returns the names of the placeholders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().chain(&self.pairs).flat_map(Template::names)
    }

    /// Renders the URL with the arguments in their declared styles, followed by the pairs of `added`. Query parameters
    /// whose argument is absent are omitted.
    ///
    /// # Errors
    /// Returns a message that names the argument if the path needs an absent argument, or if the argument would change
    /// the path's structure (`.`, `..` or empty).
    pub fn render(&self, arguments: &Arguments, styles: &Styles, added: &[(String, String)]) -> Result<Url, String> {
        let write = |name: &str, value: &_| styles.text(name, value, encode_component);
        let mut text = self.origin.clone();
        for (at, segment) in self.segments.iter().enumerate() {
            if at > 0 {
                text.push('/');
            }
            text.push_str(&render_segment(segment, arguments, write)?);
        }
        let own = self.pairs.iter().filter_map(|pair| pair.render_with(arguments, write).ok());
        let added = added.iter().map(|(name, value)| format!("{name}={value}"));
        for (at, pair) in own.chain(added).enumerate() {
            text.push(if at == 0 { '?' } else { '&' });
            text.push_str(&pair);
        }
        if text.len() > MAX_URL_BYTES {
            return Err(format!("the URL has {} bytes with these arguments; the limit is {MAX_URL_BYTES}", text.len()));
        }
        let url = Url::parse(&text).map_err(|error| format!("the URL is invalid with these arguments: {error}"))?;
        // Defense in depth: arguments must never select the server.
        if url.origin().ascii_serialization() != self.origin {
            return Err("the arguments would change the URL's host".to_owned());
        }
        Ok(url)
    }
}

/// Checks the syntax of a URL that a caller provides. The egress guard checks its target at each use.
///
/// # Errors
/// Returns a message with the reason if the URL is invalid.
pub fn check_url(text: &str) -> Result<(), String> {
    if text.chars().count() > MAX_URL_CHARS {
        return Err(format!("must have at most {MAX_URL_CHARS} characters"));
    }
    let (_, authority, _) = split_url(text)?;
    if authority.contains('@') {
        return Err("a URL must not contain a user or password".to_owned());
    }
    // The parser would treat the first segment of `http:///path` as the host.
    if authority.is_empty() {
        return Err("a URL needs a host".to_owned());
    }
    Url::parse(text).map(|_| ()).map_err(|error| format!("not a URL: {error}"))
}

/// Splits an HTTP URL into its scheme, its authority, and the rest.
fn split_url(text: &str) -> Result<(&str, &str, &str), String> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("a URL must not contain blanks, control characters or backslashes".to_owned());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !["http", "https"].iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)) {
        return Err("must begin with http:// or https://".to_owned());
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    Ok((scheme, authority, rest))
}

/// Percent-encodes the text of a path segment or query parameter (RFC 3986, section 2.1).
#[must_use]
pub fn encode_component(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Percent-encodes characters that a cookie value cannot contain.
#[must_use]
pub fn encode_cookie(text: &str) -> String {
    utf8_percent_encode(text, COOKIE).to_string()
}

/// Renders a segment. A segment with an argument must not be empty or a dot segment (also as `%2e`): a URL parser would
/// resolve it, and the argument could select another path.
fn render_segment(
    segment: &Template,
    arguments: &Arguments,
    write: impl Fn(&str, &Value) -> String,
) -> Result<String, String> {
    let text = segment
        .render_with(arguments, write)
        .map_err(|name| format!("the URL needs the argument \"{name}\", which is missing"))?;
    let Some(name) = segment.names().next() else { return Ok(text) };
    let decoded = percent_decode_str(&text).collect::<Vec<u8>>();
    match decoded.as_slice() {
        b"" => Err(format!("the argument \"{name}\" is part of the URL's path and cannot be empty")),
        b"." | b".." => Err(format!("the argument \"{name}\" is part of the URL's path and cannot be \".\" or \"..\"")),
        _ => Ok(text),
    }
}

fn check_literals(template: &Template) -> Result<(), String> {
    for part in &template.0 {
        let Part::Literal(literal) = part else { continue };
        if literal.contains('#') {
            return Err("a fragment (#…) is never sent; write a literal # as %23".to_owned());
        }
        let is_hex = |at: usize| literal.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
        if literal.match_indices('%').any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2)) {
            return Err("a `%` must be followed by two hexadecimal digits; write a literal % as %25".to_owned());
        }
    }
    Ok(())
}

fn encode_literals(template: Template) -> Template {
    let encoded = template.0.into_iter().map(|part| match part {
        Part::Literal(literal) => Part::Literal(utf8_percent_encode(&literal, LITERAL).to_string()),
        placeholder => placeholder,
    });
    Template(encoded.collect())
}

/// Splits a template at a character of its literals into at most `limit` parts.
fn split(template: &Template, at: char, limit: usize) -> Vec<Template> {
    let (mut parts, mut last) = (Vec::new(), Template::default());
    for part in &template.0 {
        let Part::Literal(literal) = part else {
            last.0.push(part.clone());
            continue;
        };
        let mut rest = literal.as_str();
        while parts.len() + 1 < limit
            && let Some((before, after)) = rest.split_once(at)
        {
            if !before.is_empty() {
                last.0.push(Part::Literal(before.to_owned()));
            }
            parts.push(std::mem::take(&mut last));
            rest = after;
        }
        if !rest.is_empty() {
            last.0.push(Part::Literal(rest.to_owned()));
        }
    }
    parts.push(last);
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &str, arguments: Value) -> Result<String, String> {
        UrlTemplate::parse(template)?.render(arguments.as_object().unwrap(), &Styles::default(), &[]).map(String::from)
    }

    #[test]
    fn arguments_are_encoded_for_their_position() {
        let arguments = json!({"a": "x/y?z#%&=+ é\u{0}", "n": 5, "d": "...", "e": ""});
        let encoded = "x%2Fy%3Fz%23%25%26%3D%2B%20%C3%A9%00";
        for (template, url) in [
            ("https://h.example", "https://h.example/".to_owned()),
            ("HTTPS://H.Example:443/p", "https://h.example/p".to_owned()),
            ("https://h/{a}/{n}", format!("https://h/{encoded}/5")),
            ("https://h/v{n}.{d}/{{x}}", "https://h/v5..../%7Bx%7D".to_owned()),
            ("https://h?q={a}&n={n}&&k=v%20w|", format!("https://h/?q={encoded}&n=5&k=v%20w%7C")),
            ("https://h/p?a={missing}&e={e}&b=1", "https://h/p?e=&b=1".to_owned()),
            ("https://h/p?{a}={n}?", format!("https://h/p?{encoded}=5?")),
        ] {
            assert_eq!(rendered(template, arguments.clone()), Ok(url), "{template}");
        }
    }

    #[test]
    fn added_parameters_follow_those_of_the_url() {
        let url = UrlTemplate::parse("http://h/p?a=1").unwrap();
        let added = [("b%20c".to_owned(), "%26".to_owned())];
        let rendered = url.render(&Arguments::new(), &Styles::default(), &added).unwrap();
        assert_eq!(rendered.as_str(), "http://h/p?a=1&b%20c=%26");
    }

    #[test]
    fn arguments_cannot_leave_their_segment() {
        for value in [".", "..", ""] {
            for template in ["http://h/a/{x}/b", "http://h/{x}"] {
                assert!(rendered(template, json!({"x": value})).unwrap_err().contains("\"x\""), "{value}");
            }
        }
        assert!(rendered("http://h/.{x}", json!({"x": "."})).is_err());
        assert!(rendered("http://h/%2e{x}", json!({"x": "."})).is_err());
        assert_eq!(rendered("http://h/a/{x}", json!({"x": "%2e%2e"})).unwrap(), "http://h/a/%252e%252e");
        assert_eq!(rendered("http://h/a/{x}", json!({"x": "../.."})).unwrap(), "http://h/a/..%2F..");
        assert!(rendered("http://h/{x}", json!({})).unwrap_err().contains("\"x\", which is missing"));
        assert!(rendered("http://h/{x}", json!({"x": "a".repeat(70_000)})).unwrap_err().contains("65000"));
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for broken in [
            "",
            "h.example/x",
            "ftp://h/x",
            "file:///etc/passwd",
            "http:h",
            "http:///x",
            "http://",
            "http://u:p@h/",
            "http://h\\@e/",
            "http://{h}/",
            "http://h{x}/",
            "http://h:{p}/",
            "{x}://h/",
            "{x}",
            "http://h/#f",
            "http://h/#{x}",
            "http://h/%{x}",
            "http://h/100%",
            "http://h/ x",
            "http://h/{",
            "http://h:99999/",
            "http://[::1/",
            "http://h\n/",
        ] {
            assert!(UrlTemplate::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn declared_url_has_no_query() {
        assert_eq!(UrlTemplate::parse("http://h/{x}?key={y}").unwrap().declared, "http://h/{x}");
    }

    #[test]
    fn urls_are_checked() {
        let longest = format!("http://h/{}", "é".repeat(MAX_URL_CHARS - 9));
        for good in ["http://h", "HTTPS://Hooks.example.com:8443/a/b?c=d&e=%20#f", "http://[::1]:80/", &longest] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", "begin with http://"),
            ("h.example/x", "begin with http://"),
            ("ftp://h/", "begin with http://"),
            ("http:h", "begin with http://"),
            ("http://", "host"),
            ("http:///x", "host"),
            ("http://?x", "host"),
            ("http://u:p@h/", "user"),
            ("http://@h/", "user"),
            ("http://h\\@e/", "backslashes"),
            ("http://h/a b", "blanks"),
            ("http://h/\u{0}", "control"),
            ("http://h:99999/", "not a URL"),
            ("http://[::1/", "not a URL"),
            ("http://:80/", "not a URL"),
            (&format!("{longest}x"), "at most 2048"),
        ] {
            let fault = check_url(bad).unwrap_err();
            assert!(fault.contains(why), "{bad}: {fault}");
        }
    }
}
