//! `web_fetch` with servers of the test.

use super::*;
use crate::support::shapes::{failed, succeeded, violation};
use crate::support::{Answer, HttpTool};

const PAGE: &str = "<!doctype html><html><head><title>Caf\u{e9} &amp; more</title></head><body><h1>Menu</h1>\
    <script>steal()</script><p>A <b>strong</b> <a href=\"/cup\">cup</a></p></body></html>";

async fn fetch(app: &App, url: &str, format: &str) -> Value {
    app.call("web_fetch", json!({"url": url, "format": format})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn page_has_the_requested_format() {
    let server = HttpTool::answering(Answer::body("text/html; charset=utf-8", PAGE)).await;
    let app = App::with_egress(Backend::Sqlite).await;
    let url = server.url("/menu#top");
    let markdown = fetch(&app, &url, "markdown").await;
    assert_eq!(succeeded(&markdown), "# Menu\n\nA **strong** [cup](/cup)");
    assert_eq!(markdown["details"]["title"], "Café & more");
    assert_eq!(markdown["details"]["url"], server.url("/menu"));
    assert_eq!(succeeded(&app.call("web_fetch", json!({"url": url})).await), succeeded(&markdown));
    assert_eq!(succeeded(&fetch(&app, &url, "text").await), "Menu\n\nA strong cup");
    assert_eq!(succeeded(&fetch(&app, &url, "html").await), PAGE);
    for request in server.requests() {
        assert_eq!(request.method, "GET");
        assert!(request.header("webhook-signature").is_empty() && request.header("authorization").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn charsets_json_and_images_are_understood() {
    let mut png = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(2, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
    let png = png.into_inner();
    let server = HttpTool::start("127.0.0.1", move |request| match request.target.as_str() {
        "/latin" => Answer::body("text/html; charset=ISO-8859-1", b"<p>caf\xe9".to_vec()),
        "/json" => Answer::body("application/json", "{\"a\":  1}"),
        "/png" => Answer::body("image/png", png.clone()),
        _ => Answer::body("application/zip", "PK"),
    })
    .await;
    let app = App::with_egress(Backend::Sqlite).await;
    assert_eq!(succeeded(&fetch(&app, &server.url("/latin"), "text").await), "café");
    let json = fetch(&app, &server.url("/json"), "markdown").await;
    assert_eq!((succeeded(&json), &json["details"]["content_type"]), ("{\"a\":  1}", &json!("application/json")));
    let image = fetch(&app, &server.url("/png"), "markdown").await;
    assert_eq!(
        (&image["content"][0]["type"], &image["content"][0]["mime_type"]),
        (&json!("image"), &json!("image/png"))
    );
    let zip = fetch(&app, &server.url("/zip"), "markdown").await;
    assert!(failed(&zip, "TOOL_EXECUTION_ERROR").contains("is application/zip (2 bytes); only web pages"), "{zip:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_checks_every_address() {
    let server = HttpTool::start("127.0.0.1", |request| match request.target.as_str() {
        "/away" => Answer::redirect(302, "http://169.254.169.254/latest/meta-data"),
        "/on" => Answer::redirect(302, "/end"),
        _ => Answer::text("here"),
    })
    .await;
    let closed = App::start_with(
        Backend::Sqlite,
        Options {
            configure: Some(|config| config.egress.web_fetch = toolpost::config::WebFetchMode::On),
            ..Options::default()
        },
    )
    .await;
    let refused = fetch(&closed, &server.url("/"), "text").await;
    assert!(failed(&refused, "TOOL_EXECUTION_ERROR").contains("is not allowed (loopback address"), "{refused:#}");
    assert!(server.requests().is_empty());
    let app = App::with_egress(Backend::Sqlite).await;
    let away = fetch(&app, &server.url("/away"), "text").await;
    assert!(
        failed(&away, "TOOL_EXECUTION_ERROR").contains("a redirect was not followed: address 169.254.169.254"),
        "{away:#}"
    );
    let on = fetch(&app, &server.url("/on"), "text").await;
    assert_eq!((succeeded(&on), &on["details"]["url"]), ("here", &json!(server.url("/end"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_page_is_rejected() {
    let large = "x".repeat(5 * 1024 * 1024 + 1);
    let server = HttpTool::start("127.0.0.1", move |request| match request.target.as_str() {
        "/gone" => Answer::status(404, "text/html", "<p>gone"),
        "/large" => Answer::body("text/plain", large.clone()),
        _ => Answer::body("text/html", "<div>".repeat(100_000)),
    })
    .await;
    let app = App::with_egress(Backend::Sqlite).await;
    for (path, expected) in [
        ("/gone", "answered HTTP 404 Not Found for /gone"),
        ("/large", "is larger than 5242880 bytes"),
        ("/deep", "too deeply nested to be converted; fetch it unchanged with \"format\": \"html\""),
    ] {
        let call = fetch(&app, &server.url(path), "markdown").await;
        assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains(expected), "{call:#}");
    }
    for url in ["example.com", "file:///etc/passwd", "http://user:secret@127.0.0.1/"] {
        assert_eq!(violation(&fetch(&app, url, "text").await)["pointer"], "/url", "{url}");
    }
    assert_eq!(violation(&fetch(&app, "http://127.0.0.1/", "pdf").await)["pointer"], "/format");
}
