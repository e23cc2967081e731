//! The walk through a program: from a packed offset to another, block by block.
//!
//! A walk allocates nothing and has no state between two pieces: it finds its first block from the
//! packed offset, with a division or a binary search per level. A [`Mover`] processes the blocks.
//! Bodies that are walked from end to end, nearly all of them, need no division.

use super::program::{Body, Form, Place};

/// Processes the blocks of a walk, which come in packing order. Offsets are bytes from the buffer's
/// address.
pub(super) trait Mover {
    /// One block.
    fn block(&mut self, offset: i64, length: u64);

    /// `count` blocks that are `stride` apart.
    fn strided(&mut self, offset: i64, stride: i64, count: u64, length: u64);

    /// A block at each of `offsets`, all of them from `origin`.
    fn scattered(&mut self, origin: i64, offsets: &[i64], length: u64);

    /// A table: many turns of the same few blocks. A mover may process it column by column, which
    /// is not the packing order. Only data that overlaps itself could show the difference, and
    /// receiving such data is erroneous (MPI 5.0 §5.1.11).
    fn table(&mut self, rows: Rows, columns: impl Iterator<Item = Column> + Clone);
}

/// The turns of a table.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The offset of the first.
    pub(super) origin: i64,
    /// The distance between turns.
    pub(super) stride: i64,
    pub(super) count: u64,
    /// Packed bytes per turn.
    pub(super) size: u64,
}

/// The block of a column, present in each turn of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Packed bytes of the turn before it.
    pub(super) start: u64,
    /// The offset from the start of the turn.
    pub(super) offset: i64,
    pub(super) length: u64,
}

/// Turns of at most so many blocks and bytes are processed as tables: in them the loop over the
/// blocks of a turn costs more than the copies.
const TABLE_COLUMNS: u64 = 16;
const TABLE_BYTES: u64 = 512;
/// Loops of more turns than this are faster with the kernel for strides.
const SHORT_LOOP: u64 = 8;
/// Fewer turns are not processed as a table.
const TABLE_ROWS: u64 = 4;

/// `count` copies of a body, `stride` bytes apart: elements in a buffer, or turns of a loop.
#[derive(Clone, Copy)]
pub(super) struct Turns<'a> {
    pub(super) body: &'a Body,
    pub(super) stride: i64,
    /// The offset of the first turn.
    pub(super) origin: i64,
}

impl Turns<'_> {
    fn origin_of(&self, turn: u64) -> i64 {
        // The offset of a turn with data was checked to fit. Arithmetic modulo 2^64 is exact
        // anyway.
        self.origin.wrapping_add(self.stride.wrapping_mul(turn as i64))
    }

    /// Walks the packed bytes `from..to` of all turns.
    pub(super) fn part(&self, from: u64, to: u64, mover: &mut impl Mover) {
        if from >= to {
            return;
        }
        let size = self.body.size;
        if matches!(self.body.form, Form::Block) && self.stride == size as i64 {
            let offset = self.origin.wrapping_add(self.body.offset).wrapping_add(from as i64);
            return mover.block(offset, to - from);
        }
        let (mut first, skip) = (from / size, from % size);
        let (last, rest) = (to / size, to % size);
        if first == last {
            return part(self.body, self.origin_of(first), skip, rest, mover);
        }
        if skip > 0 {
            part(self.body, self.origin_of(first), skip, size, mover);
            first += 1;
        }
        self.whole(first, last, mover);
        if rest > 0 {
            part(self.body, self.origin_of(last), 0, rest, mover);
        }
    }

    /// Walks the turns `first..last` from end to end.
    fn whole(&self, first: u64, last: u64, mover: &mut impl Mover) {
        if first == last {
            return;
        }
        if let Form::Block = self.body.form {
            let offset = self.origin_of(first).wrapping_add(self.body.offset);
            if last - first == 1 {
                return mover.block(offset, self.body.size);
            }
            return mover.strided(offset, self.stride, last - first, self.body.size);
        }
        if last - first >= TABLE_ROWS && self.body.size <= TABLE_BYTES {
            let origin = self.origin_of(first).wrapping_add(self.body.offset);
            let (stride, size) = (self.stride, self.body.size);
            let rows = Rows { origin, stride, count: last - first, size };
            if table(&self.body.form, rows, mover) {
                return;
            }
        }
        for turn in first..last {
            whole(self.body, self.origin_of(turn), mover);
        }
    }
}

/// Walks turns of a form that is a row of few blocks. Returns whether it is such a form.
fn table(form: &Form, rows: Rows, mover: &mut impl Mover) -> bool {
    match form {
        Form::Loop { count, stride, body }
            if *count <= SHORT_LOOP && matches!(body.form, Form::Block) =>
        {
            let column = |turn: u64| Column {
                start: turn * body.size,
                offset: body.offset.wrapping_add(stride.wrapping_mul(turn as i64)),
                length: body.size,
            };
            mover.table(rows, (0..*count).map(column));
        }
        Form::Equal { length, offsets } if offsets.len() as u64 <= TABLE_COLUMNS => {
            let column = |(at, offset): (usize, &i64)| Column {
                start: at as u64 * length,
                offset: *offset,
                length: *length,
            };
            mover.table(rows, offsets.iter().enumerate().map(column));
        }
        Form::Blocks(places) if places.len() as u64 <= TABLE_COLUMNS => {
            let ends = places[1..].iter().map(|place| place.start).chain([rows.size]);
            let column = |(place, end): (&Place, u64)| Column {
                start: place.start,
                offset: place.offset,
                length: end - place.start,
            };
            mover.table(rows, places.iter().zip(ends).map(column));
        }
        _ => return false,
    }
    true
}

/// Walks a body from end to end.
fn whole(body: &Body, origin: i64, mover: &mut impl Mover) {
    let origin = origin.wrapping_add(body.offset);
    match &body.form {
        Form::Block => mover.block(origin, body.size),
        Form::Loop { count, stride, body } => {
            Turns { body, stride: *stride, origin }.whole(0, *count, mover);
        }
        Form::Equal { length, offsets } => mover.scattered(origin, offsets, *length),
        Form::Blocks(places) => {
            let ends = places[1..].iter().map(|place| place.start).chain([body.size]);
            for (place, end) in places.iter().zip(ends) {
                mover.block(origin.wrapping_add(place.offset), end - place.start);
            }
        }
        Form::List(items) => items.iter().for_each(|item| whole(&item.body, origin, mover)),
    }
}

/// Walks the packed bytes `from..to` of a body, at least one.
fn part(body: &Body, origin: i64, from: u64, to: u64, mover: &mut impl Mover) {
    if from == 0 && to == body.size {
        return whole(body, origin, mover);
    }
    let origin = origin.wrapping_add(body.offset);
    match &body.form {
        Form::Block => mover.block(origin.wrapping_add(from as i64), to - from),
        Form::Loop { stride, body, .. } => {
            Turns { body, stride: *stride, origin }.part(from, to, mover);
        }
        Form::Equal { length, offsets } => {
            part_of_equal(*length, offsets, origin, (from, to), mover);
        }
        Form::Blocks(places) => {
            let first = places.partition_point(|place| place.start <= from) - 1;
            let ends = places[first + 1..].iter().map(|place| place.start).chain([body.size]);
            let blocks = places[first..].iter().zip(ends);
            for (place, end) in blocks.take_while(|(place, _)| place.start < to) {
                let (low, high) = (from.max(place.start), to.min(end));
                let within = origin.wrapping_add(place.offset);
                mover.block(within.wrapping_add((low - place.start) as i64), high - low);
            }
        }
        Form::List(items) => {
            let first = items.partition_point(|item| item.start <= from) - 1;
            for item in items[first..].iter().take_while(|item| item.start < to) {
                let low = from.max(item.start) - item.start;
                let high = (to - item.start).min(item.body.size);
                part(&item.body, origin, low, high, mover);
            }
        }
    }
}

fn part_of_equal(
    length: u64,
    offsets: &[i64],
    origin: i64,
    (from, to): (u64, u64),
    mover: &mut impl Mover,
) {
    let (mut first, skip) = ((from / length) as usize, from % length);
    let (last, rest) = ((to / length) as usize, to % length);
    let at =
        |block: usize, within: u64| origin.wrapping_add(offsets[block]).wrapping_add(within as i64);
    if first == last {
        return mover.block(at(first, skip), rest - skip);
    }
    if skip > 0 {
        mover.block(at(first, skip), length - skip);
        first += 1;
    }
    mover.scattered(origin, &offsets[first..last], length);
    if rest > 0 {
        mover.block(at(last, 0), rest);
    }
}
