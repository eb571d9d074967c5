//! Images in results, in formats that models accept.

use std::io::Cursor;

use base64::Engine as _;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use super::answering;
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend};

fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = RgbImage::from_fn(width, height, |x, y| Rgb([(x % 256) as u8, (y % 256) as u8, 7]));
    DynamicImage::from(image).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Returns a valid PNG of this size.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    encoded(width, height, ImageFormat::Png)
}

pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Calls a tool that responds with this body.
async fn called(app: &App, media_type: &str, body: &[u8]) -> Value {
    let _server = answering(app, "t", Answer::body(media_type, body), json!({})).await;
    let call = app.call("t", json!({})).await;
    assert!(app.delete("/tools/t").await.status < 300);
    call
}

fn size(block: &Value) -> (u32, u32) {
    let data = base64::engine::general_purpose::STANDARD.decode(block["data"].as_str().unwrap()).unwrap();
    let image = image::load_from_memory(&data).unwrap();
    (image.width(), image.height())
}

on_both_databases!(
    async fn image_has_its_detected_type_and_at_most_2000_pixels_a_side(backend: Backend) {
        let app = App::with_egress(backend).await;
        let jpeg = encoded(40, 30, ImageFormat::Jpeg);
        let call = called(&app, "image/png", &jpeg).await;
        let block = &call["content"][0];
        assert_eq!((&block["mime_type"], &block["data"]), (&json!("image/jpeg"), &json!(base64(&jpeg))));
        let call = called(&app, "image/png", &png(3000, 30)).await;
        assert_eq!((&call["content"][0]["mime_type"], size(&call["content"][0])), (&json!("image/png"), (2000, 20)));
        let id = call["id"].as_str().unwrap();
        let served = app.get(&format!("/tool-calls/{id}/content/0")).await;
        assert_eq!((served.header("content-type"), served.body.is_empty()), ("image/png", false));
        assert_eq!(app.stored(id).await, call);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_image_becomes_an_explaining_text() {
    let app = App::with_egress(Backend::Sqlite).await;
    let whole = png(60, 60);
    let mut bomb = whole.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
    for (media_type, body) in
        [("image/svg+xml", &b"<svg/>"[..]), ("image/png", &whole[..whole.len() - 30]), ("image/png", &bomb)]
    {
        let call = called(&app, media_type, body).await;
        assert_eq!(call["content"].as_array().unwrap().len(), 1);
        assert_eq!(call["content"][0]["type"], "text", "{call}");
        assert!(succeeded(&call).starts_with("[Image left out: "), "{call}");
    }
}
