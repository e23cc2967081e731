//! Fields as files: PNG pictures in and out, NPY arrays out. NPY's format:
//! <https://numpy.org/neps/nep-0001-npy-format.html>.

use std::io::Cursor;

use png::{BitDepth, ColorType, Transformations};

use crate::field::{Field, MAX_CELLS};

/// Reads a PNG picture of any format, as 8 bits. Black becomes `low`, white `high`; of colours the
/// mean counts, and transparency is ignored.
///
/// # Errors
/// The file is damaged, truncated or too large.
pub fn decode_png(file: &[u8], [low, high]: [f64; 2]) -> Result<Field, String> {
    let damaged = |error: png::DecodingError| format!("the PNG cannot be read: {error}");
    let mut decoder = png::Decoder::new(Cursor::new(file));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = [reader.info().width, reader.info().height].map(|length| length as usize);
    let length = reader.output_buffer_size().filter(|length| *length <= MAX_CELLS);
    let mut bytes = vec![0; length.ok_or("the PNG has too many pixels")?];
    let frame = reader.next_frame(&mut bytes).map_err(damaged)?;
    // A file that ends after the last pixel is truncated too.
    reader.finish().map_err(damaged)?;
    let samples = frame.color_type.samples();
    let colours = if samples < 3 { 1 } else { 3 }; // a further sample is opacity
    let cell = |pixel: &[u8]| {
        let sum: u32 = pixel[..colours].iter().map(|sample| u32::from(*sample)).sum();
        low + f64::from(sum) / (255 * colours) as f64 * (high - low)
    };
    Ok(Field { size, cells: bytes.chunks_exact(samples).map(cell).collect() })
}

/// A PNG picture of a field, a pixel a cell. `low` has the coldest colour, `high` the hottest.
pub fn encode_png(field: &Field, [low, high]: [f64; 2]) -> Vec<u8> {
    let pixel = |temperature: &f64| ((temperature - low) / (high - low) * 256.0) as u8;
    let pixels: Vec<u8> = field.cells.iter().map(pixel).collect();
    let mut file = Vec::new();
    let [width, height] = field.size.map(|length| length as u32); // MAX_CELLS bounds both
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    // Evenly lighter: otherwise the eye sees edges that are not in the data.
    let colour = |index| colorous::INFERNO.eval_rational(index, 256).into_array();
    encoder.set_palette((0..256).flat_map(colour).collect::<Vec<u8>>());
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    written.expect("memory takes a picture of at least one cell");
    file
}

/// A field as an NPY file of two dimensions.
pub fn encode_npy(field: &Field) -> Vec<u8> {
    let [width, height] = field.size;
    let shape = format!("({height}, {width})");
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    // Magic number, version, length of the header (0x76), and the header: 128 bytes.
    let start = format!("NUMPY\x01\x00\x76\x00{header:<117}\n");
    let cells = field.cells.iter().flat_map(|cell| cell.to_le_bytes());
    [0x93].into_iter().chain(start.into_bytes()).chain(cells).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::field::Size;

    fn steep(size: Size) -> Field {
        Field::from_fn(size, |[x, y]| (x * 7 + y * 11) as f64 / 3.0)
    }

    /// A picture of these pixels, in any format.
    fn picture(color: ColorType, depth: BitDepth, data: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == ColorType::Indexed {
            encoder.set_palette(vec![0, 0, 0, 255, 255, 255]);
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        file
    }

    #[test]
    fn every_form_of_picture_is_read() {
        for (color, depth, data) in [
            (ColorType::Grayscale, BitDepth::One, &[0b0100_0000][..]),
            (ColorType::Grayscale, BitDepth::Eight, &[0, 255]),
            (ColorType::Grayscale, BitDepth::Sixteen, &[0, 0, 255, 255]),
            (ColorType::GrayscaleAlpha, BitDepth::Eight, &[0, 255, 255, 0]),
            (ColorType::Rgb, BitDepth::Eight, &[0, 0, 0, 255, 255, 255]),
            (ColorType::Rgba, BitDepth::Eight, &[0, 0, 0, 255, 255, 255, 255, 0]),
            (ColorType::Indexed, BitDepth::Eight, &[0, 1]),
        ] {
            let field = decode_png(&picture(color, depth, data), [10.0, 20.0]).unwrap();
            assert_eq!(field.cells, [10.0, 20.0], "{color:?} {depth:?}");
        }
    }

    #[test]
    fn a_cut_picture_is_an_error_wherever_it_is_cut() {
        let whole = encode_png(&steep([9, 5]), [0.0, 9.0]);
        assert_eq!(decode_png(&whole, [0.0, 1.0]).unwrap().size, [9, 5]);
        for length in 0..whole.len() {
            let error = decode_png(&whole[..length], [0.0, 1.0]).unwrap_err();
            let said = error.starts_with("the PNG cannot be read: ") && !error.contains('\n');
            assert!(said, "{length} of {}: {error}", whole.len());
        }
    }

    #[test]
    fn pictures_get_lighter() {
        let seen =
            |field: &Field, range| decode_png(&encode_png(field, range), [0.0, 1.0]).unwrap().cells;
        let ramp = Field::from_fn([256, 1], |[x, _]| x as f64);
        // Colours are whole numbers: a step may be lost in rounding, and no more.
        let lighter = |a: &f64, b: &f64| *b > a - 1.0 / 255.0;
        assert!(seen(&ramp, [0.0, 255.0]).is_sorted_by(lighter));
        assert!(seen(&Field::filled([1, 1], 99.0), [0.0, 9.0])[0] > 0.8);
        // A range without extent has one colour, and so has NaN.
        let flat = seen(&Field::filled([2, 2], f64::NAN), [1.0, 1.0]);
        assert!(flat.iter().all(|cell| *cell < 0.01), "{flat:?}");
    }

    #[test]
    fn arrays_are_as_numpy_saves_them() {
        for (size, shape) in [([4, 3], "(3, 4)"), ([1 << 27, 1], "(1, 134217728)")] {
            let cells = steep([4, 3]).cells;
            let file = encode_npy(&Field { size, cells: cells.clone() });
            let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
            let (start, numbers) = file.split_at(128);
            assert_eq!(start[..10], *b"\x93NUMPY\x01\x00\x76\x00");
            assert_eq!(start[10..], *format!("{header:<117}\n").as_bytes());
            let numbers = numbers.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
            assert_eq!(numbers.collect::<Vec<f64>>(), cells);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in 0usize..90,
        ) {
            let start = encode_png(&steep([2, 2]), [0.0, 9.0]);
            let _ = decode_png(&[&start[..at.min(start.len())], &bytes].concat(), [0.0, 1.0]);
        }
    }
}
