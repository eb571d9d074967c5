//! Images of results: what they are is told from their bytes, and they are made small enough for a model
//! (docs/reference/contract.md, section 4). What cannot be read becomes a text that says so.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;

use crate::domain::outcome::joined_text;
use crate::domain::{ContentBlock, Outcome};

/// Longest side, in pixels.
const LONGEST_SIDE: u32 = 2000;
/// Largest image, in bytes.
const LARGEST: usize = 5 * 1024 * 1024;
/// Most pixels of all images of a result together: what is more is not decoded.
const MOST_PIXELS: u64 = 64 << 20;
/// Most pixels of one image.
const MOST_PIXELS_OF_ONE: u64 = 40 << 20;
/// Most memory that decoding one may take, beside its pixels.
const MOST_MEMORY: u64 = 512 << 20;
/// How good a JPEG is made; the second is for what is too large even so.
const QUALITIES: [u8; 2] = [85, 60];

/// Decoding takes memory: few at once, whatever tools answer.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Whether there is one among what the model is shown.
#[must_use]
pub fn has_any(outcome: &Outcome) -> bool {
    outcome.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }))
}

/// The outcome with its images as a model can take them.
pub async fn fitted(mut outcome: Box<Outcome>) -> Box<Outcome> {
    if !has_any(&outcome) {
        return outcome;
    }
    // It is never closed.
    let _permit = AT_ONCE.acquire().await;
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
    let mut pixels_left = MOST_PIXELS;
    let one = |block| match block {
        ContentBlock::Image { data, .. } => match image(data, &mut pixels_left) {
            Ok(image) => image,
            Err(reason) => ContentBlock::left_out_image(&reason),
        },
        other => other,
    };
    content.into_iter().map(one).collect()
}

/// The image as a model can take it, or why there is none.
fn image(data: String, pixels_left: &mut u64) -> Result<ContentBlock, String> {
    let bytes = STANDARD.decode(&data).map_err(|_| "its data is not base64".to_owned())?;
    let format = format_of(&bytes)?;
    let block = |data, format: ImageFormat| ContentBlock::Image { data, mime_type: format.to_mime_type().to_owned() };
    let (width, height) = dimensions(&bytes, format)?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MOST_PIXELS_OF_ONE {
        return Err(format!("{width} × {height} pixels are too many"));
    }
    *pixels_left = pixels_left
        .checked_sub(pixels)
        .ok_or_else(|| format!("the images of the result have more than {MOST_PIXELS} pixels in all"))?;
    // Also where it stays as it is: a model's vendor refuses a whole conversation for one broken image.
    let decoded = decoded(&bytes, format)?;
    if width.max(height) <= LONGEST_SIDE && bytes.len() <= LARGEST {
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

/// Width and height, from the header alone.
fn dimensions(bytes: &[u8], format: ImageFormat) -> Result<(u32, u32), String> {
    ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().map_err(|error| unreadable(format, &error))
}

/// The pixels, as people see them: a camera notes how it was held.
fn decoded(bytes: &[u8], format: ImageFormat) -> Result<DynamicImage, String> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
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
    tracing::debug!(%error, "an image of a result cannot be read");
    format!("it is no {name} that can be read")
}

/// The image within the bounds: first scaled, then as a JPEG, then smaller still.
fn smaller(image: &DynamicImage, format: ImageFormat) -> Result<(Vec<u8>, ImageFormat), String> {
    let mut side = LONGEST_SIDE;
    while side > 0 {
        let scaled = scaled(image, side);
        if format != ImageFormat::Jpeg {
            let bytes = png(&scaled)?;
            if bytes.len() <= LARGEST {
                return Ok((bytes, ImageFormat::Png));
            }
        }
        for quality in QUALITIES {
            let bytes = jpeg(&scaled, quality)?;
            if bytes.len() <= LARGEST {
                return Ok((bytes, ImageFormat::Jpeg));
            }
        }
        side /= 2;
    }
    Err("it cannot be made small enough".to_owned())
}

/// With its longest side within `side`; never larger than it is.
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
    // Sixteen bits a channel are for no model.
    let image = if image.color().has_alpha() {
        DynamicImage::ImageRgba8(image.to_rgba8())
    } else {
        DynamicImage::ImageRgb8(image.to_rgb8())
    };
    image.write_to(&mut bytes, ImageFormat::Png).map_err(|error| unreadable(ImageFormat::Png, &error))?;
    Ok(bytes.into_inner())
}

/// On white, where it lets something through.
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
