//! Image conversion of results: detects formats from the bytes and shrinks images to a size that models accept
//! (docs/reference/contract.md, section 4). A text with the reason replaces an unreadable image.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;

use toolpost_core::domain::outcome::joined_text;
use toolpost_core::domain::{ContentBlock, Outcome};

/// Maximum length of the longer side, in pixels.
const MAX_SIDE: u32 = 2000;
/// Maximum size of an image, in bytes.
const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Maximum number of pixels of all images of a result; images beyond it are not decoded.
const MAX_PIXELS: u64 = 64 << 20;
/// Maximum number of pixels of one image.
const MAX_PIXELS_PER_IMAGE: u64 = 40 << 20;
/// Maximum memory for decoding one image, in bytes, in addition to its pixels.
const MAX_MEMORY: u64 = 512 << 20;
/// JPEG qualities to try, best first.
const QUALITIES: [u8; 2] = [85, 60];

/// Bounds the number of concurrent decodings, which need much memory.
static CONCURRENT_DECODINGS: Semaphore = Semaphore::const_new(2);

/// Returns `true` if the content of the outcome has an image.
#[must_use]
pub fn has_any(outcome: &Outcome) -> bool {
    outcome.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }))
}

/// Converts the images of an outcome to a format and size that models accept.
pub async fn fitted(mut outcome: Box<Outcome>) -> Box<Outcome> {
    if !has_any(&outcome) {
        return outcome;
    }
    // The semaphore is never closed.
    let _permit = CONCURRENT_DECODINGS.acquire().await;
    let content = std::mem::take(&mut outcome.content);
    let fitting = tokio::task::spawn_blocking(move || all(content)).await;
    outcome.content = fitting.unwrap_or_else(|_| vec![ContentBlock::left_out_image("they cannot be read")]);
    let text = joined_text(&outcome.content);
    if text != outcome.output {
        outcome.output = text;
        if let Some(error) = &mut outcome.error {
            error.text.clone_from(&outcome.output);
        }
    }
    outcome
}

fn all(content: Vec<ContentBlock>) -> Vec<ContentBlock> {
    let mut pixels_left = MAX_PIXELS;
    let one = |block| match block {
        ContentBlock::Image { data, .. } => match image(data, &mut pixels_left) {
            Ok(image) => image,
            Err(reason) => ContentBlock::left_out_image(&reason),
        },
        other => other,
    };
    content.into_iter().map(one).collect()
}

/// Converts one image.
///
/// # Errors
/// Returns the reason if the image cannot be read or is too large.
fn image(data: String, pixels_left: &mut u64) -> Result<ContentBlock, String> {
    let bytes = STANDARD.decode(&data).map_err(|_| "its data is not base64".to_owned())?;
    let format = format_of(&bytes)?;
    let block = |data, format: ImageFormat| ContentBlock::Image { data, mime_type: format.to_mime_type().to_owned() };
    // The header alone is read.
    let dimensions = ImageReader::with_format(Cursor::new(&bytes), format).into_dimensions();
    let (width, height) = dimensions.map_err(|error| unreadable(format, &error))?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS_PER_IMAGE {
        return Err(format!("{width} × {height} pixels exceed the limit"));
    }
    *pixels_left = pixels_left
        .checked_sub(pixels)
        .ok_or_else(|| format!("the images of the result exceed {MAX_PIXELS} pixels in total"))?;
    // Unchanged images are decoded, too: a vendor rejects a whole conversation because of one broken image.
    let decoded = decoded(&bytes, format)?;
    if width.max(height) <= MAX_SIDE && bytes.len() <= MAX_BYTES {
        return Ok(block(data, format));
    }
    let (bytes, format) = smaller(&decoded, format)?;
    Ok(block(STANDARD.encode(bytes), format))
}

fn format_of(bytes: &[u8]) -> Result<ImageFormat, String> {
    match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP | ImageFormat::Gif)) => Ok(format),
        _ => Err(format!("its {} bytes are neither PNG, JPEG, WebP nor GIF", bytes.len())),
    }
}

/// Decodes the pixels and applies the orientation that the camera recorded.
fn decoded(bytes: &[u8], format: ImageFormat) -> Result<DynamicImage, String> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let broken = |error: image::ImageError| unreadable(format, &error);
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let orientation = decoder.orientation().map_err(broken)?;
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(broken)?;
    decoded.apply_orientation(orientation);
    Ok(decoded)
}

fn unreadable(format: ImageFormat, error: &image::ImageError) -> String {
    let name = format.extensions_str().first().copied().unwrap_or("image").to_ascii_uppercase();
    tracing::debug!(%error, "cannot read an image of a result");
    format!("it is not a readable {name}")
}

/// Shrinks an image below the limits: scales it, encodes it as JPEG, then halves the side until it fits.
fn smaller(image: &DynamicImage, format: ImageFormat) -> Result<(Vec<u8>, ImageFormat), String> {
    let mut side = MAX_SIDE;
    while side > 0 {
        let scaled = scaled(image, side);
        if format != ImageFormat::Jpeg {
            let bytes = png(&scaled)?;
            if bytes.len() <= MAX_BYTES {
                return Ok((bytes, ImageFormat::Png));
            }
        }
        for quality in QUALITIES {
            let bytes = jpeg(&scaled, quality)?;
            if bytes.len() <= MAX_BYTES {
                return Ok((bytes, ImageFormat::Jpeg));
            }
        }
        side /= 2;
    }
    Err("it cannot be made small enough".to_owned())
}

/// Scales an image so that its longer side is at most `side`. Smaller images are unchanged.
fn scaled(image: &DynamicImage, side: u32) -> DynamicImage {
    let (width, height) = (image.width(), image.height());
    let longest = width.max(height);
    if longest <= side {
        return image.clone();
    }
    let of = |length: u32| {
        let scaled = u64::from(length) * u64::from(side) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(side).max(1)
    };
    image.thumbnail_exact(of(width), of(height))
}

fn png(image: &DynamicImage) -> Result<Vec<u8>, String> {
    let mut bytes = Cursor::new(Vec::new());
    // Models gain nothing from 16 bits per channel.
    let image = if image.color().has_alpha() {
        DynamicImage::ImageRgba8(image.to_rgba8())
    } else {
        DynamicImage::ImageRgb8(image.to_rgb8())
    };
    image.write_to(&mut bytes, ImageFormat::Png).map_err(|error| unreadable(ImageFormat::Png, &error))?;
    Ok(bytes.into_inner())
}

/// Encodes an image as JPEG, with transparent areas in white.
fn jpeg(image: &DynamicImage, quality: u8) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let flat = if image.color().has_alpha() {
        let mut white = image::RgbaImage::from_pixel(image.width(), image.height(), image::Rgba([255; 4]));
        image::imageops::overlay(&mut white, &image.to_rgba8(), 0, 0);
        DynamicImage::ImageRgba8(white).to_rgb8()
    } else {
        image.to_rgb8()
    };
    let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
    flat.write_with_encoder(encoder).map_err(|error| unreadable(ImageFormat::Jpeg, &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
