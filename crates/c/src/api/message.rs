//! Messages between two ranks, broadcast and allreduce.

use std::ffi::c_int;

use hikyaku::{ANY_SOURCE, ANY_TAG, Op, Source, Tag};

use super::{Type, number, rank_of, typed};
use crate::failure::{CallFailure, OK, answer};
use crate::pointer::{DataPointer, OutPointer, Room};
use crate::rank;

/// Any rank, or any tag.
const ANY: c_int = -1;

/// Operations.
const SUM: c_int = 1;
const PRODUCT: c_int = 2;
const MIN: c_int = 3;
const MAX: c_int = 4;

/// The header's names.
#[cfg(test)]
pub(super) const CONSTANTS: [(&str, i64); 6] = [
    ("HIKYAKU_ANY_SOURCE", ANY as i64),
    ("HIKYAKU_ANY_TAG", ANY as i64),
    ("HIKYAKU_SUM", SUM as i64),
    ("HIKYAKU_PRODUCT", PRODUCT as i64),
    ("HIKYAKU_MIN", MIN as i64),
    ("HIKYAKU_MAX", MAX as i64),
];

/// The message that a receive found: `hikyaku_received`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Received {
    source: c_int,
    tag: c_int,
    count: usize,
}

fn op_of(code: c_int) -> Result<Op, CallFailure> {
    match code {
        SUM => Ok(Op::Sum),
        PRODUCT => Ok(Op::Product),
        MIN => Ok(Op::Min),
        MAX => Ok(Op::Max),
        _ => Err(CallFailure::argument(format!(
            "{code} is no operation: use one of hikyaku.h, such as HIKYAKU_SUM"
        ))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_send(
    data: DataPointer<'_>,
    count: usize,
    element: c_int,
    to: c_int,
    tag: c_int,
) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let to = rank_of(to)?;
            typed!(Type::of(element)?, T => {
                rank.world.send(data.read::<T>(count, "data")?, to, tag)?;
            });
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_recv(
    into: Room<'_>,
    room: usize,
    element: c_int,
    from: c_int,
    tag: c_int,
    received: OutPointer<'_, Received>,
) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let from = if from == ANY { ANY_SOURCE } else { Source::from(rank_of(from)?) };
            let tag = if tag == ANY { ANY_TAG } else { Tag::from(tag) };
            typed!(Type::of(element)?, T => {
                let found = rank.world.recv(into.open::<T>(room, "into")?, from, tag)?;
                let (source, tag) = (number(found.source), found.tag);
                received.put(Received { source, tag, count: found.count::<T>() });
            });
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_broadcast(
    data: Room<'_>,
    count: usize,
    element: c_int,
    root: c_int,
) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let root = rank_of(root)?;
            typed!(Type::of(element)?, T => {
                rank.world.broadcast(data.open::<T>(count, "data")?, root)?;
            });
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_allreduce(data: Room<'_>, count: usize, element: c_int, op: c_int) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let op = op_of(op)?;
            typed!(Type::of(element)?, T => {
                rank.world.allreduce(data.open::<T>(count, "data")?, op)?;
            });
            Ok(OK)
        })
    })
}
