//! The flattened form of a datatype: loops over blocks of bytes.
//!
//! A [`Program`] drops the meaning of the bytes and keeps their locations, in packing order. Its
//! construction merges adjacent parts: neighbouring blocks, loops whose turns touch, nested loops
//! that continue at the same stride, lists of blocks at equal distances.
//!
//! ```text
//!   Block                     n bytes                      a run of memory
//!   Loop   count, stride      one body again and again     a vector, a face of an array
//!   Equal  offsets            blocks of one length         an indexed type
//!   Blocks offsets, starts    blocks of any length         a struct of numbers
//!   List   bodies, starts     anything                     a struct of vectors
//! ```
//!
//! Packed offsets are found by division (`Loop`, `Equal`) or binary search (`Blocks`, `List`), so
//! the only state between two pieces of a message is the number of bytes done. The size of a
//! program grows with the arguments of the constructors, never with their product: children are
//! shared, and only small ones are copied into the lists above them.

use std::sync::Arc;

use super::basic::LeafKind;
use super::tree::{Datatype, Shape};

/// Lists up to this length are merged into the list above, where their blocks may merge.
const SHORT: usize = 16;

/// A committed datatype in the form that packs and unpacks its elements.
#[derive(Debug)]
pub struct Program {
    body: Arc<Body>,
    extent: i64,
}

impl Program {
    pub(super) fn new(datatype: &Datatype) -> Program {
        Program { body: flatten(datatype), extent: datatype.extent() }
    }

    /// Packed bytes of one element.
    pub fn size(&self) -> u64 {
        self.body.size
    }

    /// Bytes from one element to the next.
    pub fn extent(&self) -> i64 {
        self.extent
    }

    /// Whether elements have no gaps inside or between them, and are stored in packing order.
    pub fn is_contiguous(&self) -> bool {
        let is_dense = || i64::try_from(self.body.size) == Ok(self.extent);
        self.body.size == 0 || (matches!(self.body.form, Form::Block) && is_dense())
    }

    /// The block in which `count` elements lie, if it is a single one: its displacement from the
    /// buffer's address, and its length. One element may be a single block where two are not.
    pub fn as_block(&self, count: u64) -> Option<(i64, u64)> {
        if count == 0 || self.body.size == 0 {
            return Some((0, 0));
        }
        let is_block = matches!(self.body.form, Form::Block);
        let one = is_block && (count == 1 || self.is_contiguous());
        one.then(|| Some((self.body.offset, self.body.size.checked_mul(count)?)))?
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }
}

/// Bytes in packing order.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// Added to every offset within.
    pub(super) offset: i64,
    /// Packed bytes. 0 for the empty body, which is a block.
    pub(super) size: u64,
    pub(super) form: Form,
}

#[derive(Debug, Clone)]
pub(super) enum Form {
    /// A block of `size` bytes.
    Block,
    /// `count` copies of a body, `stride` bytes apart. `count` is at least 2, and the body not
    /// empty.
    Loop { count: u64, stride: i64, body: Arc<Body> },
    /// Blocks of `length` bytes.
    Equal { length: u64, offsets: Arc<[i64]> },
    /// Blocks of any length; each ends where the next starts.
    Blocks(Arc<[Place]>),
    /// Bodies of any form; each ends where the next starts.
    List(Arc<[Item]>),
}

/// A block of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Packed bytes before it.
    pub(super) start: u64,
    pub(super) offset: i64,
}

/// A body of a list.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Packed bytes before it.
    pub(super) start: u64,
    pub(super) body: Body,
}

impl Body {
    fn empty() -> Body {
        Body::block(0, 0)
    }

    fn block(offset: i64, size: u64) -> Body {
        Body { offset, size, form: Form::Block }
    }

    fn at(mut self, displacement: i64) -> Body {
        // Displacements were checked when the type was made; those of empty types need not fit.
        self.offset = self.offset.wrapping_add(displacement);
        self
    }

    /// `count` copies of the body, `stride` bytes apart.
    fn repeated(self, count: u64, stride: i64) -> Body {
        if count == 0 || self.size == 0 {
            return Body::empty();
        }
        if count == 1 {
            return self;
        }
        let size = self.size * count;
        let offset = self.offset;
        match self.form {
            Form::Block if i64::try_from(self.size) == Ok(stride) => Body::block(offset, size),
            Form::Loop { count: within, stride: step, body }
                if i128::from(step) * i128::from(within) == i128::from(stride) =>
            {
                let form = Form::Loop { count: within * count, stride: step, body };
                Body { offset, size, form }
            }
            _ => {
                let form =
                    Form::Loop { count, stride, body: Arc::new(self.at(offset.wrapping_neg())) };
                Body { offset, size, form }
            }
        }
    }
}

/// The body of one element. The children's bodies are those of their own programs, so that each
/// type is flattened only once, even if it is part of many types.
fn flatten(datatype: &Datatype) -> Arc<Body> {
    match datatype.shape() {
        Shape::Leaf(kind) => Arc::new(leaf(*kind)),
        Shape::Same(child) => child.program().body.clone(),
        Shape::Loop { count, stride, length, child } => {
            let body = Body::clone(&child.program().body);
            let row = body.repeated(length.unsigned_abs(), child.extent());
            Arc::new(row.repeated(count.unsigned_abs(), *stride))
        }
        Shape::Parts(parts) => {
            let mut list = ListBuilder::default();
            for part in parts {
                let body = Body::clone(&part.child.program().body);
                let row = body.repeated(part.length.unsigned_abs(), part.child.extent());
                list.push(row.at(part.displacement));
            }
            Arc::new(list.finish())
        }
    }
}

fn leaf(kind: LeafKind) -> Body {
    let mut list = ListBuilder::default();
    for (basic, at) in kind.elements() {
        list.push(Body::block(i64::from(at), u64::from(basic.size())));
    }
    list.finish()
}

/// A list of bodies that merges them where possible.
#[derive(Default)]
struct ListBuilder {
    bodies: Vec<Body>,
}

impl ListBuilder {
    fn push(&mut self, body: Body) {
        let Body { offset, size, form } = &body;
        match form {
            Form::Equal { length, offsets } if offsets.len() <= SHORT => {
                for at in offsets.iter() {
                    self.push_one(Body::block(offset.wrapping_add(*at), *length));
                }
            }
            Form::Blocks(places) if places.len() <= SHORT => {
                let ends = places.iter().skip(1).map(|place| place.start).chain([*size]);
                for (place, end) in places.iter().zip(ends) {
                    let at = offset.wrapping_add(place.offset);
                    self.push_one(Body::block(at, end - place.start));
                }
            }
            Form::List(items) if items.len() <= SHORT => {
                items.iter().for_each(|item| self.push_one(item.body.clone().at(*offset)));
            }
            _ => self.push_one(body),
        }
    }

    fn push_one(&mut self, body: Body) {
        if body.size == 0 {
            return;
        }
        if let (Some(last), Form::Block) = (self.bodies.last_mut(), &body.form)
            && matches!(last.form, Form::Block)
            && i128::from(last.offset) + i128::from(last.size) == i128::from(body.offset)
        {
            last.size += body.size;
            return;
        }
        self.bodies.push(body);
    }

    fn finish(mut self) -> Body {
        if self.bodies.len() < 2 {
            return self.bodies.pop().unwrap_or_else(Body::empty);
        }
        let size = self.bodies.iter().map(|body| body.size).sum();
        let all_blocks = self.bodies.iter().all(|body| matches!(body.form, Form::Block));
        let length = self.bodies[0].size;
        if all_blocks && self.bodies.iter().all(|body| body.size == length) {
            return equal(length, self.bodies);
        }
        let mut start = 0;
        let mut next = |size: u64| {
            start += size;
            start - size
        };
        let form = if all_blocks {
            let place = |body: &Body| Place { start: next(body.size), offset: body.offset };
            Form::Blocks(self.bodies.iter().map(place).collect())
        } else {
            let item = |body: Body| Item { start: next(body.size), body };
            Form::List(self.bodies.into_iter().map(item).collect())
        };
        Body { offset: 0, size, form }
    }
}

/// Two or more blocks of one length: a loop if they are at equal distances.
fn equal(length: u64, blocks: Vec<Body>) -> Body {
    let size = length * blocks.len() as u64;
    let first = blocks[0].offset;
    let stride = blocks[1].offset.wrapping_sub(first);
    let is_regular =
        blocks.windows(2).all(|pair| pair[1].offset.wrapping_sub(pair[0].offset) == stride);
    let form = if is_regular {
        let body = Arc::new(Body::block(0, length));
        Form::Loop { count: blocks.len() as u64, stride, body }
    } else {
        let offsets = blocks.iter().map(|block| block.offset.wrapping_sub(first)).collect();
        Form::Equal { length, offsets }
    };
    Body { offset: first, size, form }
}
