use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;
use toolpost_core::domain::Failure;

fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn plain(width: u32, height: u32) -> RgbImage {
    RgbImage::from_pixel(width, height, Rgb([10, 200, 30]))
}

fn block(bytes: &[u8]) -> ContentBlock {
    ContentBlock::Image { data: STANDARD.encode(bytes), mime_type: "application/x-wrong".into() }
}

async fn fit(bytes: &[u8]) -> ContentBlock {
    fitted(Outcome::blocks(vec![block(bytes)]).into()).await.content.remove(0)
}

/// Returns format, width, height and bytes.
fn read(block: &ContentBlock) -> (String, u32, u32, Vec<u8>) {
    let ContentBlock::Image { data, mime_type } = block else { panic!("{block:?}") };
    let bytes = STANDARD.decode(data).unwrap();
    let image = image::load_from_memory(&bytes).unwrap();
    (mime_type.clone(), image.width(), image.height(), bytes)
}

fn text_of(block: &ContentBlock) -> &str {
    let ContentBlock::Text(text) = block else { panic!("the image was replaced by a text") };
    text
}

#[tokio::test]
async fn fitting_image_is_unchanged_and_its_type_is_detected() {
    for (format, mime_type) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::WebP, "image/webp"),
        (ImageFormat::Gif, "image/gif"),
    ] {
        let bytes = encoded(plain(30, 20), format);
        assert_eq!(read(&fit(&bytes).await), (mime_type.to_owned(), 30, 20, bytes));
    }
}

#[tokio::test]
async fn large_image_is_scaled_in_proportion() {
    let (mime_type, width, height, _) = read(&fit(&encoded(plain(2500, 100), ImageFormat::Png)).await);
    assert_eq!((mime_type.as_str(), width, height), ("image/png", 2000, 80));
    let (mime_type, width, height, _) = read(&fit(&encoded(plain(1, 4000), ImageFormat::Jpeg)).await);
    assert_eq!((mime_type.as_str(), width, height), ("image/jpeg", 1, 2000));
}

#[tokio::test]
async fn image_with_too_many_bytes_becomes_a_jpeg_of_the_same_size() {
    let mut seed = 1u32;
    let noise = RgbaImage::from_fn(1500, 1300, |_, _| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = seed.to_be_bytes();
        Rgba([a, b, c, 255])
    });
    let bytes = encoded(noise, ImageFormat::Png);
    let before = bytes.len();
    let (mime_type, width, height, bytes) = read(&fit(&bytes).await);
    assert!(before > MAX_BYTES, "the test is vacuous: {before}");
    assert_eq!((mime_type.as_str(), width, height), ("image/jpeg", 1500, 1300));
    assert!(bytes.len() <= MAX_BYTES);
}

#[tokio::test]
async fn decompression_bomb_is_rejected_by_its_header() {
    // The header of a PNG of 50,000 by 50,000 pixels, without any pixels.
    let mut bytes = encoded(plain(1, 1), ImageFormat::Png);
    let side = 50_000u32.to_be_bytes();
    bytes[16..20].copy_from_slice(&side);
    bytes[20..24].copy_from_slice(&side);
    let sum = crc32(&bytes[12..29]).to_be_bytes();
    bytes[29..33].copy_from_slice(&sum);
    assert_eq!(text_of(&fit(&bytes).await), "[Image left out: 50000 × 50000 pixels exceed the limit]");
}

/// Computes the checksum of a PNG chunk.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[tokio::test]
async fn text_replaces_an_unreadable_image() {
    let whole = encoded(plain(64, 64), ImageFormat::Png);
    let half = &whole[..whole.len() / 2];
    assert_eq!(text_of(&fit(half).await), "[Image left out: it is not a readable PNG]");
    assert!(text_of(&fit(b"<svg/>").await).contains("neither PNG, JPEG, WebP nor GIF"));
    let broken = ContentBlock::Image { data: "***".into(), mime_type: "image/png".into() };
    let text = ContentBlock::Text("seen".into());
    let outcome = fitted(Outcome::blocks(vec![text.clone(), broken, block(&whole)]).into()).await;
    assert_eq!(
        (&outcome.content[0], text_of(&outcome.content[1])),
        (&text, "[Image left out: its data is not base64]")
    );
    assert!(matches!(outcome.content[2], ContentBlock::Image { .. }));
    assert_eq!(outcome.output, "seen\n[Image left out: its data is not base64]", "the output equals the joined texts");
}

#[tokio::test]
async fn text_of_a_failure_equals_its_output() {
    let failed = Outcome::failed(Failure::execution("t", "no ink"));
    let content = [failed.content.clone(), vec![block(b"no image")]].concat();
    let outcome = fitted(Outcome { content, ..failed }.into()).await;
    assert_eq!(outcome.error.map(|error| error.text), Some(outcome.output));
}
