//! Datatypes as objects with handles, and the memory of their elements.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::rc::Rc;

use hikyaku_coll::{Part, Place};
use hikyaku_msg::{PACKET, RecvBuffer, Scattered};
use hikyaku_nic::ring::copy;

use crate::attributes::Attributes;
use crate::datatype::{Basic, Cursor, Datatype};
use crate::dialect::{Dialect, Handle, Object};
use crate::failure::{Class, Failure};
use crate::raw::{Buffer, Spread, SpreadBlocks, count};
use crate::runtime::Mpi;

/// A datatype.
#[derive(Debug)]
pub struct Type {
    pub(crate) handle: Cell<Handle>,
    pub(crate) datatype: Datatype,
    pub(crate) attributes: Attributes,
    /// The name that the program has given it.
    pub(crate) name: RefCell<Option<OsString>>,
    size: usize,
    extent: i64,
    /// Whether the data of any number of elements are contiguous from the buffer's address on.
    is_plain: Cell<bool>,
}

impl Type {
    /// A datatype without a handle.
    pub(crate) fn of(datatype: Datatype) -> Type {
        let (size, extent) = (datatype.size() as usize, datatype.extent());
        let is_plain = datatype.is_committed() && is_plain(&datatype);
        let (handle, name) = (Cell::new(Handle::DATATYPE_NULL), RefCell::new(None));
        let attributes = Attributes::default();
        Type { handle, datatype, attributes, name, size, extent, is_plain: Cell::new(is_plain) }
    }

    /// Prepares the datatype for messages.
    pub(crate) fn commit(&self) {
        self.datatype.commit();
        self.is_plain.set(is_plain(&self.datatype));
    }

    /// Calls `act` with a handle of the datatype. The program may have freed its own: operations in
    /// flight still need the type (MPI 5.0 §5.1.9).
    pub(crate) fn with_handle<R>(self: &Rc<Type>, act: impl FnOnce(Handle) -> R) -> R {
        let (types, known) = (crate::runtime::types(), self.handle.get());
        let is_known = || types.with(known, |it| Rc::ptr_eq(it, self)) == Some(true);
        if self.basic().is_some() || is_known() {
            return act(known);
        }
        let Ok(lent) = types.add(Rc::clone(self)) else { return act(known) };
        let result = act(lent);
        types.remove(lent);
        result
    }

    /// The predefined datatype that it is, if it is one.
    pub(crate) fn basic(&self) -> Option<Basic> {
        self.datatype.named()
    }

    /// The predefined datatype whose values it has, if it is predefined, with a name or without.
    pub(crate) fn values(&self) -> Option<Basic> {
        self.datatype.values()
    }

    /// Bytes of one element's data.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes from one element to the next.
    pub(crate) fn extent(&self) -> i64 {
        self.extent
    }

    /// Bytes of the data of `elements` elements.
    #[inline]
    pub(crate) fn bytes(&self, elements: i64) -> Result<usize, Failure> {
        count(elements)?;
        length_of(elements, self.size).ok_or_else(|| {
            Failure::new(Class::Count, format!("{elements} elements are more than can be counted"))
        })
    }
}

/// Bytes of so many elements of a size; `None` if they are fewer than none, or more than a slice
/// may have, which is more than any memory has.
#[inline(always)]
fn length_of(elements: i64, size: usize) -> Option<usize> {
    let length = elements.checked_mul(size as i64)?;
    (elements >= 0).then_some(length as usize)
}

fn is_plain(datatype: &Datatype) -> bool {
    datatype.is_contiguous() && datatype.true_lb() == 0
}

/// Elements of a type in a program's memory.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    buffer: Buffer,
    length: usize,
    /// The type and number of elements, if their data are not contiguous.
    spread: Option<(Datatype, u64)>,
}

/// The memory of elements whose data are contiguous.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain {
    buffer: Buffer,
    length: usize,
}

impl Plain {
    /// Its bytes.
    #[inline(always)]
    pub(crate) fn bytes<'a>(self) -> &'a [u8] {
        self.buffer.bytes(self.length)
    }

    /// Its bytes, for writing.
    #[inline(always)]
    pub(crate) fn bytes_mut<'a>(self) -> &'a mut [u8] {
        self.buffer.bytes_mut(self.length)
    }

    /// The length in bytes.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// Its bytes for a receive that continues after this call.
    #[inline(always)]
    pub(crate) fn to_receive(self) -> RecvBuffer {
        self.buffer.to_receive(self.length)
    }

    /// Copies the data to memory of the same length, unless it is the same memory.
    #[inline(always)]
    pub(crate) fn copy_to(self, other: Plain) {
        if self.buffer != other.buffer {
            copy(self.bytes(), other.bytes_mut());
        }
    }
}

impl Area {
    /// An area without elements.
    pub(crate) const NOTHING: Area = Area { buffer: Buffer::NULL, length: 0, spread: None };

    /// The area of `elements` elements of a type.
    #[inline(always)]
    pub(crate) fn new(buffer: Buffer, elements: i64, datatype: &Type) -> Result<Area, Failure> {
        Area::of_side(buffer, elements, datatype, |failure| failure)
    }

    /// [`Area::new`] for data to send.
    #[inline(always)]
    pub(crate) fn sent(buffer: Buffer, elements: i64, datatype: &Type) -> Result<Area, Failure> {
        Area::of_side(buffer, elements, datatype, Failure::sent)
    }

    /// [`Area::new`] for data to receive.
    #[inline(always)]
    pub(crate) fn received(
        buffer: Buffer,
        elements: i64,
        datatype: &Type,
    ) -> Result<Area, Failure> {
        Area::of_side(buffer, elements, datatype, Failure::received)
    }

    /// [`Area::new`]; `of_side` marks a failure's side. This is done here and not on the result,
    /// which is large: a second test of it would cost a correct call some ten instructions.
    #[inline(always)]
    pub(crate) fn of_side(
        buffer: Buffer,
        elements: i64,
        datatype: &Type,
        of_side: fn(Failure) -> Failure,
    ) -> Result<Area, Failure> {
        let length = match datatype.bytes(elements) {
            Ok(length) => length,
            Err(failure) => return Err(of_side(failure)),
        };
        if !datatype.is_plain.get() {
            let elements = elements as u64;
            return match Placement::checked(buffer, elements, datatype, length) {
                Ok(placement) => Ok(Area::placed(placement, (buffer, elements), length)),
                Err(failure) => Err(of_side(failure)),
            };
        }
        if !buffer.is_memory() && length > 0 {
            return Err(of_side(buffer.not_memory(length)));
        }
        Ok(Area { buffer, length, spread: None })
    }

    /// [`Area::new`] for contiguous data. `None`: they are not contiguous, or an argument is wrong.
    #[inline(always)]
    pub(crate) fn plain(buffer: Buffer, elements: i64, datatype: &Type) -> Option<Plain> {
        let length = length_of(elements, datatype.size)?;
        let is_here = buffer.is_memory() || length == 0;
        (datatype.is_plain.get() && is_here).then_some(Plain { buffer, length })
    }

    fn of(buffer: Buffer, (datatype, elements): (&Datatype, u64), length: usize) -> Area {
        Area::placed(Placement::of(buffer, datatype, elements), (buffer, elements), length)
    }

    #[inline(always)]
    fn placed(placement: Placement, (buffer, elements): (Buffer, u64), length: usize) -> Area {
        match placement {
            Placement::Block(buffer) => Area { buffer, length, spread: None },
            Placement::Spread(datatype) => {
                Area { buffer, length, spread: Some((datatype, elements)) }
            }
        }
    }

    /// Block `at` of the `blocks` equal blocks in the area.
    pub(crate) fn block(&self, blocks: u32, at: u32) -> Area {
        let length = self.length / blocks as usize;
        match &self.spread {
            None => {
                let buffer = self.buffer.at((at as usize * length) as i64);
                Area { buffer, length, spread: None }
            }
            Some((datatype, elements)) => {
                let elements = elements / u64::from(blocks);
                let start = datatype.extent() * elements as i64 * i64::from(at);
                Area::of(self.buffer.at(start), (datatype, elements), length)
            }
        }
    }

    /// Bytes of its data.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Its data as contiguous bytes.
    #[inline]
    pub(crate) fn data(&self) -> Cow<'_, [u8]> {
        match self.memory() {
            Some(memory) => Cow::Borrowed(memory.bytes(self.length)),
            None => Cow::Owned(self.packed()),
        }
    }

    #[cold]
    fn packed(&self) -> Vec<u8> {
        let mut data = vec![0; self.length];
        if let Some(mut cursor) = self.cursor() {
            self.buffer.pack(&mut cursor, &mut data);
        }
        data
    }

    fn cursor(&self) -> Option<Cursor> {
        let (datatype, elements) = self.spread.as_ref()?;
        // Succeeds: it succeeded when the area was made.
        Cursor::new(datatype, *elements).ok()
    }

    /// Its data as contiguous bytes that can be changed.
    #[inline]
    pub(crate) fn landing(&self) -> Landing<'_> {
        match self.memory() {
            Some(memory) => Landing { area: self, there: Some(memory), beside: Vec::new() },
            None => Landing { area: self, there: None, beside: self.data().into_owned() },
        }
    }

    /// Copies data into it, which may be shorter than the area.
    pub(crate) fn put(&self, data: &[u8]) {
        match self.cursor() {
            None => copy(data, &mut self.buffer.bytes_mut(self.length)[..data.len()]),
            Some(mut cursor) => self.buffer.unpack(&mut cursor, data),
        }
    }

    /// Whether both are the same memory. Data of two types may be apart at one address.
    #[inline]
    fn is(&self, other: &Area) -> bool {
        self.buffer == other.buffer
            && match (&self.spread, &other.spread) {
                (None, None) => true,
                (Some((one, _)), Some((another, _))) => one.is(another),
                _ => false,
            }
    }

    /// Copies its data to another area of the same length.
    #[inline]
    pub(crate) fn copy_to(&self, other: &Area) {
        if self.is(other) {
            return;
        }
        match (self.memory(), other.memory()) {
            (Some(from), Some(to)) => {
                let into = &mut to.bytes_mut(other.length)[..self.length];
                copy(from.bytes(self.length), into);
            }
            _ => self.copy_pieces(other),
        }
    }

    #[cold]
    fn copy_pieces(&self, other: &Area) {
        match (self.cursor(), other.cursor()) {
            (None, _) => other.put(self.buffer.bytes(self.length)),
            (Some(mut from), None) => {
                self.buffer.pack(&mut from, other.buffer.bytes_mut(other.length));
            }
            (Some(mut from), Some(mut to)) => {
                let mut packet = vec![0; PACKET.min(self.length)];
                for at in (0..self.length).step_by(PACKET) {
                    let packet = &mut packet[..PACKET.min(self.length - at)];
                    self.buffer.pack(&mut from, packet);
                    other.buffer.unpack(&mut to, packet);
                }
            }
        }
    }

    /// Its data as a part to send to another rank, without copying.
    pub(crate) fn part(&self) -> Part<'_, u8> {
        match self.spread {
            None => Part::Whole(self.buffer.bytes(self.length)),
            Some(_) => Part::Scattered(Scattered::new(Box::new(self.lying()))),
        }
    }

    /// Its memory as the place for another rank's data.
    pub(crate) fn place(&self) -> Place<'_, u8> {
        match self.spread {
            None => Place::Whole(self.buffer.bytes_mut(self.length)),
            Some(_) => Place::Scattered(Scattered::new(Box::new(self.lying()))),
        }
    }

    /// Its data in place, as pieces.
    fn lying(&self) -> Spread {
        Spread { buffer: self.buffer, cursor: self.cursor(), length: self.length }
    }

    /// The memory of several areas as one place for the data of other ranks.
    pub(crate) fn places(areas: &[Area]) -> Place<'_, u8> {
        match Area::joined(areas) {
            Some((start, length)) => Place::Whole(start.bytes_mut(length)),
            None => {
                let blocks = SpreadBlocks::new(areas.iter().map(Area::lying));
                Place::Scattered(Scattered::new(Box::new(blocks)))
            }
        }
    }

    /// The joint memory of several areas, if they are contiguous.
    fn joined(areas: &[Area]) -> Option<(Buffer, usize)> {
        let (mut start, mut length) = (Buffer::NULL, 0);
        for area in areas.iter().filter(|area| area.length > 0) {
            let memory = area.memory()?;
            if length == 0 {
                start = memory;
            } else if memory != start.at(length as i64) {
                return None;
            }
            length += area.length;
        }
        Some((start, length))
    }

    /// Whether its messages are packed in pieces.
    #[inline]
    pub(crate) fn is_scattered(&self) -> bool {
        self.spread.is_some() && self.length > PACKET
    }

    /// Its first `length` bytes as pieces in place, if they are longer than a packet.
    pub(crate) fn scattered(&self, length: usize) -> Option<Scattered> {
        let is_long = length > PACKET && length <= self.length;
        let cursor = self.cursor().filter(|_| is_long)?;
        let spread = Spread { buffer: self.buffer, cursor: Some(cursor), length };
        Some(Scattered::new(Box::new(spread)))
    }

    /// Its memory, if its data are contiguous.
    #[inline]
    pub(crate) fn memory(&self) -> Option<Buffer> {
        self.spread.is_none().then_some(self.buffer)
    }
}

/// The location of elements whose data may have gaps. It fits two registers, so that an area is not
/// loaded from parts that were stored a moment ago.
enum Placement {
    /// Contiguous, from this address on.
    Block(Buffer),
    /// At the displacements of the type.
    Spread(Datatype),
}

impl Placement {
    #[cold]
    #[inline(never)]
    fn checked(
        buffer: Buffer,
        elements: u64,
        datatype: &Type,
        length: usize,
    ) -> Result<Placement, Failure> {
        let datatype = &datatype.datatype;
        if !datatype.is_committed() {
            return Err(Failure::new(Class::Type, "the datatype was not committed"));
        }
        // MPI_BOTTOM is allowed: displacements may be addresses.
        if !buffer.is_memory() && buffer.address() != 0 && length > 0 {
            return Err(buffer.not_memory(length));
        }
        // Check now, not while the data are moved, that all of the data are addressable.
        Cursor::new(datatype, elements)?;
        Ok(Placement::of(buffer, datatype, elements))
    }

    fn of(buffer: Buffer, datatype: &Datatype, elements: u64) -> Placement {
        match datatype.program().as_block(elements) {
            Some((at, _)) => Placement::Block(buffer.at(at)),
            None => Placement::Spread(datatype.clone()),
        }
    }
}

/// The data of an area while they are changed: in place, or in a copy.
#[derive(Debug)]
pub(crate) struct Landing<'a> {
    area: &'a Area,
    there: Option<Buffer>,
    beside: Vec<u8>,
}

impl Landing<'_> {
    /// The data.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self.there {
            Some(memory) => memory.bytes_mut(self.area.length),
            None => &mut self.beside,
        }
    }

    /// Copies the data back, if they are in a copy.
    #[inline]
    pub(crate) fn finish(self) {
        if self.there.is_none() {
            self.area.put(&self.beside);
        }
    }
}

/// The predefined datatypes and their numbers in the standard.
const PREDEFINED: [(u32, Basic); 71] = [
    (0x201, Basic::Aint),
    (0x202, Basic::Count),
    (0x203, Basic::Offset),
    (0x207, Basic::Packed),
    (0x208, Basic::Short),
    (0x209, Basic::Int),
    (0x20a, Basic::Long),
    (0x20b, Basic::LongLong),
    (0x20c, Basic::UnsignedShort),
    (0x20d, Basic::Unsigned),
    (0x20e, Basic::UnsignedLong),
    (0x20f, Basic::UnsignedLongLong),
    (0x210, Basic::Float),
    (0x212, Basic::CFloatComplex),
    (0x213, Basic::CxxFloatComplex),
    (0x214, Basic::Double),
    (0x216, Basic::CDoubleComplex),
    (0x217, Basic::CxxDoubleComplex),
    (0x218, Basic::Logical),
    (0x219, Basic::Integer),
    (0x21a, Basic::Real),
    (0x21b, Basic::Complex),
    (0x21c, Basic::DoublePrecision),
    (0x21d, Basic::DoubleComplex),
    (0x21e, Basic::Character),
    (0x220, Basic::LongDouble),
    (0x224, Basic::CLongDoubleComplex),
    (0x225, Basic::CxxLongDoubleComplex),
    (0x228, Basic::FloatInt),
    (0x229, Basic::DoubleInt),
    (0x22a, Basic::LongInt),
    (0x22b, Basic::TwoInt),
    (0x22c, Basic::ShortInt),
    (0x22d, Basic::LongDoubleInt),
    (0x230, Basic::TwoReal),
    (0x231, Basic::TwoDoublePrecision),
    (0x232, Basic::TwoInteger),
    (0x238, Basic::CBool),
    (0x239, Basic::CxxBool),
    (0x23c, Basic::Wchar),
    (0x240, Basic::Int8),
    (0x241, Basic::Uint8),
    (0x243, Basic::Char),
    (0x244, Basic::SignedChar),
    (0x245, Basic::UnsignedChar),
    (0x247, Basic::Byte),
    (0x248, Basic::Int16),
    (0x249, Basic::Uint16),
    (0x250, Basic::Int32),
    (0x251, Basic::Uint32),
    (0x258, Basic::Int64),
    (0x259, Basic::Uint64),
    (0x2c0, Basic::Logical1),
    (0x2c1, Basic::Integer1),
    (0x2c8, Basic::Logical2),
    (0x2c9, Basic::Integer2),
    (0x2ca, Basic::Real2),
    // Not in the standard, but in MPICH: under numbers that the standard leaves free.
    (0x2cc, Basic::CFloat16),
    (0x2d0, Basic::Logical4),
    (0x2d1, Basic::Integer4),
    (0x2d2, Basic::Real4),
    (0x2d3, Basic::Complex4),
    (0x2d8, Basic::Logical8),
    (0x2d9, Basic::Integer8),
    (0x2da, Basic::Real8),
    (0x2db, Basic::Complex8),
    (0x2e0, Basic::Logical16),
    (0x2e1, Basic::Integer16),
    (0x2e2, Basic::Real16),
    (0x2e3, Basic::Complex16),
    (0x2eb, Basic::Complex32),
];

/// The first number of a predefined datatype, and the length of their range.
const FIRST: u32 = 0x200;
const MOST: usize = 0x100;

fn predefined() -> Vec<Option<Rc<Type>>> {
    let mut all = vec![None; MOST];
    for (number, basic) in PREDEFINED {
        let made = Type::of(basic.into());
        made.handle.set(Handle(number));
        all[(number - FIRST) as usize] = Some(Rc::new(made));
    }
    all
}

impl<D: Dialect> Mpi<D> {
    /// The datatype of a handle.
    #[inline(always)]
    pub fn datatype(&self, handle: D::Handle) -> Result<Rc<Type>, Failure> {
        self.datatype_of(D::number(Object::Type, handle))
    }

    /// The datatypes of several numbers, as components of another datatype.
    pub(crate) fn types_of(&self, numbers: &[Handle]) -> Result<Vec<Datatype>, Failure> {
        numbers.iter().map(|number| Ok(self.datatype_of(*number)?.datatype.clone())).collect()
    }

    /// The handle of a datatype: that of a predefined one, else a new one.
    pub(crate) fn handle_of(&self, datatype: Datatype) -> Result<Handle, Failure> {
        let named = datatype.named();
        if let Some((number, _)) = PREDEFINED.iter().find(|(_, basic)| Some(*basic) == named) {
            return Ok(Handle(*number));
        }
        let known = self.state.unnamed.borrow();
        if let Some(known) = known.iter().find(|known| known.datatype.is(&datatype)) {
            return Ok(known.handle.get());
        }
        let made = Rc::new(Type::of(datatype));
        let handle = self.state.types.add(Rc::clone(&made))?;
        made.handle.set(handle);
        Ok(handle)
    }

    /// The datatype of a number.
    #[inline(always)]
    pub(crate) fn datatype_of(&self, number: Handle) -> Result<Rc<Type>, Failure> {
        let at = number.0.wrapping_sub(FIRST) as usize;
        let known = self.state.predefined.get().and_then(|all| all.get(at));
        if let Some(Some(found)) = known {
            return Ok(Rc::clone(found));
        }
        self.other_datatype(number)
    }

    #[inline(never)]
    fn other_datatype(&self, number: Handle) -> Result<Rc<Type>, Failure> {
        let found = match number.0.wrapping_sub(FIRST) as usize {
            at @ 0..MOST => {
                let all = self.state.predefined.get_or_init(predefined);
                all[at].clone()
            }
            _ => self.state.types.get(number),
        };
        found.ok_or_else(|| self.no_such(Object::Type, number))
    }
}
