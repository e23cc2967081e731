//! Arguments of C that are pointers, and the code that dereferences them.
//!
//! For every pointer the program promises what the standard says of the argument: it is null, one
//! of the constants, or points to as much memory as the function reads or writes. Only null can be
//! checked here. The types below keep a pointer together with its purpose. A function of a shared
//! library creates each, and it is used before that function returns; a buffer is used until the
//! operation that holds it is complete.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::slice;
use std::sync::Arc;

use hikyaku_msg::{Pieces, RecvBuffer, SendBuffer};
use hikyaku_nic::ring::copy;

use crate::datatype::{self, Cursor, Datatype, DatatypeError};
use crate::dialect::{Dialect, Handle, Object, Status, UNDEFINED};
use crate::failure::{Class, Failure};

/// Memory of the program from which messages are sent or into which they are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer(*mut u8);

impl Buffer {
    /// No memory.
    pub const NULL: Buffer = Buffer(std::ptr::null_mut());

    /// Wraps the program's pointer.
    #[inline]
    pub fn new(start: *mut u8) -> Buffer {
        Buffer(start)
    }

    /// Its address.
    #[inline]
    pub fn address(self) -> usize {
        self.0.expose_provenance()
    }

    /// The address `bytes` further on.
    #[inline]
    pub fn at(self, bytes: i64) -> Buffer {
        if self.0.is_null() {
            // MPI_BOTTOM: displacements are addresses that MPI_Get_address has returned.
            return Buffer(std::ptr::with_exposed_provenance_mut(bytes as usize));
        }
        Buffer(self.0.wrapping_offset(bytes as isize))
    }

    /// Whether it is MPI_IN_PLACE.
    #[inline]
    pub fn is_in_place<D: Dialect>(self) -> bool {
        self.address() == D::IN_PLACE
    }

    /// Whether it can be memory: it is neither null nor a constant with another meaning. The check
    /// covers both binary interfaces, because neither has memory at the other's constant.
    #[inline]
    pub(crate) fn is_memory(self) -> bool {
        self.address().wrapping_add(1) > 2
    }

    /// Checks the argument of this name, which should be `length` bytes of memory.
    ///
    /// # Errors
    /// It is null or a constant, and `length` is not 0.
    pub(crate) fn needed(self, length: usize, argument: &str) -> Result<Buffer, Failure> {
        if length == 0 || self.is_memory() {
            return Ok(self);
        }
        Err(self.not_memory(length).named(argument))
    }

    /// The failure for a buffer that is not memory.
    #[cold]
    pub(crate) fn not_memory(self, length: usize) -> Failure {
        let what = if self.address() == 0 { "a null pointer" } else { "MPI_IN_PLACE" };
        Failure::new(Class::Buffer, format!("the buffer of {length} bytes is {what}"))
    }

    /// Checks an argument that must not be null.
    ///
    /// # Errors
    /// It is null.
    pub fn not_null(self, argument: &str) -> Result<Buffer, Failure> {
        if self.0.is_null() { Err(Failure::null(argument)) } else { Ok(self) }
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn bytes<'a>(self, length: usize) -> &'a [u8] {
        if length == 0 {
            return &[];
        }
        // SAFETY: the program promised memory of this length, and not to write it meanwhile.
        unsafe { slice::from_raw_parts(self.0, length) }
    }

    /// Its bytes, for writing.
    #[inline]
    pub(crate) fn bytes_mut<'a>(self, length: usize) -> &'a mut [u8] {
        if length == 0 {
            return &mut [];
        }
        // SAFETY: the program promised memory of this length for this call alone.
        unsafe { slice::from_raw_parts_mut(self.0, length) }
    }

    /// Its bytes for a send that continues after this call.
    #[inline]
    pub(crate) fn to_send(self, length: usize) -> SendBuffer {
        // SAFETY: the program does not change the buffer until the request is complete (MPI 5.0
        // §3.7.2).
        unsafe { SendBuffer::new(self.0, length) }
    }

    /// Its bytes for a receive that continues after this call.
    #[inline]
    pub(crate) fn to_receive(self, length: usize) -> RecvBuffer {
        // SAFETY: the program does not use the buffer until the request is complete (MPI 5.0
        // §3.7.2).
        unsafe { RecvBuffer::new(self.0, length) }
    }

    /// Packs bytes from the cursor's position on, as many as `into` has room for.
    pub(crate) fn pack(self, cursor: &mut Cursor, into: &mut [u8]) {
        // SAFETY: the program promised the memory of all elements, and `into` is the library's.
        unsafe { cursor.pack(self.0, into) };
    }

    /// Unpacks `from` at the cursor's position.
    pub(crate) fn unpack(self, cursor: &mut Cursor, from: &[u8]) {
        // SAFETY: the program promised the memory of all elements for this call alone.
        unsafe { cursor.unpack(from, self.0) };
    }

    /// Packs elements in `external32` from a position on.
    pub(crate) fn pack_external(
        self,
        elements: u64,
        datatype: &Datatype,
        (into, position): (&mut [u8], &mut u64),
    ) -> Result<(), DatatypeError> {
        // SAFETY: the program promised the memory of all elements, which does not overlap `into`.
        unsafe { datatype::pack_external(self.0, elements, datatype, into, position) }
    }

    /// Unpacks elements in `external32` from a position on.
    pub(crate) fn unpack_external(
        self,
        elements: u64,
        datatype: &Datatype,
        (from, position): (&[u8], &mut u64),
    ) -> Result<(), DatatypeError> {
        // SAFETY: the program promised the memory of all elements for this call alone.
        unsafe { datatype::unpack_external(from, position, self.0, elements, datatype) }
    }

    /// The start, for a function of the program.
    pub(crate) fn start(self) -> *mut u8 {
        self.0
    }
}

/// The data of a message in the program's memory: `length` packed bytes of elements, or plain
/// bytes.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    pub(crate) buffer: Buffer,
    /// `None`: the bytes are contiguous.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) length: usize,
}

// SAFETY: the program promised the memory for the operation, whichever of its threads is in MPI.
unsafe impl Send for Spread {}

// SAFETY: only the pieces that hold it change it, and only one thread has those.
unsafe impl Sync for Spread {}

impl Pieces for Spread {
    fn len(&self) -> usize {
        self.length
    }

    fn pack(&self, from: usize, into: &mut [u8]) {
        let Some(mut cursor) = self.cursor.clone() else {
            return copy(&self.buffer.bytes(self.length)[from..][..into.len()], into);
        };
        cursor.seek(from as u64);
        self.buffer.pack(&mut cursor, into);
    }

    fn unpack(&mut self, at: usize, data: &[u8]) {
        let Some(cursor) = &mut self.cursor else {
            let place = &mut self.buffer.bytes_mut(self.length)[at..];
            let length = place.len().min(data.len());
            return copy(&data[..length], &mut place[..length]);
        };
        cursor.seek(at as u64);
        self.buffer.unpack(cursor, data);
    }

    fn again(&self) -> Box<dyn Pieces> {
        Box::new(self.clone())
    }
}

/// Several spreads, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct SpreadBlocks {
    /// Each spread with the number of bytes before it.
    blocks: Arc<[(usize, Spread)]>,
    length: usize,
}

impl SpreadBlocks {
    pub(crate) fn new(blocks: impl Iterator<Item = Spread>) -> SpreadBlocks {
        let mut length = 0;
        let placed = blocks.map(|block| {
            length += block.length;
            (length - block.length, block)
        });
        let blocks = placed.collect();
        SpreadBlocks { blocks, length }
    }

    /// Calls `act` with each block that has some of the bytes from `from` to `to`, and with the
    /// range of those bytes in the block.
    fn each(&self, from: usize, to: usize, mut act: impl FnMut(&Spread, Range<usize>)) {
        let first = self.blocks.partition_point(|(start, block)| start + block.length <= from);
        for (start, block) in &self.blocks[first..] {
            if *start >= to {
                return;
            }
            let range = from.saturating_sub(*start)..block.length.min(to - start);
            act(block, range);
        }
    }
}

impl Pieces for SpreadBlocks {
    fn len(&self) -> usize {
        self.length
    }

    fn pack(&self, from: usize, into: &mut [u8]) {
        let mut rest = &mut *into;
        let to = from + rest.len();
        self.each(from, to, |block, range| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(range.len());
            block.pack(range.start, here);
            rest = after;
        });
    }

    fn unpack(&mut self, at: usize, data: &[u8]) {
        let mut rest = data;
        self.each(at, at + data.len(), |block, range| {
            let (here, after) = rest.split_at(range.len());
            block.clone().unpack(range.start, here);
            rest = after;
        });
    }

    fn again(&self) -> Box<dyn Pieces> {
        Box::new(self.clone())
    }
}

/// The address to which a value is written.
#[derive(Debug, Clone, Copy)]
pub struct Out<T> {
    at: *mut T,
    turn: fn(T) -> T,
}

impl<T: Copy> Out<T> {
    /// Wraps the argument of this name.
    ///
    /// # Errors
    /// It is null.
    #[inline]
    pub fn new(at: *mut T, argument: &str) -> Result<Out<T>, Failure> {
        if at.is_null() { Err(Failure::null(argument)) } else { Ok(Out { at, turn: |it| it }) }
    }

    /// Converts the value with `turn` before it is written, for values with other numbers.
    #[inline]
    #[must_use]
    pub fn mapped(self, turn: fn(T) -> T) -> Out<T> {
        Out { turn, ..self }
    }

    /// Writes the value.
    #[inline]
    pub fn set(self, value: T) {
        let value = (self.turn)(value);
        // SAFETY: not null, and the program promised room for one value.
        unsafe { self.at.write(value) }
    }

    /// Reads the value.
    #[inline]
    pub fn get(self) -> T {
        // SAFETY: not null, and the program promised a value.
        unsafe { self.at.read() }
    }
}

impl Out<c_int> {
    /// Writes a flag.
    #[inline]
    pub fn set_flag(self, flag: bool) {
        self.set(c_int::from(flag));
    }
}

/// The address of a number that is an `int` or longer, depending on the function.
#[derive(Debug, Clone, Copy)]
pub enum NumberAt {
    /// An `int`.
    Small(Out<c_int>),
    /// 64 bits.
    Large(Out<i64>),
}

impl NumberAt {
    /// The address of an `int`.
    ///
    /// # Errors
    /// It is null.
    #[inline]
    pub fn small(at: *mut c_int, argument: &str) -> Result<NumberAt, Failure> {
        Ok(NumberAt::Small(Out::new(at, argument)?))
    }

    /// The address of a 64-bit number.
    ///
    /// # Errors
    /// It is null.
    #[inline]
    pub fn large(at: *mut i64, argument: &str) -> Result<NumberAt, Failure> {
        Ok(NumberAt::Large(Out::new(at, argument)?))
    }

    /// Writes a number, or MPI_UNDEFINED if it does not fit (MPI 5.0 §3.2.5).
    pub fn set(self, value: i64) {
        match self {
            NumberAt::Small(at) => at.set(c_int::try_from(value).unwrap_or(UNDEFINED)),
            NumberAt::Large(at) => at.set(value),
        }
    }

    /// Reads the number.
    pub fn get(self) -> i64 {
        match self {
            NumberAt::Small(at) => at.get().into(),
            NumberAt::Large(at) => at.get(),
        }
    }
}

/// A list of numbers of the program.
#[derive(Debug, Clone)]
pub enum Numbers {
    /// Each number is an `int`.
    Small(*const c_int),
    /// Each number has 64 bits.
    Large(*const i64),
    /// A copy.
    Kept(Rc<[i64]>),
}

impl Numbers {
    /// A list of `int`.
    pub fn small(at: *const c_int) -> Numbers {
        Numbers::Small(at)
    }

    /// A list of 64-bit numbers.
    pub fn large(at: *const i64) -> Numbers {
        Numbers::Large(at)
    }

    fn is_null(&self) -> bool {
        self.address() == Some(0)
    }

    /// The list's address, which may be a constant with a special meaning; `None` for a copy.
    pub(crate) fn address(&self) -> Option<usize> {
        match self {
            Numbers::Small(at) => Some(at.addr()),
            Numbers::Large(at) => Some(at.addr()),
            Numbers::Kept(_) => None,
        }
    }

    /// A copy of `count` numbers, if any. For an operation that starts after the call.
    ///
    /// # Errors
    /// As [`Numbers::all`].
    pub fn kept(&self, count: usize, argument: &str) -> Result<Numbers, Failure> {
        if self.is_null() {
            return Ok(self.clone());
        }
        Ok(Numbers::Kept(self.all(count, argument)?.into()))
    }

    /// The first `count` numbers.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub fn all(&self, count: usize, argument: &str) -> Result<Vec<i64>, Failure> {
        self.check(count, argument)?;
        Ok((0..count).map(|at| self.get(at)).collect())
    }

    /// Checks that `count` numbers can be read.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub(crate) fn check(&self, count: usize, argument: &str) -> Result<(), Failure> {
        if count > 0 && self.is_null() { Err(Failure::null(argument)) } else { Ok(()) }
    }

    /// One number, after [`Numbers::check`].
    pub(crate) fn get(&self, at: usize) -> i64 {
        match self {
            Numbers::Kept(numbers) => numbers.get(at).copied().unwrap_or(0),
            Numbers::Small(start) => {
                // SAFETY: not null, and the program promised as many as the function reads.
                i64::from(unsafe { start.wrapping_add(at).read() })
            }
            Numbers::Large(start) => {
                // SAFETY: as above.
                unsafe { start.wrapping_add(at).read() }
            }
        }
    }
}

/// The address of a list of numbers to write.
#[derive(Debug, Clone, Copy)]
pub enum NumbersAt {
    /// Each number is an `int`.
    Small(*mut c_int),
    /// Each number has 64 bits.
    Large(*mut i64),
}

impl NumbersAt {
    /// A list of `int`.
    pub fn small(at: *mut c_int) -> NumbersAt {
        NumbersAt::Small(at)
    }

    /// A list of 64-bit numbers.
    pub fn large(at: *mut i64) -> NumbersAt {
        NumbersAt::Large(at)
    }

    /// Writes one number.
    pub fn set(self, at: usize, value: i64) {
        match self {
            NumbersAt::Small(start) if !start.is_null() => {
                let value = c_int::try_from(value).unwrap_or(UNDEFINED);
                // SAFETY: not null, and the program promised room for as many as are written.
                unsafe { start.wrapping_add(at).write(value) }
            }
            NumbersAt::Large(start) if !start.is_null() => {
                // SAFETY: as above.
                unsafe { start.wrapping_add(at).write(value) }
            }
            _ => {}
        }
    }

    /// Checks that `count` numbers can be written.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub(crate) fn check(self, count: usize, argument: &str) -> Result<(), Failure> {
        if count > 0 && self.address() == 0 { Err(Failure::null(argument)) } else { Ok(()) }
    }

    /// Writes several numbers from the first place on.
    ///
    /// # Errors
    /// The pointer is null, and there is at least one number.
    pub(crate) fn fill(
        self,
        values: impl ExactSizeIterator<Item = i64>,
        argument: &str,
    ) -> Result<(), Failure> {
        self.check(values.len(), argument)?;
        values.enumerate().for_each(|(at, value)| self.set(at, value));
        Ok(())
    }

    /// The list's address, which may be a constant with a special meaning.
    pub(crate) fn address(self) -> usize {
        match self {
            NumbersAt::Small(start) => start.addr(),
            NumbersAt::Large(start) => start.addr(),
        }
    }

    /// The same list, for reading.
    pub(crate) fn to_read(self) -> Numbers {
        match self {
            NumbersAt::Small(start) => Numbers::Small(start),
            NumbersAt::Large(start) => Numbers::Large(start),
        }
    }
}

/// The address of a handle.
#[derive(Debug)]
pub struct HandleAt<D: Dialect> {
    object: Object,
    at: *mut D::Handle,
}

impl<D: Dialect> HandleAt<D> {
    /// Wraps the argument of this name.
    ///
    /// # Errors
    /// It is null.
    #[inline]
    pub fn new(object: Object, at: *mut D::Handle, argument: &str) -> Result<Self, Failure> {
        if at.is_null() { Err(Failure::null(argument)) } else { Ok(HandleAt { object, at }) }
    }

    /// The handle.
    #[inline]
    pub fn get(&self) -> Handle {
        // SAFETY: not null, and the program promised a handle.
        D::number(self.object, unsafe { self.at.read() })
    }

    /// Writes a handle.
    #[inline]
    pub fn set(&self, number: Handle) {
        let handle = D::handle(self.object, number);
        // SAFETY: not null, and the program promised room for a handle.
        unsafe { self.at.write(handle) }
    }

    /// Writes the null handle.
    pub fn set_null(&self) {
        self.set(Handle::null(self.object));
    }

    /// Writes the null handle first, because programs read the handle even if the call fails.
    pub fn nulled(self) -> HandleAt<D> {
        self.set_null();
        self
    }
}

/// The address of a list of handles.
#[derive(Debug)]
pub struct HandlesAt<D: Dialect> {
    object: Object,
    start: *mut D::Handle,
}

impl<D: Dialect> HandlesAt<D> {
    /// Wraps the program's pointer.
    pub fn new(object: Object, start: *mut D::Handle) -> HandlesAt<D> {
        HandlesAt { object, start }
    }

    /// Checks that `count` handles can be accessed.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub fn check(&self, count: usize, argument: &str) -> Result<(), Failure> {
        if count > 0 && self.start.is_null() { Err(Failure::null(argument)) } else { Ok(()) }
    }

    /// The address of one handle, after [`HandlesAt::check`].
    #[inline]
    pub fn at(&self, at: usize) -> HandleAt<D> {
        HandleAt { object: self.object, at: self.start.wrapping_add(at) }
    }
}

/// A list of handles of the program, for reading.
#[derive(Debug)]
pub struct Handles<D: Dialect>(HandlesAt<D>);

impl<D: Dialect> Clone for Handles<D> {
    fn clone(&self) -> Self {
        Handles(HandlesAt::new(self.0.object, self.0.start))
    }
}

impl<D: Dialect> Handles<D> {
    /// Wraps the program's pointer.
    pub fn new(object: Object, start: *const D::Handle) -> Handles<D> {
        Handles(HandlesAt::new(object, start.cast_mut()))
    }

    /// The first `count` handles.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub fn all(&self, count: usize, argument: &str) -> Result<Vec<Handle>, Failure> {
        self.check(count, argument)?;
        Ok((0..count).map(|at| self.get(at)).collect())
    }

    /// Checks that `count` handles can be read.
    ///
    /// # Errors
    /// The pointer is null, and `count` is not 0.
    pub(crate) fn check(&self, count: usize, argument: &str) -> Result<(), Failure> {
        self.0.check(count, argument)
    }

    /// One handle, after [`Handles::check`].
    pub(crate) fn get(&self, at: usize) -> Handle {
        self.0.at(at).get()
    }
}

/// The address of a list of statuses to write, unless the program ignores them.
#[derive(Debug)]
pub struct StatusesAt<D: Dialect> {
    start: Option<*mut D::Status>,
    dialect: PhantomData<D>,
}

impl<D: Dialect> StatusesAt<D> {
    /// Wraps the program's pointer.
    #[inline]
    pub fn new(start: *mut D::Status) -> StatusesAt<D> {
        let is_ignored = start.addr() == D::STATUS_IGNORE;
        StatusesAt { start: (!is_ignored).then_some(start), dialect: PhantomData }
    }

    /// Wraps a pointer that must not be ignored.
    ///
    /// # Errors
    /// It is null, or MPI_STATUS_IGNORE.
    pub fn needed(start: *mut D::Status, argument: &str) -> Result<StatusesAt<D>, Failure> {
        if start.is_null() || start.addr() == D::STATUS_IGNORE {
            return Err(Failure::null(argument));
        }
        Ok(StatusesAt::new(start))
    }

    /// Writes one status.
    #[inline]
    pub fn set(&self, at: usize, status: Status) {
        let Some(start) = self.start.filter(|start| !start.is_null()) else { return };
        // SAFETY: not null, and the program promised room for as many as are written. Fields that
        // are not written keep their contents.
        let into = unsafe { &mut *start.wrapping_add(at) };
        D::status_out(status, into);
    }

    /// Writes the result of one operation. A message that was too long, and was received in part,
    /// also has a status (MPI 5.0 §3.2.5).
    ///
    /// # Errors
    /// The operation failed.
    #[inline]
    pub(crate) fn tell(&self, outcome: Result<Status, Failure>) -> Result<(), Failure> {
        outcome.map(|status| self.set(0, status)).inspect_err(|failure| {
            if let Some(status) = failure.received {
                self.set(0, status);
            }
        })
    }

    /// Changes the error field of a status that was written.
    pub(crate) fn set_error(&self, at: usize, error: i32) {
        if let Some(known) = self.at(at) {
            self.set(at, Status { error: Some(error), ..known });
        }
    }

    /// Reads the first status.
    pub fn get(&self) -> Option<Status> {
        self.at(0)
    }

    fn at(&self, at: usize) -> Option<Status> {
        let start = self.start.filter(|start| !start.is_null())?;
        // SAFETY: not null, and the program promised a status, or one was written there.
        Some(D::status(unsafe { &*start.wrapping_add(at) }))
    }
}

/// Reads the program's status.
///
/// # Errors
/// It is null, or MPI_STATUS_IGNORE.
pub fn status_of<D: Dialect>(at: *const D::Status, argument: &str) -> Result<Status, Failure> {
    let found = StatusesAt::<D>::needed(at.cast_mut(), argument)?;
    found.get().ok_or_else(|| Failure::null(argument))
}

/// A string of the program.
#[derive(Debug, Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// Wraps the program's pointer.
    pub fn new(start: *const c_char) -> Text {
        Text(start)
    }

    /// Reads the string, in whatever encoding.
    ///
    /// # Errors
    /// It is null.
    pub fn read(self, argument: &str) -> Result<OsString, Failure> {
        if self.0.is_null() {
            return Err(Failure::null(argument));
        }
        // SAFETY: not null, and the program promised a string that ends with 0.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(OsStr::from_bytes(text.to_bytes()).to_owned())
    }
}

/// A list of strings of the program.
#[derive(Debug, Clone, Copy)]
pub struct Texts(*const *const c_char);

impl Texts {
    /// Wraps the program's pointer.
    pub fn new(start: *const *const c_char) -> Texts {
        Texts(start)
    }

    /// The first `count` strings.
    ///
    /// # Errors
    /// A string is null, or the list is null and `count` is not 0.
    pub fn all(self, count: usize, argument: &str) -> Result<Vec<OsString>, Failure> {
        if count > 0 && self.0.is_null() {
            return Err(Failure::null(argument));
        }
        let text = |at| {
            // SAFETY: not null, and the program promised `count` strings.
            Text::new(unsafe { self.0.wrapping_add(at).read() }).read(argument)
        };
        (0..count).map(text).collect()
    }
}

/// The address to which a string is written.
#[derive(Debug, Clone, Copy)]
pub struct TextAt {
    start: *mut c_char,
    argument: &'static str,
}

impl TextAt {
    /// Wraps the argument of this name. It may be null if there is no room.
    pub fn new(start: *mut c_char, argument: &'static str) -> TextAt {
        TextAt { start, argument }
    }

    /// Writes a string and a 0 into `room` bytes, truncated if necessary. Returns the written
    /// length.
    ///
    /// # Errors
    /// The pointer is null, and `room` is not 0.
    pub fn set(self, text: impl AsRef<OsStr>, room: usize) -> Result<c_int, Failure> {
        if room > 0 && self.start.is_null() {
            return Err(Failure::null(self.argument));
        }
        let text = cut(text.as_ref(), room).as_bytes();
        let length = text.len();
        if room > 0 {
            let into = Buffer::new(self.start.cast()).bytes_mut(length + 1);
            into[..length].copy_from_slice(text);
            into[length] = 0;
        }
        Ok(length as c_int)
    }
}

/// A text, truncated to the room for it and a 0: at the end of a character, if it is UTF-8.
pub(crate) fn cut(text: &OsStr, room: usize) -> &OsStr {
    let most = text.len().min(room.saturating_sub(1));
    let length = text.to_str().map_or(most, |text| text.floor_char_boundary(most));
    OsStr::from_bytes(&text.as_bytes()[..length])
}

/// Checks a number of elements of the program.
///
/// # Errors
/// It is negative.
#[inline]
pub(crate) fn count(count: i64) -> Result<usize, Failure> {
    usize::try_from(count)
        .map_err(|_| Failure::new(Class::Count, format!("the count {count} is negative")))
}

/// Checks the length of a list or of memory. `argument` is its name.
///
/// # Errors
/// It is negative.
pub(crate) fn length(length: impl Into<i64>, argument: &str) -> Result<usize, Failure> {
    let length = length.into();
    usize::try_from(length)
        .map_err(|_| Failure::argument(format!("`{argument}` is {length}: it is negative")))
}

/// Checks a number of dimensions of the program.
///
/// # Errors
/// It is negative.
pub(crate) fn dimensions(number: i32) -> Result<usize, Failure> {
    length(number, "ndims").map_err(|failure| failure.of_class(Class::Dims))
}
