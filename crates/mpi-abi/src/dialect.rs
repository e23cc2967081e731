//! The dialect of MPI 5.0 §20.2 to §20.4.

use hikyaku_mpi::{Class, Dialect, FromInt, Object, Status as Neutral};

/// A handle: a pointer that is never dereferenced.
pub(crate) type Handle = usize;

/// A handle of a file.
pub(crate) type File = usize;

/// This binary interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct This;

/// `MPI_Status` (MPI 5.0 §20.2.1).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Status {
    source: i32,
    tag: i32,
    error: i32,
    /// The low and the high half of the byte count, and whether the operation was cancelled.
    inside: [i32; 5],
}

impl Dialect for This {
    type Handle = Handle;
    type File = File;
    type Status = Status;

    const IN_PLACE: usize = 1;
    const STATUS_IGNORE: usize = 0;
    const MAX_NAMES: [usize; 2] = [256, 128];
    const ABI_VERSION: [i32; 2] = [1, 0];
    const KEYVAL_INVALID: i32 = 0;
    const FIRST_CODE: i32 = 0x4000;
    const ORDERS: [i32; 2] = [12, 15];
    const TOPOLOGIES: [i32; 3] = [211, 212, 213];
    const DISTRIBUTIONS: [i32; 4] = [16, 17, 18, 19];
    const COMBINERS: [i32; 16] =
        [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 116, 115, 113, 114];
    const TYPE_CLASSES: [i32; 4] = [192, 193, 194, 191];
    const NAME: &'static str = "MPI 5.0 ABI";

    #[inline]
    fn number(_: Object, handle: Handle) -> hikyaku_mpi::Handle {
        // A larger pointer is not one of our handles, and neither is `u32::MAX`.
        hikyaku_mpi::Handle(u32::try_from(handle).unwrap_or(u32::MAX))
    }

    #[inline]
    fn handle(_: Object, number: hikyaku_mpi::Handle) -> Handle {
        number.0 as usize
    }

    #[inline]
    fn rank(rank: i32) -> i32 {
        rank
    }

    #[inline]
    fn rank_out(rank: i32) -> i32 {
        rank
    }

    #[inline]
    fn tag(tag: i32) -> i32 {
        tag
    }

    #[inline]
    fn tag_out(tag: i32) -> i32 {
        tag
    }

    fn keyval(keyval: i32) -> i32 {
        keyval
    }

    fn thread_level(level: i32) -> i32 {
        level
    }

    fn thread_level_out(level: i32) -> i32 {
        level
    }

    fn comparison_out(comparison: i32) -> i32 {
        comparison
    }

    fn split_type(kind: i32) -> i32 {
        kind
    }

    fn class_out(class: Class) -> i32 {
        class as i32
    }

    fn class(number: i32) -> Option<Class> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Class::ALL.get(at).copied()
    }

    #[inline]
    fn status_out(status: Neutral, into: &mut Status) {
        let Neutral { source, tag, error, bytes, cancelled } = status;
        into.source = source;
        into.tag = tag;
        into.error = error.unwrap_or(into.error);
        into.inside[0] = bytes as u32 as i32;
        into.inside[1] = (bytes >> 32) as u32 as i32;
        into.inside[2] = i32::from(cancelled);
    }

    fn status(status: &Status) -> Neutral {
        let [low, high, cancelled, ..] = status.inside;
        let bytes = u64::from(low as u32) | u64::from(high as u32) << 32;
        let Status { source, tag, error, .. } = *status;
        Neutral { source, tag, error: Some(error), bytes, cancelled: cancelled != 0 }
    }
}

impl FromInt<Handle> for This {
    fn from_int(_: Object, number: i32) -> Handle {
        number as u32 as usize
    }

    fn to_int(handle: Handle) -> i32 {
        handle as i32
    }
}
