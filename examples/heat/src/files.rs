//! Fields as files: PNG pictures and NPY arrays, both in and out. NPY's format:
//! <https://numpy.org/neps/nep-0001-npy-format.html>.
//!
//! NPY is read by hand because numpy writes its header in one form only: a crate that reads any
//! Python literal there brings sixteen others with it.

use std::io::{Cursor, ErrorKind};

use png::{BitDepth, ColorType, Transformations};

use crate::field::{Field, MAX_CELLS};

/// How every PNG file begins.
pub const PNG_MAGIC: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

/// How every NPY file begins.
const NPY_MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Reads a PNG picture: gray, RGB or palette, as 8 bits. Black becomes `low`, white `high`;
/// transparent is black.
///
/// # Errors
/// The file is damaged, truncated or too large.
pub fn decode_png(file: &[u8], [low, high]: [f64; 2]) -> Result<Field, String> {
    let limits = png::Limits { bytes: MAX_CELLS * 8 };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(png_error)?;
    let (width, height) = reader.info().size();
    let too_large = || format!("{width} x {height} pixels: at most {MAX_CELLS} can be used");
    if width as usize * height as usize > MAX_CELLS {
        return Err(too_large());
    }
    let mut bytes = vec![0; reader.output_buffer_size().ok_or_else(too_large)?];
    let frame = reader.next_frame(&mut bytes).map_err(png_error)?;
    // A file that ends after the last pixel is truncated too.
    reader.finish().map_err(png_error)?;
    let brightness = |pixel: &[u8]| {
        let part = |i: usize| f64::from(pixel[i]) / 255.0;
        // Rec. 709 weights on the encoded values: what the picture looks like.
        let luma = || 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
        match frame.color_type {
            ColorType::Grayscale => part(0),
            ColorType::GrayscaleAlpha => part(0) * part(1),
            ColorType::Rgba => luma() * part(3),
            // The decoder has expanded palettes.
            ColorType::Rgb | ColorType::Indexed => luma(),
        }
    };
    let pixels = bytes.chunks_exact(frame.color_type.samples());
    let cells = pixels.map(|pixel| low + brightness(pixel) * (high - low)).collect();
    Ok(Field { size: [width as usize, height as usize, 1], cells })
}

fn png_error(error: png::DecodingError) -> String {
    match error {
        png::DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            "the PNG is truncated".into()
        }
        other => format!("the PNG is damaged: {}", other.to_string().replace('\n', " ")),
    }
}

/// A PNG picture of the plane in the middle of a field, every `step`-th cell a pixel. `low` has the
/// coldest colour, `high` the hottest.
pub fn encode_png(field: &Field, [low, high]: [f64; 2], step: usize) -> Vec<u8> {
    let [width, height, depth] = field.size;
    let pixel = |temperature: &f64| ((temperature - low) / (high - low) * 256.0) as u8;
    let rows = field.cells.chunks_exact(width).skip(depth / 2 * height).take(height);
    let pixels: Vec<u8> =
        rows.step_by(step).flat_map(|row| row.iter().step_by(step).map(pixel)).collect();
    let mut file = Vec::new();
    // MAX_CELLS bounds both sides.
    let (width, height) = (width.div_ceil(step) as u32, height.div_ceil(step) as u32);
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    // Evenly lighter: else the eye sees edges that are not in the data.
    let colour = |index| colorous::INFERNO.eval_rational(index, 256).into_array();
    encoder.set_palette((0..256).flat_map(colour).collect::<Vec<u8>>());
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    written.expect("memory takes a picture of at least one cell");
    file
}

/// Reads an array of two or three dimensions, `f4` or `f8`, in C order, as `numpy.save` writes it.
///
/// # Errors
/// The file is of another kind, damaged, truncated or too large.
pub fn decode_npy(file: &[u8]) -> Result<Field, String> {
    let damaged = "the header of the NPY file is damaged";
    let rest = file.strip_prefix(NPY_MAGIC).ok_or("it is neither a PNG nor an NPY file")?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (u32::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), rest),
        _ => return Err(damaged.into()),
    };
    let (header, data) = rest.split_at_checked(length as usize).ok_or(damaged)?;
    let header = str::from_utf8(header).map_err(|_| damaged)?;
    let value = |key: &str, end: char| {
        let (_, rest) = header.split_once(&format!("'{key}': ")).ok_or(damaged)?;
        rest.split_once(end).map(|(value, _)| value.trim()).ok_or(damaged)
    };
    let kind = value("descr", ',')?.trim_matches('\'');
    if value("fortran_order", ',')? != "False" {
        return Err("the array is not in C order: save numpy.ascontiguousarray(a)".into());
    }
    let shape = value("shape", ')')?.strip_prefix('(').ok_or(damaged)?;
    let lengths = shape.split(',').map(str::trim).filter(|word| !word.is_empty());
    let lengths: Vec<usize> = lengths.map(str::parse).collect::<Result<_, _>>().or(Err(damaged))?;
    // The slowest dimension comes first.
    let size = match lengths[..] {
        [height, width] => [width, height, 1],
        [depth, height, width] => [width, height, depth],
        _ => return Err(format!("its shape is ({shape}): two or three dimensions are needed")),
    };
    let cells = size.iter().try_fold(1, |cells: usize, length| cells.checked_mul(*length));
    let cells = cells.filter(|cells| (1..=MAX_CELLS).contains(cells));
    let cells = cells.ok_or_else(|| format!("its shape is ({shape}): 1 to {MAX_CELLS} numbers"))?;
    let width = match kind {
        "<f8" | ">f8" => 8,
        "<f4" | ">f4" => 4,
        _ => return Err(format!("its numbers are {kind}: only f4 and f8 are read")),
    };
    if data.len() != cells * width {
        let expected = cells * width;
        return Err(format!("{} bytes of numbers were found, not {expected}", data.len()));
    }
    let (doubles, singles) = (data.as_chunks().0.iter(), data.as_chunks().0.iter());
    let cells = match kind {
        "<f8" => doubles.map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        ">f8" => doubles.map(|bytes| f64::from_be_bytes(*bytes)).collect(),
        "<f4" => singles.map(|bytes| f32::from_le_bytes(*bytes).into()).collect(),
        _ => singles.map(|bytes| f32::from_be_bytes(*bytes).into()).collect(),
    };
    Ok(Field { size, cells })
}

/// A field as an NPY file: two dimensions of a plane, three of a volume.
pub fn encode_npy(field: &Field) -> Vec<u8> {
    let [width, height, depth] = field.size;
    let planes = if depth > 1 { format!("{depth}, ") } else { String::new() };
    let shape = format!("({planes}{height}, {width})");
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    // Magic, version, length and header together are a multiple of 64 bytes long.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut file = NPY_MAGIC.to_vec();
    file.extend([1, 0]);
    file.extend((padded as u16).to_le_bytes());
    file.extend(format!("{header:<width$}\n", width = padded - 1).bytes());
    file.extend(field.cells.iter().flat_map(|cell| cell.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::field::Size;

    fn steep(size: Size) -> Field {
        Field::from_fn(size, |[x, y, z]| (x * 7 + y * 11 + z * 13) as f64 / 3.0)
    }

    /// A picture of these pixels, whatever their form.
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
            (ColorType::GrayscaleAlpha, BitDepth::Eight, &[255, 0, 255, 255]),
            (ColorType::Rgb, BitDepth::Eight, &[0, 0, 0, 255, 255, 255]),
            (ColorType::Rgba, BitDepth::Eight, &[255, 255, 255, 0, 255, 255, 255, 255]),
            (ColorType::Indexed, BitDepth::Eight, &[0, 1]),
        ] {
            let field = decode_png(&picture(color, depth, data), [10.0, 20.0]).unwrap();
            assert_eq!(field.cells, [10.0, 20.0], "{color:?} {depth:?}");
        }
    }

    #[test]
    fn a_cut_picture_is_truncated_wherever_it_is_cut() {
        let whole = encode_png(&steep([9, 5, 1]), [0.0, 9.0], 1);
        assert!(decode_png(&whole, [0.0, 1.0]).is_ok());
        for length in PNG_MAGIC.len()..whole.len() {
            let error = decode_png(&whole[..length], [0.0, 1.0]).unwrap_err();
            assert_eq!(error, "the PNG is truncated", "{length} of {}", whole.len());
        }
    }

    #[test]
    fn pictures_get_lighter_and_can_be_thinned_out() {
        let seen = |field: &Field, range, step| {
            decode_png(&encode_png(field, range, step), [0.0, 1.0]).unwrap()
        };
        let ramp = Field::from_fn([256, 1, 1], |[x, _, _]| x as f64);
        // Colours are whole numbers: a step may be lost in rounding, and no more.
        let lighter = |a: &f64, b: &f64| *b > a - 1.0 / 255.0;
        assert!(seen(&ramp, [0.0, 255.0], 1).cells.is_sorted_by(lighter));
        assert!(seen(&Field::filled([1, 1, 1], 99.0), [0.0, 9.0], 1).cells[0] > 0.95);
        assert_eq!(seen(&steep([9, 5, 1]), [0.0, 30.0], 4).size, [3, 2, 1]);
        // A range without extent has one colour, and no number is one either.
        let flat = seen(&Field::filled([2, 2, 1], f64::NAN), [1.0, 1.0], 1);
        assert!(flat.cells.iter().all(|cell| *cell < 0.01), "{flat:?}");
    }

    #[test]
    fn arrays_survive_the_way_to_a_file_and_back() {
        for size in [[1, 1, 1], [7, 5, 1], [3, 4, 5], [1000, 2, 1]] {
            let field = steep(size);
            let file = encode_npy(&field);
            assert_eq!((file.len() - field.cells.len() * 8) % 64, 0);
            assert_eq!(decode_npy(&file), Ok(field));
        }
        let header = encode_npy(&steep([4, 3, 1]))[..70].to_vec();
        let expected =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
        assert_eq!(header[..expected.len()], expected[..], "as numpy.save writes it");
    }

    /// An array as `numpy.save` writes it, with this header.
    fn array(header: &str, data: &[u8]) -> Vec<u8> {
        [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data]
            .concat()
    }

    #[test]
    fn what_is_no_array_of_numbers_is_said() {
        let header = |descr: &str, fortran: &str, shape: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
        };
        for (kind, data) in [
            ("<f4", &[0, 0, 128, 63, 0, 0, 0, 64][..]),
            (">f4", &[63, 128, 0, 0, 64, 0, 0, 0]),
            (">f8", &[63, 240, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let file = array(&header(kind, "False", "(1, 2)"), data);
            assert_eq!(decode_npy(&file).unwrap().cells, [1.0, 2.0], "{kind}");
        }
        for (file, said) in [
            (b"GIF89a".to_vec(), "it is neither"),
            (b"\x93NUMPY".to_vec(), "the header"),
            (b"\x93NUMPY\x01\x00\xff\xff{}".to_vec(), "the header"),
            (array("{}", &[]), "the header"),
            (array("\u{fffd}", &[]), "the header"),
            (array(&header("<i8", "False", "(1, 1)"), &[0; 8]), "its numbers are <i8"),
            (array(&header("<f8", "True", "(1, 1)"), &[0; 8]), "the array is not in C order"),
            (array(&header("<f8", "False", "(1,)"), &[0; 8]), "its shape is (1,): two or three"),
            (array(&header("<f8", "False", "(-1, 1)"), &[0; 8]), "the header"),
            (array(&header("<f8", "False", "(0, 4)"), &[]), "its shape is (0, 4): 1 to"),
            (array(&header("<f8", "False", "(99999999999, 99999999999)"), &[]), "its shape is"),
            (array(&header("<f8", "False", "(2, 2)"), &[0; 24]), "24 bytes"),
            (array(&header("<f8", "False", "(2, 2)"), &[0; 36]), "36 bytes"),
        ] {
            let error = decode_npy(&file).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in 0usize..90,
        ) {
            let field = steep([2, 2, 1]);
            for start in [encode_npy(&field), encode_png(&field, [0.0, 9.0], 1)] {
                let file = [&start[..at.min(start.len())], &bytes].concat();
                let _ = (decode_npy(&file), decode_png(&file, [0.0, 1.0]));
            }
        }
    }
}
