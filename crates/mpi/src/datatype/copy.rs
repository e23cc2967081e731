//! Packing and unpacking, and the only unsafe code of the datatypes.
//!
//! A program's buffer is an address, and a promise that the bytes that the datatype names around it
//! are valid. All else is checked: the datatype determines the bytes, and the packed side is a
//! slice.
//!
//! Addresses are numbers here and become pointers block by block. With MPI_BOTTOM the buffer's
//! address is null and displacements are addresses (MPI 5.0 §5.1.12). So a caller's pointer need
//! not have the provenance of the memory that is accessed.

use std::mem;
use std::ptr;
use std::sync::Arc;

use hikyaku_nic::ring::copy_apart;

use super::error::DatatypeError;
use super::external32;
use super::program::Program;
use super::tree::Datatype;
use super::walk::{Column, Mover, Rows, Turns};

/// Packs or unpacks `count` elements of a datatype piece by piece.
///
/// A piece may end at any byte, and the next may start at any other: only the packed offset is kept
/// in between. Only [`Cursor::new`] allocates.
#[derive(Debug, Clone)]
pub struct Cursor {
    program: Arc<Program>,
    /// Packed bytes of all elements.
    size: u64,
    position: u64,
    /// The range of the data relative to the buffer's address, if there is any data.
    span: Option<(i64, i64)>,
}

impl Cursor {
    /// A cursor at the start of `count` elements.
    ///
    /// # Errors
    /// The packed size or the span of the elements does not fit 64 bits.
    pub fn new(datatype: &Datatype, count: u64) -> Result<Cursor, DatatypeError> {
        let size = packed_size(datatype, count)?;
        let span = datatype.true_span(count)?;
        Ok(Cursor { program: datatype.program().clone(), size, position: 0, span })
    }

    /// Packed bytes of all elements.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Packed bytes before the next piece.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Packed bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.size - self.position
    }

    /// Moves to a packed offset, or to the end if the offset is beyond it.
    pub fn seek(&mut self, position: u64) {
        self.position = position.min(self.size);
    }

    /// Packs the next bytes of the buffer at `base` into `out`, as many as fit and are left.
    /// Returns their number.
    ///
    /// # Safety
    /// Every byte of the elements at `base` is allocated and initialised, is not written during the
    /// call, and is not in `out`. A null `base` is MPI_BOTTOM: displacements are addresses, whose
    /// memory has been exposed.
    pub unsafe fn pack(&mut self, base: *const u8, out: &mut [u8]) -> usize {
        let bytes = self.remaining().min(out.len() as u64) as usize;
        // SAFETY: the caller promises the bytes of all elements, and `walk` names no others.
        let mut copier = unsafe { Copier::new(base.expose_provenance(), &mut out[..bytes]) };
        self.walk(bytes as u64, &mut copier);
        debug_assert!(copier.packed.is_empty(), "a walk moves as much as it was asked for");
        bytes
    }

    /// Unpacks `from` into the next bytes of the buffer at `base`, as many as there are and are
    /// left. Returns their number.
    ///
    /// # Safety
    /// Every byte of the elements at `base` is allocated, is not accessed otherwise during the
    /// call, and is not in `from`. A null `base` is MPI_BOTTOM: displacements are addresses, whose
    /// memory has been exposed.
    pub unsafe fn unpack(&mut self, from: &[u8], base: *mut u8) -> usize {
        let bytes = self.remaining().min(from.len() as u64) as usize;
        // SAFETY: the caller promises the bytes of all elements, and `walk` names no others.
        let mut copier = unsafe { Copier::new(base.expose_provenance(), &from[..bytes]) };
        self.walk(bytes as u64, &mut copier);
        debug_assert!(copier.packed.is_empty(), "a walk moves as much as it was asked for");
        bytes
    }

    /// [`Cursor::pack`] from a slice. The buffer's address is the slice's byte `origin`.
    ///
    /// # Errors
    /// An element lies partly outside the slice. Then nothing is packed.
    pub fn pack_slice(
        &mut self,
        memory: &[u8],
        origin: usize,
        out: &mut [u8],
    ) -> Result<usize, DatatypeError> {
        self.check_slice(memory.len(), origin)?;
        let base = memory.as_ptr().wrapping_add(origin);
        // SAFETY: all bytes of all elements lie within the slice. It is borrowed, so nothing writes
        // it and `out` does not overlap it.
        Ok(unsafe { self.pack(base, out) })
    }

    /// [`Cursor::unpack`] into a slice. The buffer's address is the slice's byte `origin`.
    ///
    /// # Errors
    /// An element lies partly outside the slice. Then nothing is unpacked.
    pub fn unpack_slice(
        &mut self,
        from: &[u8],
        memory: &mut [u8],
        origin: usize,
    ) -> Result<usize, DatatypeError> {
        self.check_slice(memory.len(), origin)?;
        let base = memory.as_mut_ptr().wrapping_add(origin);
        // SAFETY: all bytes of all elements lie within the slice. It is borrowed mutably, so `from`
        // does not overlap it.
        Ok(unsafe { self.unpack(from, base) })
    }

    /// Visits the memory of the next `bytes` packed bytes instead of copying it: `act` gets each
    /// block's offset from the buffer's address, and its length. For lists of pieces that the
    /// kernel or a peer copies.
    pub fn visit(&mut self, bytes: u64, act: impl FnMut(i64, u64)) {
        self.walk(bytes.min(self.remaining()), &mut Visitor { act });
    }

    fn walk(&mut self, bytes: u64, mover: &mut impl Mover) {
        let (body, stride) = (self.program.body(), self.program.extent());
        let from = self.position;
        self.position += bytes;
        Turns { body, stride, origin: 0 }.part(from, self.position, mover);
    }

    fn check_slice(&self, length: usize, origin: usize) -> Result<(), DatatypeError> {
        let Some((low, high)) = self.span else { return Ok(()) };
        let (first, end) = (origin as i128 + i128::from(low), origin as i128 + i128::from(high));
        if first < 0 || end > length as i128 {
            return Err(DatatypeError::OutsideSlice { low, high });
        }
        Ok(())
    }
}

/// Packed bytes of `count` elements (MPI_Pack_size, MPI 5.0 §5.2).
///
/// # Errors
/// They do not fit 63 bits.
pub fn packed_size(datatype: &Datatype, count: u64) -> Result<u64, DatatypeError> {
    fitting(datatype.size(), count)
}

/// Bytes of `count` elements in `external32` (MPI_Pack_external_size, MPI 5.0 §5.3).
///
/// # Errors
/// They do not fit 63 bits.
pub fn external_size(datatype: &Datatype, count: u64) -> Result<u64, DatatypeError> {
    fitting(datatype.external_size(), count)
}

fn fitting(each: u64, count: u64) -> Result<u64, DatatypeError> {
    let size = each.checked_mul(count).filter(|size| i64::try_from(*size).is_ok());
    size.ok_or(DatatypeError::Overflow { what: "the packed size" })
}

/// Packs `count` elements at `base` into `out` from `position` on, and moves `position` to their
/// end (MPI_Pack, MPI 5.0 §5.2).
///
/// # Errors
/// `out` has no room. Then nothing is packed.
///
/// # Safety
/// As for [`Cursor::pack`].
pub unsafe fn pack(
    base: *const u8,
    count: u64,
    datatype: &Datatype,
    out: &mut [u8],
    position: &mut u64,
) -> Result<(), DatatypeError> {
    let mut cursor = Cursor::new(datatype, count)?;
    let at = room("pack", cursor.size(), *position, out.len())?;
    // SAFETY: the caller promises what `pack` asks for.
    let packed = unsafe { cursor.pack(base, &mut out[at]) };
    *position += packed as u64;
    Ok(())
}

/// Unpacks `count` elements to `base` from `from`, from `position` on, and moves `position` to
/// their end (MPI_Unpack, MPI 5.0 §5.2).
///
/// # Errors
/// `from` has too few bytes. Then nothing is unpacked.
///
/// # Safety
/// As for [`Cursor::unpack`].
pub unsafe fn unpack(
    from: &[u8],
    position: &mut u64,
    base: *mut u8,
    count: u64,
    datatype: &Datatype,
) -> Result<(), DatatypeError> {
    let mut cursor = Cursor::new(datatype, count)?;
    let at = room("unpack", cursor.size(), *position, from.len())?;
    // SAFETY: the caller promises what `unpack` asks for.
    let unpacked = unsafe { cursor.unpack(&from[at], base) };
    *position += unpacked as u64;
    Ok(())
}

/// [`pack()`] in the representation `external32` (MPI_Pack_external, MPI 5.0 §5.3).
///
/// # Errors
/// `out` has no room; then nothing is packed. Or a value cannot be represented: an `MPI_LONG`
/// beyond 32 bits or an `MPI_WCHAR` beyond 16, their sizes in `external32`. Then the values packed
/// before it stay in `out`, and `position` does not move.
///
/// # Safety
/// As for [`Cursor::pack`].
pub unsafe fn pack_external(
    base: *const u8,
    count: u64,
    datatype: &Datatype,
    out: &mut [u8],
    position: &mut u64,
) -> Result<(), DatatypeError> {
    let mut cursor = Cursor::new(datatype, count)?;
    let size = external_size(datatype, count)?;
    let at = room("pack", size, *position, out.len())?;
    // SAFETY: the caller promises what `pack` asks for.
    let source = |piece: &mut [u8]| unsafe { cursor.pack(base, piece) };
    external32::encode(datatype, count, source, &mut out[at])?;
    *position += size;
    Ok(())
}

/// [`unpack()`] from the representation `external32` (MPI_Unpack_external, MPI 5.0 §5.3). Numbers
/// of 128 bits become the nearest `long double`.
///
/// # Errors
/// `from` has too few bytes. Then nothing is unpacked.
///
/// # Safety
/// As for [`Cursor::unpack`].
pub unsafe fn unpack_external(
    from: &[u8],
    position: &mut u64,
    base: *mut u8,
    count: u64,
    datatype: &Datatype,
) -> Result<(), DatatypeError> {
    let mut cursor = Cursor::new(datatype, count)?;
    let size = external_size(datatype, count)?;
    let at = room("unpack", size, *position, from.len())?;
    // SAFETY: the caller promises what `unpack` asks for.
    let sink = |piece: &[u8]| unsafe { cursor.unpack(piece, base) };
    external32::decode(datatype, count, &from[at], sink);
    *position += size;
    Ok(())
}

/// The range of a buffer that an operation uses.
fn room(
    what: &'static str,
    needed: u64,
    position: u64,
    size: usize,
) -> Result<std::ops::Range<usize>, DatatypeError> {
    let size = size as u64;
    match position.checked_add(needed) {
        Some(end) if end <= size => Ok(position as usize..end as usize),
        _ => Err(DatatypeError::NoRoom { what, needed, position, size }),
    }
}

/// Evaluates an expression with a constant for each length that has a kernel, else another
/// expression. The lengths are those of numbers, complex numbers, pairs, points and cache lines: a
/// copy of known length is a few moves, any other is a call.
macro_rules! by_length {
    ($length:expr, $constant:ident => $fixed:expr, $otherwise:expr) => {
        by_length!(@ $length, $constant => $fixed, $otherwise, 1 2 4 8 12 16 24 32 64)
    };
    (@ $length:expr, $constant:ident => $fixed:expr, $otherwise:expr, $($known:literal)*) => {
        match $length {
            $($known => {
                const $constant: usize = $known;
                $fixed
            })*
            _ => $otherwise,
        }
    };
}

/// Packed bytes: a slice to fill, or one to read.
trait Packed: Default {
    /// Splits into the first bytes and the rest.
    fn split(self, at: usize) -> (Self, Self);

    /// Splits into pieces of a length known at compile time.
    fn blocks<const N: usize>(self) -> impl Iterator<Item = Self>;

    /// Splits into pieces of one length.
    fn pieces(self, length: usize) -> impl Iterator<Item = Self>;

    /// Reborrows the bytes.
    fn again(&mut self) -> impl Packed;

    /// Fills these bytes from the memory at an address, or copies them there.
    ///
    /// # Safety
    /// The memory at the address has the same length and does not overlap these bytes. It may be
    /// read and is initialised, or may be written.
    unsafe fn copy(self, address: usize);
}

impl Packed for &mut [u8] {
    #[inline(always)]
    fn split(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }

    #[inline(always)]
    fn blocks<const N: usize>(self) -> impl Iterator<Item = Self> {
        self.as_chunks_mut::<N>().0.iter_mut().map(|block| &mut block[..])
    }

    #[inline(always)]
    fn pieces(self, length: usize) -> impl Iterator<Item = Self> {
        self.chunks_exact_mut(length)
    }

    #[inline(always)]
    fn again(&mut self) -> impl Packed {
        &mut **self
    }

    #[inline(always)]
    unsafe fn copy(self, address: usize) {
        let from = ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the caller promises the source, `self` is valid memory, and they do not overlap.
        unsafe { copy_apart(from, self.as_mut_ptr(), self.len()) };
    }
}

impl Packed for &[u8] {
    #[inline(always)]
    fn split(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }

    #[inline(always)]
    fn blocks<const N: usize>(self) -> impl Iterator<Item = Self> {
        self.as_chunks::<N>().0.iter().map(|block| &block[..])
    }

    #[inline(always)]
    fn pieces(self, length: usize) -> impl Iterator<Item = Self> {
        self.chunks_exact(length)
    }

    #[inline(always)]
    fn again(&mut self) -> impl Packed {
        *self
    }

    #[inline(always)]
    unsafe fn copy(self, address: usize) {
        let to = ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the caller promises the target, `self` is valid memory, and they do not overlap.
        unsafe { copy_apart(self.as_ptr(), to, self.len()) };
    }
}

/// Copies between the blocks of a program's buffer and packed bytes. Used only by the walk for
/// which it was made.
struct Copier<P> {
    base: usize,
    /// The bytes that are not copied yet.
    packed: P,
}

impl<P: Packed> Copier<P> {
    /// # Safety
    /// Every block of the walk that gets this mover satisfies the conditions of [`Packed::copy`]
    /// from now to the end of the walk, and does not overlap `packed`.
    unsafe fn new(base: usize, packed: P) -> Copier<P> {
        Copier { base, packed }
    }

    #[inline(always)]
    fn take(&mut self, bytes: u64) -> P {
        let (now, rest) = mem::take(&mut self.packed).split(bytes as usize);
        self.packed = rest;
        now
    }

    fn address(&self, offset: i64) -> usize {
        self.base.wrapping_add_signed(offset as isize)
    }

    fn strided_by<const N: usize>(&mut self, offset: i64, stride: i64, count: u64) {
        let mut address = self.address(offset);
        for block in self.take(count * N as u64).blocks::<N>() {
            // SAFETY: the caller of `new` promised every block of the walk; this is one of them.
            unsafe { block.copy(address) };
            address = address.wrapping_add_signed(stride as isize);
        }
    }

    fn scattered_by<const N: usize>(&mut self, origin: i64, offsets: &[i64]) {
        let base = self.address(origin);
        let blocks = self.take((offsets.len() * N) as u64).blocks::<N>();
        for (block, offset) in blocks.zip(offsets) {
            // SAFETY: the caller of `new` promised every block of the walk; this is one of them.
            unsafe { block.copy(base.wrapping_add_signed(*offset as isize)) };
        }
    }

    /// Copies one block of each row of a tile: `length` bytes at `start` of every `size` bytes.
    #[inline(always)]
    fn column(
        mut address: usize,
        stride: i64,
        tile: impl Packed,
        (size, start, length): (usize, usize, usize),
    ) {
        for row in tile.pieces(size) {
            let block = row.split(start).1.split(length).0;
            // SAFETY: the caller of `new` promised every block of the walk; this is one of them.
            unsafe { block.copy(address) };
            address = address.wrapping_add_signed(stride as isize);
        }
    }
}

/// Packed bytes of a table that are copied column by column before the next rows. They are few
/// enough to stay in the first-level cache together with their source or target.
const TILE: u64 = 8192;

impl<P: Packed> Mover for Copier<P> {
    #[inline(always)]
    fn block(&mut self, offset: i64, length: u64) {
        let address = self.address(offset);
        let block = self.take(length);
        // SAFETY: the caller of `new` promised every block of the walk; this is one of them.
        by_length!(length, N => unsafe { block.split(N).0.copy(address) }, {
            // SAFETY: as above.
            unsafe { block.copy(address) }
        });
    }

    /// Not inlined into the walk, where the loops over short blocks would be slower.
    #[inline(never)]
    fn strided(&mut self, offset: i64, stride: i64, count: u64, length: u64) {
        by_length!(length, N => self.strided_by::<N>(offset, stride, count), {
            for turn in 0..count {
                self.block(offset.wrapping_add(stride.wrapping_mul(turn as i64)), length);
            }
        });
    }

    fn scattered(&mut self, origin: i64, offsets: &[i64], length: u64) {
        by_length!(length, N => self.scattered_by::<N>(origin, offsets), {
            for offset in offsets {
                self.block(origin.wrapping_add(*offset), length);
            }
        });
    }

    fn table(&mut self, rows: Rows, columns: impl Iterator<Item = Column> + Clone) {
        let (size, at_once) = (rows.size as usize, (TILE / rows.size).max(1));
        let (mut origin, mut left) = (self.address(rows.origin), rows.count);
        while left > 0 {
            let turns = left.min(at_once);
            let mut tile = self.take(turns * rows.size);
            for Column { start, offset, length } in columns.clone() {
                let address = origin.wrapping_add_signed(offset as isize);
                let (stride, start, tile) = (rows.stride, start as usize, tile.again());
                by_length!(length, N => Self::column(address, stride, tile, (size, start, N)), {
                    Self::column(address, stride, tile, (size, start, length as usize));
                });
            }
            origin = origin.wrapping_add_signed(rows.stride.wrapping_mul(turns as i64) as isize);
            left -= turns;
        }
    }
}

/// Reports blocks instead of copying them.
struct Visitor<F> {
    act: F,
}

impl<F: FnMut(i64, u64)> Mover for Visitor<F> {
    fn block(&mut self, offset: i64, length: u64) {
        (self.act)(offset, length);
    }

    fn strided(&mut self, offset: i64, stride: i64, count: u64, length: u64) {
        for turn in 0..count {
            (self.act)(offset.wrapping_add(stride.wrapping_mul(turn as i64)), length);
        }
    }

    fn scattered(&mut self, origin: i64, offsets: &[i64], length: u64) {
        for offset in offsets {
            (self.act)(origin.wrapping_add(*offset), length);
        }
    }

    fn table(&mut self, rows: Rows, columns: impl Iterator<Item = Column> + Clone) {
        for turn in 0..rows.count {
            let origin = rows.origin.wrapping_add(rows.stride.wrapping_mul(turn as i64));
            for column in columns.clone() {
                (self.act)(origin.wrapping_add(column.offset), column.length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    /// {(int, 0), (long, 8), (char, 16)}, 24 bytes apart.
    fn record() -> Datatype {
        let types = [Basic::Int, Basic::Long, Basic::Char].map(Datatype::from);
        Datatype::create_struct(&[1, 1, 1], &[0, 8, 16], &types).unwrap()
    }

    fn pack_into(from: &[u8], datatype: &Datatype, out: &mut [u8], position: &mut u64) {
        let count = (from.len() as i64 / datatype.extent()) as u64;
        // SAFETY: so many elements lie in the slice, and `out` does not overlap it.
        unsafe { pack(from.as_ptr(), count, datatype, out, position) }.unwrap();
    }

    #[test]
    fn several_packs_share_a_buffer() {
        let (ints, record) = ([1u8, 0, 0, 0, 2, 0, 0, 0], record());
        let records: Vec<u8> = (0..48).collect();
        let (mut buffer, mut position) = ([0; 40], 0);
        pack_into(&ints, &Basic::Int.into(), &mut buffer, &mut position);
        pack_into(&records, &record, &mut buffer, &mut position);
        // 2 × 4 bytes, then 2 × (4 + 8 + 1).
        assert_eq!(position, 8 + 26);
        assert_eq!(buffer[8..22], [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24]);

        let (mut position, mut back) = (8, [0u8; 48]);
        let target = back.as_mut_ptr();
        // SAFETY: two records lie in the array, and the buffer does not overlap it.
        unsafe { unpack(&buffer, &mut position, target, 2, &record) }.unwrap();
        assert_eq!(position, 34);
        assert_eq!(back[..12], [0, 1, 2, 3, 0, 0, 0, 0, 8, 9, 10, 11]);
        assert_eq!(back[40], 40);
        assert_eq!(back[41..], [0; 7]);
    }

    #[test]
    fn a_full_buffer_is_refused_untouched() {
        let (mut buffer, memory, int) = ([9; 10], [1u8; 8], Datatype::from(Basic::Int));
        for position in [3, 11, u64::MAX] {
            let mut at = position;
            // SAFETY: two ints lie in the memory.
            let full = unsafe { pack(memory.as_ptr(), 2, &int, &mut buffer, &mut at) };
            let error = DatatypeError::NoRoom { what: "pack", needed: 8, position, size: 10 };
            assert_eq!((full, at, buffer), (Err(error), position, [9; 10]));
        }
        let (mut at, mut back) = (4, [1u8; 8]);
        // SAFETY: two ints lie in the memory.
        let short = unsafe { unpack(&buffer, &mut at, back.as_mut_ptr(), 2, &int) };
        let line = "unpack needs 8 bytes at position 4: the buffer has 10";
        assert_eq!(short.unwrap_err().to_string(), line);
        assert_eq!((at, back), (4, [1; 8]));
    }

    #[test]
    fn a_slice_holds_all_elements_or_none_is_moved() {
        let int = Datatype::vector(2, 1, -2, &Basic::Int.into()).unwrap();
        let mut cursor = Cursor::new(&int, 1).unwrap();
        let (memory, mut out) = ([1u8; 12], [0; 8]);
        // The data covers -8 to 4 around the origin.
        for origin in [0, 7, 9, 12] {
            let error = DatatypeError::OutsideSlice { low: -8, high: 4 };
            assert_eq!(cursor.pack_slice(&memory, origin, &mut out), Err(error));
            assert_eq!(cursor.position(), 0);
        }
        assert_eq!(cursor.pack_slice(&memory, 8, &mut out), Ok(8));
        let mut none = Cursor::new(&int, 0).unwrap();
        assert_eq!(none.pack_slice(&[], 5, &mut out), Ok(0));
    }

    #[test]
    fn with_a_null_address_displacements_are_addresses() {
        let (a, b) = ([1u8, 2, 3, 4], [5u8, 6, 7, 8]);
        let at = [&b, &a].map(|array| array.as_ptr().expose_provenance() as i64);
        let bottom = Datatype::hindexed_block(1, &at, &Basic::Int.into()).unwrap();
        let (mut out, mut position) = ([0; 8], 0);
        // SAFETY: the displacements are addresses of two arrays of this function.
        unsafe { pack(ptr::null(), 1, &bottom, &mut out, &mut position) }.unwrap();
        assert_eq!(out, [5, 6, 7, 8, 1, 2, 3, 4]);
    }

    fn to_external(
        memory: &[u8],
        datatype: &Datatype,
        count: u64,
    ) -> Result<Vec<u8>, DatatypeError> {
        let mut out = vec![0; external_size(datatype, count).unwrap() as usize];
        let mut position = 0;
        let from = memory.as_ptr();
        // SAFETY: callers pass the memory of so many elements.
        unsafe { pack_external(from, count, datatype, &mut out, &mut position) }?;
        assert_eq!(position, out.len() as u64);
        Ok(out)
    }

    fn from_external(external: &[u8], datatype: &Datatype, count: u64, bytes: usize) -> Vec<u8> {
        let (mut memory, mut position) = (vec![0; bytes], 0);
        let to = memory.as_mut_ptr();
        // SAFETY: callers pass the number of bytes that so many elements take.
        unsafe { unpack_external(external, &mut position, to, count, datatype) }.unwrap();
        assert_eq!(position, external.len() as u64);
        memory
    }

    #[test]
    fn external_records_are_big_endian_without_gaps() {
        let mut memory = vec![0; 48];
        memory[0..4].copy_from_slice(&0x0102_0304i32.to_le_bytes());
        memory[8..16].copy_from_slice(&(-2i64).to_le_bytes());
        memory[16] = b'x';
        memory[24..28].copy_from_slice(&7i32.to_le_bytes());
        let external = to_external(&memory, &record(), 2).unwrap();
        // An int has 4 bytes, a long 4 and a char 1.
        let expected = [1, 2, 3, 4, 255, 255, 255, 254, b'x', 0, 0, 0, 7, 0, 0, 0, 0, 0];
        assert_eq!(external, expected);
        assert_eq!(from_external(&external, &record(), 2, 48), memory);
    }

    #[test]
    fn the_parts_of_complex_numbers_stay_in_place() {
        let memory: Vec<u8> = (0..16).collect();
        let external = to_external(&memory, &Basic::CDoubleComplex.into(), 1).unwrap();
        assert_eq!(external, [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]);
        let external = to_external(&memory, &Basic::Complex4.into(), 4).unwrap();
        assert_eq!(external[..8], [1, 0, 3, 2, 5, 4, 7, 6]);
    }

    #[test]
    fn external_vectors_of_mixed_records_repeat_them() {
        // {(short, 0), (char, 2)} at 0, 4 and 12, 16: two blocks of two, three records apart.
        let types = [Basic::Short, Basic::Char].map(Datatype::from);
        let pair = Datatype::create_struct(&[1, 1], &[0, 2], &types).unwrap();
        let vector = Datatype::vector(2, 2, 3, &pair).unwrap();
        let memory: Vec<u8> = (0..40).collect();
        let external = to_external(&memory, &vector, 2).unwrap();
        let record = |at: u8| [at + 1, at, at + 2];
        // The second element starts at the extent, 20.
        let expected = [0, 4, 12, 16, 20, 24, 32, 36].map(record).concat();
        assert_eq!(external, expected);
        let back = from_external(&external, &vector, 2, 40);
        for at in [0, 4, 12, 16, 20, 24, 32, 36] {
            assert_eq!(back[at..at + 4], [memory[at], memory[at + 1], memory[at + 2], 0]);
        }
    }

    #[test]
    fn every_basic_survives_external32() {
        for basic in Basic::ALL {
            let datatype = Datatype::vector(700, 1, 2, &Datatype::from(*basic)).unwrap();
            let bytes = datatype.extent() as usize;
            let mut memory = vec![0; bytes];
            let mut cursor = Cursor::new(&datatype, 1).unwrap();
            // 1 in the first byte: a small number in every type, a tiny one in floating point
            // types.
            let size = u64::from(basic.size());
            let ones: Vec<u8> = (0..cursor.size()).map(|at| u8::from(at % size == 0)).collect();
            cursor.unpack_slice(&ones, &mut memory, 0).unwrap();
            let external = to_external(&memory, &datatype, 1).unwrap();
            assert_eq!(external.len() as u64, 700 * u64::from(basic.external_size()));
            assert_eq!(from_external(&external, &datatype, 1, bytes), memory, "{basic}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_errors() {
        let wide = |basic: Basic, value: u64| {
            let bytes = value.to_le_bytes();
            to_external(&bytes[..basic.size() as usize], &basic.into(), 1)
        };
        assert_eq!(wide(Basic::Long, -5i64 as u64), Ok(vec![255, 255, 255, 251]));
        assert_eq!(wide(Basic::UnsignedLong, u32::MAX.into()), Ok(vec![255; 4]));
        assert_eq!(wide(Basic::Wchar, 0x20ac), Ok(vec![0x20, 0xac]));
        assert_eq!(wide(Basic::CBool, 4), Ok(vec![1]));
        for (basic, value) in
            [(Basic::Long, 1 << 31), (Basic::UnsignedLong, 1 << 32), (Basic::Wchar, 1 << 16)]
        {
            let error = wide(basic, value).unwrap_err().to_string();
            let line = format!("the value of an {basic} cannot be represented in external32");
            assert_eq!(error, line);
        }
    }
}
