//! `Range` requests for truncated output and for images.

use reqwest::Method;
use serde_json::json;

use super::{answering, lines, saying};
use crate::support::client::send;
use crate::support::{Answer, App, Backend, Response};

async fn ranged(app: &App, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = app.request(Method::GET, path);
    send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

on_both_databases!(
    async fn range_of_the_full_output_is_served(backend: Backend) {
        let app = App::with_egress(backend).await;
        let text = lines(5000);
        let _server = saying(&app, "t", &text, json!({})).await;
        let call = app.call("t", json!({})).await;
        for part in ["output", "content/0"] {
            let path = format!("/tool-calls/{}/{part}", call["id"].as_str().unwrap());
            let whole = app.get(&path).await;
            assert_eq!((whole.status, whole.text()), (200, text.clone()));
            assert_eq!(whole.header("accept-ranges"), "bytes");
            let (length, tag) = (text.len(), whole.header("etag").to_owned());
            for (range, first, last) in
                [("bytes=0-9", 0, 9), ("bytes=40000-", 40_000, length - 1), ("bytes=-7", length - 7, length - 1)]
            {
                let part = ranged(&app, &path, &[("range", range)]).await;
                assert_eq!((part.status, part.text().as_str()), (206, &text[first..=last]), "{range}");
                assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/{length}"));
                assert_eq!(part.header("content-type"), "text/plain; charset=utf-8");
            }
            let outside = ranged(&app, &path, &[("range", "bytes=99999999-")]).await;
            assert_eq!(outside.header("content-range"), format!("bytes */{length}"));
            assert_eq!(outside.problem(416)["code"], "RANGE_NOT_SATISFIABLE");
            for none in ["bytes=0-1,5-6", "lines=1-2", "bytes=5-2"] {
                let answer = ranged(&app, &path, &[("range", none)]).await;
                assert_eq!((answer.status, answer.body.len()), (200, length), "{none}");
            }
            let same = ranged(&app, &path, &[("range", "bytes=0-9"), ("if-range", &tag)]).await;
            let other = ranged(&app, &path, &[("range", "bytes=0-9"), ("if-range", "\"x\"")]).await;
            assert_eq!((same.status, other.status), (206, 200));
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn range_of_an_image_and_of_an_uncut_text_is_served() {
    let app = App::with_egress(Backend::Sqlite).await;
    let image = super::images::png(20, 10);
    let _server = answering(&app, "t", Answer::body("image/png", image.clone()), json!({})).await;
    let call = app.call("t", json!({})).await;
    let path = format!("/tool-calls/{}/content/0", call["id"].as_str().unwrap());
    let part = ranged(&app, &path, &[("range", "bytes=1-3")]).await;
    assert_eq!((part.status, part.body.as_slice(), part.header("content-type")), (206, &image[1..=3], "image/png"));
    let call = app.call("echo", json!({"a": 1})).await;
    let path = format!("/tool-calls/{}/output", call["id"].as_str().unwrap());
    assert_eq!(ranged(&app, &path, &[("range", "bytes=-2")]).await.text(), "1}");
}
