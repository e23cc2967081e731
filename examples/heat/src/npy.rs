//! NumPy's array files, as far as a field needs them: `f4` and `f8`, C order, two dimensions or
//! three.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>. A magic string
//! and a version, the length of the header (2 bytes in version 1, 4 in 2 and 3), the header (a
//! Python dictionary of exactly three keys), the numbers. The whole header is parsed, nothing is
//! searched for: a file with anything else in it is refused.

use thiserror::Error;

use crate::field::{Extent, Field, MAX_CELLS};

/// How every NPY file begins.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Why a file is not taken.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum NpyError {
    /// It does not start with the magic string.
    #[error("it is not an NPY file")]
    NotNpy,
    /// A version that did not exist when this was written.
    #[error("NPY version {0}.{1} is not known: versions 1.0, 2.0 and 3.0 are")]
    Version(u8, u8),
    /// It ends within the header.
    #[error("the file is truncated: it ends within its header")]
    TruncatedHeader,
    /// The header is not the dictionary the format demands.
    #[error("its header is malformed: {0}")]
    Header(&'static str),
    /// Another type of number.
    #[error("its numbers are `{0}`: only f4 and f8 are read (save it with .astype('f8'))")]
    Type(String),
    /// Column-major storage.
    #[error("it is in Fortran order: save it with numpy.ascontiguousarray")]
    FortranOrder,
    /// Not a table of numbers.
    #[error("it has {0} dimensions: a field has 2 or 3")]
    Dimensions(usize),
    /// No cells, or more than are allowed.
    #[error("its shape is {0:?}: all must be at least 1, the product at most {MAX_CELLS}")]
    Size(Vec<u64>),
    /// Fewer or more bytes than the shape needs.
    #[error("{expected} bytes of numbers were expected after the header, the file has {found}")]
    Length {
        /// What the shape needs, bytes.
        expected: u64,
        /// What is there, bytes.
        found: u64,
    },
}

/// Reads a field from the bytes of an NPY file. The numbers are taken as they are, NaN included.
///
/// # Errors
/// The file is malformed or holds something else than a 2-D or 3-D array, `f4` or `f8`, in C order.
pub fn decode(file: &[u8]) -> Result<Field, NpyError> {
    let (header, data) = split(file)?;
    let header = Header::parse(header)?;
    if header.fortran_order {
        return Err(NpyError::FortranOrder);
    }
    let (depth, height, width) = match header.shape[..] {
        [height, width] => (1, height, width),
        [depth, height, width] => (depth, height, width),
        _ => return Err(NpyError::Dimensions(header.shape.len())),
    };
    let cells = width.checked_mul(height).and_then(|plane| plane.checked_mul(depth));
    let Some(cells) = cells.filter(|&n| n > 0 && n <= MAX_CELLS as u64) else {
        return Err(NpyError::Size(header.shape));
    };
    let numbers = match header.descr.as_str() {
        "<f8" => numbers(data, cells, f64::from_le_bytes),
        ">f8" => numbers(data, cells, f64::from_be_bytes),
        "<f4" => numbers(data, cells, |bytes| f64::from(f32::from_le_bytes(bytes))),
        ">f4" => numbers(data, cells, |bytes| f64::from(f32::from_be_bytes(bytes))),
        _ => return Err(NpyError::Type(printable(&header.descr))),
    }?;
    // They fit: their product is at most MAX_CELLS.
    let extent = [width, height, depth].map(|length| length as usize);
    Field::from_cells(extent, numbers).ok_or(NpyError::Size(header.shape))
}

/// The bytes of an NPY file (version 1.0, `<f8`) that holds exactly this field.
pub fn encode(field: &Field) -> Vec<u8> {
    let extent = field.extent();
    let Extent { width, height, depth } = extent;
    let shape = if extent.is_volume() {
        format!("({depth}, {height}, {width})")
    } else {
        format!("({height}, {width})")
    };
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    // Data starts at a multiple of 64 bytes, so that a mapped file is aligned; the header ends
    // with a line feed.
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(64) - before;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let mut file = Vec::with_capacity(before + padded + field.cells().len() * 8);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    // Three numbers of at most 20 digits: the header is at most 182 bytes long.
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend(field.cells().iter().flat_map(|cell| cell.to_le_bytes()));
    file
}

/// Splits a file into its header's text and the bytes after it.
fn split(file: &[u8]) -> Result<(&str, &[u8]), NpyError> {
    let rest = file.strip_prefix(MAGIC).ok_or(NpyError::NotNpy)?;
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or(NpyError::TruncatedHeader)?;
    let (length, rest) = match (major, minor) {
        (1, 0) => {
            let (bytes, rest) = rest.split_first_chunk().ok_or(NpyError::TruncatedHeader)?;
            (u32::from(u16::from_le_bytes(*bytes)), rest)
        }
        (2 | 3, 0) => {
            let (bytes, rest) = rest.split_first_chunk().ok_or(NpyError::TruncatedHeader)?;
            (u32::from_le_bytes(*bytes), rest)
        }
        _ => return Err(NpyError::Version(major, minor)),
    };
    let (header, data) = rest.split_at_checked(length as usize).ok_or(NpyError::TruncatedHeader)?;
    // Versions 1 and 2 say Latin-1, version 3 UTF-8; what is accepted below is ASCII.
    let header = std::str::from_utf8(header).map_err(|_| NpyError::Header("it is not text"))?;
    Ok((header, data))
}

/// Reads `cells` numbers of `N` bytes, which must be all there is.
fn numbers<const N: usize>(
    data: &[u8],
    cells: u64,
    number: impl Fn([u8; N]) -> f64,
) -> Result<Vec<f64>, NpyError> {
    let (expected, found) = (cells * N as u64, data.len() as u64);
    if expected != found {
        return Err(NpyError::Length { expected, found });
    }
    let (chunks, _) = data.as_chunks::<N>();
    Ok(chunks.iter().map(|chunk| number(*chunk)).collect())
}

/// A word from a file, fit for an error line: short, without control characters.
fn printable(word: &str) -> String {
    word.chars().take(24).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The three things an NPY header says.
#[derive(Debug, Default)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Parses the dictionary: all three keys, each once, in any order, nothing else.
    fn parse(text: &str) -> Result<Header, NpyError> {
        let mut text = Text(text.trim_ascii());
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect('{')?;
        while !text.take('}') {
            let key = text.string()?;
            text.expect(':')?;
            let twice = match key {
                "descr" => descr.replace(text.string()?).is_some(),
                "fortran_order" => fortran_order.replace(text.boolean()?).is_some(),
                "shape" => shape.replace(text.tuple()?).is_some(),
                _ => return Err(NpyError::Header("it has an unknown key")),
            };
            if twice {
                return Err(NpyError::Header("it has a key twice"));
            }
            if !text.take(',') {
                text.expect('}')?;
                break;
            }
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) if text.0.is_empty() => {
                Ok(Header { descr: descr.to_owned(), fortran_order, shape })
            }
            (Some(_), Some(_), Some(_)) => Err(NpyError::Header("text follows the dictionary")),
            _ => Err(NpyError::Header("descr, fortran_order or shape is missing")),
        }
    }
}

/// What is left to be parsed of a header.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Skips spaces, then `token` if it comes next; says whether it did.
    fn take(&mut self, token: char) -> bool {
        self.0 = self.0.trim_ascii_start();
        let rest = self.0.strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, token: char) -> Result<(), NpyError> {
        self.take(token).then_some(()).ok_or(NpyError::Header("it is not a dictionary"))
    }

    /// A string in either kind of quotes, without escapes.
    fn string(&mut self) -> Result<&'a str, NpyError> {
        let quote = match (self.take('\''), self.0) {
            (true, _) => '\'',
            (false, _) if self.take('"') => '"',
            _ => return Err(NpyError::Header("a string is missing (records are not read)")),
        };
        let (string, rest) =
            self.0.split_once(quote).ok_or(NpyError::Header("a string does not end"))?;
        self.0 = rest;
        Ok(string)
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.0 = self.0.trim_ascii_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(NpyError::Header("fortran_order is neither True nor False"))
    }

    /// A tuple of natural numbers: `()`, `(3,)`, `(3, 4)`.
    fn tuple(&mut self) -> Result<Vec<u64>, NpyError> {
        let malformed = NpyError::Header("shape is not a tuple of numbers");
        let mut numbers = Vec::new();
        if !self.take('(') {
            return Err(malformed);
        }
        while !self.take(')') {
            self.0 = self.0.trim_ascii_start();
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.0.split_at(digits);
            let Ok(number) = number.parse() else { return Err(malformed) };
            numbers.push(number);
            self.0 = rest;
            if !self.take(',') {
                if !self.take(')') {
                    return Err(malformed);
                }
                break;
            }
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// A file of the given version with the given header and data.
    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([version, 0]);
        match version {
            1 => file.extend((header.len() as u16).to_le_bytes()),
            _ => file.extend((header.len() as u32).to_le_bytes()),
        }
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    fn error(header: &str) -> NpyError {
        decode(&file(1, header, &[0; 32])).unwrap_err()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_bit_for_bit(
            (size, bits) in (1_usize..20, 1_usize..20, 1_usize..4).prop_flat_map(|(w, h, d)| {
                (Just([w, h, d]), proptest::collection::vec(any::<u64>(), w * h * d))
            })
        ) {
            let cells = bits.iter().map(|&bits| f64::from_bits(bits)).collect();
            let field = Field::from_cells(size, cells).unwrap();
            let file = encode(&field);
            prop_assert_eq!((file.len() - bits.len() * 8) % 64, 0);
            prop_assert_eq!(decode(&file).unwrap().first_difference(&field), None);
        }

        #[test]
        fn no_bytes_make_it_panic(
            version in 0_u8..5, header in "[{}()',: a-zA-Z0-9]{0,60}", cut in 0_usize..80
        ) {
            let mut bytes = file(version, &header, &[0; 8]);
            bytes.truncate(cut);
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn a_truncated_file_is_refused(length in 0_usize..(128 + 4 * 5 * 8)) {
            let file = encode(&Field::filled((4, 5), 1.0));
            prop_assert!(decode(&file[..length.min(file.len() - 1)]).is_err());
        }
    }

    #[test]
    fn the_header_is_what_numpy_writes() {
        let file = encode(&Field::filled((3, 2), 0.5));
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
        assert!(file[10..].starts_with(header.as_bytes()));
        assert_eq!((file[127], file.len()), (b'\n', 128 + 48));
        let file = encode(&Field::filled([3, 2, 4], 0.5));
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2, 3), }";
        assert!(file[10..].starts_with(header.as_bytes()));
    }

    #[test]
    fn all_versions_and_number_types_are_read() {
        let field = Field::from_cells((2, 1), vec![1.5, -2.25]).unwrap();
        for version in 1..=3 {
            for (descr, data) in [
                ("<f8", [1.5_f64.to_le_bytes(), (-2.25_f64).to_le_bytes()].concat()),
                (">f8", [1.5_f64.to_be_bytes(), (-2.25_f64).to_be_bytes()].concat()),
                ("<f4", [1.5_f32.to_le_bytes(), (-2.25_f32).to_le_bytes()].concat()),
                (">f4", [1.5_f32.to_be_bytes(), (-2.25_f32).to_be_bytes()].concat()),
            ] {
                let header =
                    format!("{{\"shape\":(1,2,) , 'fortran_order' :False,'descr':'{descr}'}}   \n");
                assert_eq!(decode(&file(version, &header, &data)), Ok(field.clone()));
            }
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        assert_eq!(decode(b"hello"), Err(NpyError::NotNpy));
        assert_eq!(decode(&file(4, "{}", &[])), Err(NpyError::Version(4, 0)));
        assert_eq!(decode(b"\x93NUMPY\x01\x00\xff\xff{"), Err(NpyError::TruncatedHeader));
        let header = |descr, order, shape| {
            error(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"))
        };
        assert_eq!(header("'<f8'", "True", "(2, 2)"), NpyError::FortranOrder);
        assert_eq!(header("'<i4'", "False", "(2, 2)"), NpyError::Type("<i4".into()));
        assert_eq!(header("'<f8'", "False", "(4,)"), NpyError::Dimensions(1));
        assert_eq!(header("'<f8'", "False", "()"), NpyError::Dimensions(0));
        assert_eq!(header("'<f8'", "False", "(0, 2)"), NpyError::Size(vec![0, 2]));
        let huge = header("'<f8'", "False", "(99999999999, 99999999999)");
        assert_eq!(huge, NpyError::Size(vec![99_999_999_999, 99_999_999_999]));
        let short = NpyError::Length { expected: 48, found: 32 };
        assert_eq!(header("'<f8'", "False", "(2, 3)"), short);
        let long = NpyError::Length { expected: 16, found: 32 };
        assert_eq!(header("'<f8'", "False", "(2, 1)"), long);
        for malformed in [
            ("'<f8'", "Maybe", "(2, 2)"),
            ("[('x', '<f8')]", "False", "(2, 2)"),
            ("'<f8'", "False", "(2 2)"),
            ("'<f8'", "False", "(-2, 2)"),
            ("'<f8", "False", "(2, 2)"),
            ("'<f8', 'descr': '<f8'", "False", "(2, 2)"),
            ("'<f8', 'more': '1'", "False", "(2, 2)"),
        ] {
            let refused = header(malformed.0, malformed.1, malformed.2);
            assert!(matches!(refused, NpyError::Header(_)), "{malformed:?}: {refused}");
        }
        assert!(matches!(error("{'descr': '<f8'}"), NpyError::Header(_)));
        assert!(matches!(error("os.system('x')"), NpyError::Header(_)));
    }
}
