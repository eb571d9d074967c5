use super::*;

fn page(media_type: &str, body: &[u8]) -> Page {
    let url = Url::parse("http://h/p?q=1").unwrap();
    Page { url, status: 200, media_type: media_type.into(), charset: None, bytes: body.into() }
}

#[test]
fn page_is_returned_in_requested_format() {
    let html = b"<title>T</title><h1>Hi</h1><p>there";
    let of = |format| outcome(page("text/html", html), format).unwrap();
    assert_eq!(of(Format::Markdown).output, "# Hi\n\nthere");
    assert_eq!(of(Format::Text).output, "Hi\n\nthere");
    assert_eq!(of(Format::Html).output, String::from_utf8_lossy(html));
    let details = of(Format::Text).details;
    assert_eq!(
        (&details["url"], &details["title"], &details["bytes"]),
        (&json!("http://h/p?q=1"), &json!("T"), &json!(35))
    );
}

#[test]
fn other_content_is_returned_unchanged_or_rejected() {
    assert_eq!(outcome(page("application/json", b"{\"a\": 1}"), Format::Markdown).unwrap().output, "{\"a\": 1}");
    let image = outcome(page("image/png", &[1, 2]), Format::Markdown).unwrap();
    assert_eq!(image.content, [ContentBlock::Image { data: "AQI=".into(), mime_type: "image/png".into() }]);
    let refused = outcome(page("application/pdf", b"%PDF"), Format::Text).unwrap_err();
    let message = "http://h/p?q=1 is application/pdf (4 bytes); only web pages, text, JSON and images can be read";
    assert_eq!(refused.message(), message);
    let wild = outcome(page("text/html", &b"<div>".repeat(10_000)), Format::Text).unwrap_err();
    assert!(wild.message().contains("\"format\": \"html\""), "{}", wild.message());
    assert!(outcome(page("text/html", &b"<div>".repeat(10_000)), Format::Html).is_ok());
}

#[test]
fn only_absolute_http_urls_are_accepted() {
    assert_eq!(address(" https://Example.com/a#b ").unwrap().as_str(), "https://example.com/a");
    for (text, message) in [
        ("example.com", "is not a valid URL"),
        ("file:///etc/passwd", "is file: only http: and https:"),
        ("http://user:pw@h/", "must not contain a user name or a password"),
        ("javascript:alert(1)", "only http: and https:"),
    ] {
        let error = address(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}
