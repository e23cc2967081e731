//! Pictures: PNG in (as temperatures) and out (as colours).
//!
//! In: gray, RGB or palette, 1 to 16 bits, with or without transparency. A pixel's brightness is
//! its luma (Rec. 709 weights, on the encoded values: what the picture looks like is what is
//! wanted, not its light energy) times its opacity: transparent is cold. Out: 8-bit palette with
//! the map of [`crate::colour`], a third of the size of RGB and without loss.

use std::io::Cursor;

use png::{BitDepth, ColorType, Transformations};
use thiserror::Error;

use crate::colour;
use crate::field::{Extent, Field, MAX_CELLS};

/// How every PNG file begins.
pub const MAGIC: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// Why a picture is not taken.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file ends too early.
    #[error("the PNG is truncated: its data end before the picture does")]
    Truncated,
    /// The decoder found something else wrong.
    #[error("the PNG is damaged: {0}")]
    Damaged(String),
    /// More pixels than a field may have cells.
    #[error("its size is {0} x {1} pixels: at most {MAX_CELLS} in all can be used")]
    Size(u32, u32),
}

/// Reads the bytes of a PNG file; black becomes `low`, white `high`.
///
/// # Errors
/// The file is damaged, truncated or too large.
pub fn decode(file: &[u8], [low, high]: [f64; 2]) -> Result<Field, ImageError> {
    let limits = png::Limits { bytes: MAX_CELLS * 8 };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    // Palettes, transparency keys and depths below 8 bits become plain 8-bit pixels.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(reason)?;
    let (width, height) = reader.info().size();
    let pixels = width as usize * height as usize;
    if pixels > MAX_CELLS {
        return Err(ImageError::Size(width, height));
    }
    let size = reader.output_buffer_size().ok_or(ImageError::Size(width, height))?;
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes).map_err(reason)?;
    // What follows the pixels must be whole as well: a file cut there is a file cut.
    reader.finish().map_err(reason)?;
    let samples = frame.color_type.samples();
    let brightness: Vec<f64> = match frame.bit_depth {
        BitDepth::Sixteen => bytes
            .chunks_exact(samples * 2)
            .map(|pixel| {
                let (parts, _) = pixel.as_chunks::<2>();
                let part = |i: usize| f64::from(u16::from_be_bytes(parts[i])) / 65535.0;
                brightness(frame.color_type, part)
            })
            .collect(),
        _ => bytes
            .chunks_exact(samples)
            .map(|pixel| brightness(frame.color_type, |i| f64::from(pixel[i]) / 255.0))
            .collect(),
    };
    let cells = brightness.iter().map(|bright| low + bright * (high - low)).collect();
    Field::from_cells((width as usize, height as usize), cells)
        .ok_or_else(|| ImageError::Damaged("it has another number of pixels than it says".into()))
}

/// The bytes of a PNG picture of a plane, `low` in the coldest colour and `high` in the hottest.
///
/// # Errors
/// The encoder refuses: the plane has no cells or a side beyond 2³¹.
pub fn encode(field: &Field, (low, high): (f64, f64)) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    // A field has at most MAX_CELLS cells, so that its sides fit.
    let Extent { width, height, .. } = field.extent();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(colour::palette().concat());
    let mut writer = encoder.write_header()?;
    let cells = &field.cells()[..width * height];
    let pixels: Vec<u8> = cells.iter().map(|&cell| colour::index(cell, low, high)).collect();
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(file)
}

/// A pixel's brightness in 0..=1 from its parts in 0..=1.
fn brightness(kind: ColorType, part: impl Fn(usize) -> f64) -> f64 {
    let luma = || 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
    match kind {
        ColorType::Grayscale => part(0),
        ColorType::GrayscaleAlpha => part(0) * part(1),
        ColorType::Rgba => luma() * part(3),
        // Indexed pixels were expanded.
        ColorType::Rgb | ColorType::Indexed => luma(),
    }
}

/// The decoder's complaint as one clear line.
fn reason(error: png::DecodingError) -> ImageError {
    match error {
        png::DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated
        }
        other => ImageError::Damaged(other.to_string().replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A PNG of one row.
    fn picture(kind: ColorType, depth: BitDepth, width: u32, data: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, 1);
        encoder.set_color(kind);
        encoder.set_depth(depth);
        if kind == ColorType::Indexed {
            encoder.set_palette([0, 0, 0, 255, 255, 255, 0, 255, 0].as_slice());
            encoder.set_trns([255, 255, 0].as_slice());
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn every_kind_of_png_is_read() {
        use {BitDepth::*, ColorType::*};
        let half = [0x80, 0x00];
        let cases: &[(ColorType, BitDepth, &[u8], &[f64])] = &[
            (Grayscale, One, &[0b0100_0000], &[0.0, 1.0]),
            (Grayscale, Four, &[0x0f], &[0.0, 1.0]),
            (Grayscale, Eight, &[0, 51], &[0.0, 0.2]),
            (Grayscale, Sixteen, &[half, [255, 255]].concat(), &[32768.0 / 65535.0, 1.0]),
            (GrayscaleAlpha, Eight, &[255, 51, 255, 255], &[0.2, 1.0]),
            (Rgb, Eight, &[255, 0, 0, 0, 255, 0], &[0.2126, 0.7152]),
            (Rgb, Sixteen, &[255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255], &[0.2126, 0.0722]),
            (Rgba, Eight, &[0, 255, 0, 0, 0, 255, 0, 255], &[0.0, 0.7152]),
            (Indexed, Eight, &[1, 2], &[1.0, 0.0]),
            (Indexed, Two, &[0b0100_0000], &[1.0, 0.0]),
        ];
        for (kind, depth, data, expected) in cases {
            let field = decode(&picture(*kind, *depth, 2, data), [10.0, 20.0]).unwrap();
            for (cell, bright) in field.cells().iter().zip(*expected) {
                assert!((cell - (10.0 + 10.0 * bright)).abs() < 1e-9, "{kind:?} {depth:?}: {cell}");
            }
        }
    }

    #[test]
    fn a_truncated_picture_is_told_as_such() {
        let noise: Vec<u8> = (0..4096_u32).map(|i| ((i * i * 31) >> 5) as u8).collect();
        let file = picture(ColorType::Grayscale, BitDepth::Eight, 4096, &noise);
        for length in [12, 40, file.len() / 2, file.len() - 20, file.len() - 5] {
            let error = decode(&file[..length], [0.0, 1.0]).unwrap_err();
            assert!(matches!(error, ImageError::Truncated), "{length}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn damage_and_size_are_told_in_one_line() {
        let mut file = picture(ColorType::Grayscale, BitDepth::Eight, 64, &[7; 64]);
        let error = decode(b"not a picture at all", [0.0, 1.0]).unwrap_err();
        assert!(matches!(error, ImageError::Damaged(_)), "{error}");
        file[20] ^= 1; // the size: the checksum no longer fits
        let error = decode(&file, [0.0, 1.0]).unwrap_err().to_string();
        assert!(error.starts_with("the PNG is damaged") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_field_becomes_a_picture_of_its_colours() {
        let field = Field::from_cells((3, 1), vec![0.0, 50.0, 100.0]).unwrap();
        let file = encode(&field, (0.0, 100.0)).unwrap();
        assert!(file.starts_with(MAGIC));
        let mut decoder = png::Decoder::new(Cursor::new(&file));
        decoder.set_transformations(Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = [0; 9];
        reader.next_frame(&mut pixels).unwrap();
        let map = colour::palette();
        assert_eq!(pixels[..], [map[0], map[128], map[255]].concat());
    }
}
