//! The dialect of MPICH's binary interface, with the numbers of its `mpi.h`.

use hikyaku_mpi::{
    ANY_SOURCE, ANY_TAG, Class, Dialect, FromInt, Object, PROC_NULL, ROOT, Status as Neutral,
    UNDEFINED,
};

/// A handle.
pub(crate) type Handle = i32;

/// A handle of a file: a pointer, null for no file.
pub(crate) type File = usize;

/// This binary interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct This;

/// `MPI_Status`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Status {
    low: i32,
    /// The upper bits of the byte count, above a bit for whether the operation was cancelled.
    high_and_cancelled: i32,
    source: i32,
    tag: i32,
    error: i32,
}

/// Predefined handles: MPICH's number, and that of MPI 5.0 §20.3.
const HANDLES: [(u32, u32); 101] = [
    (0x04000000, 0x100),
    (0x44000000, 0x101),
    (0x44000001, 0x102),
    (0x08000000, 0x108),
    (0x48000000, 0x109),
    (0x0c000000, 0x200),
    (0x18000000, 0x020),
    (0x58000001, 0x023),
    (0x58000002, 0x022),
    (0x58000003, 0x021),
    (0x58000004, 0x024),
    (0x58000005, 0x030),
    (0x58000006, 0x028),
    (0x58000007, 0x031),
    (0x58000008, 0x029),
    (0x58000009, 0x032),
    (0x5800000a, 0x02a),
    (0x5800000b, 0x038),
    (0x5800000c, 0x039),
    (0x5800000d, 0x03c),
    (0x5800000e, 0x03d),
    (0x1c000000, 0x130),
    (0x5c000001, 0x131),
    (0x14000000, 0x140),
    (0x54000000, 0x141),
    (0x54000003, 0x142),
    (0x54000001, 0x143),
    (0x20000000, 0x110),
    (0x38000000, 0x120),
    (0x6c000000, 0x129),
    // Datatypes.
    (0x4c000101, 0x243),
    (0x4c000102, 0x245),
    (0x4c000203, 0x208),
    (0x4c000204, 0x20c),
    (0x4c000405, 0x209),
    (0x4c000406, 0x20d),
    (0x4c000807, 0x20a),
    (0x4c000808, 0x20e),
    (0x4c000809, 0x20b),
    (0x4c00040a, 0x210),
    (0x4c00080b, 0x214),
    (0x4c00100c, 0x220),
    (0x4c00010d, 0x247),
    (0x4c00040e, 0x23c),
    (0x4c00010f, 0x207),
    (0x8c000000, 0x228),
    (0x8c000001, 0x229),
    (0x8c000002, 0x22a),
    (0x8c000003, 0x22c),
    (0x4c000816, 0x22b),
    (0x8c000004, 0x22d),
    (0x4c000118, 0x244),
    (0x4c000819, 0x20f),
    (0x4c00011a, 0x21e),
    (0x4c00041b, 0x219),
    (0x4c00041c, 0x21a),
    (0x4c00041d, 0x218),
    (0x4c00081e, 0x21b),
    (0x4c00081f, 0x21c),
    (0x4c000820, 0x232),
    (0x4c000821, 0x230),
    (0x4c001022, 0x21d),
    (0x4c001023, 0x231),
    (0x4c000226, 0x2ca),
    (0x4c000246, 0x2cc),
    (0x4c000427, 0x2d2),
    (0x4c000828, 0x2db),
    (0x4c000829, 0x2da),
    (0x4c00102a, 0x2e3),
    (0x4c00102b, 0x2e2),
    (0x4c00202c, 0x2eb),
    (0x4c00012d, 0x2c1),
    (0x4c00042e, 0x2d3),
    (0x4c00022f, 0x2c9),
    (0x4c000430, 0x2d1),
    (0x4c000831, 0x2d9),
    (0x4c001032, 0x2e1),
    (0x4c000133, 0x239),
    (0x4c000834, 0x213),
    (0x4c001035, 0x217),
    (0x4c002036, 0x225),
    (0x4c000137, 0x240),
    (0x4c000238, 0x248),
    (0x4c000439, 0x250),
    (0x4c00083a, 0x258),
    (0x4c00013b, 0x241),
    (0x4c00023c, 0x249),
    (0x4c00043d, 0x251),
    (0x4c00083e, 0x259),
    (0x4c00013f, 0x238),
    (0x4c000840, 0x212),
    (0x4c001041, 0x216),
    (0x4c002042, 0x224),
    (0x4c000843, 0x201),
    (0x4c000844, 0x203),
    (0x4c000845, 0x202),
    (0x4c000147, 0x2c0),
    (0x4c000248, 0x2c8),
    (0x4c000449, 0x2d0),
    (0x4c00084a, 0x2d8),
    (0x4c00104b, 0x2e0),
];

/// The place of a number of MPICH's in [`STANDARD`]: the upper bits are the kind of object and
/// whether it is predefined, the lowest ones its index. A type's size is between them.
const fn place(number: u32) -> usize {
    ((number >> 26 << 7) | (number & 0x7F)) as usize
}

/// The entries of [`HANDLES`] by place. The others are 0, which no object has in either form.
static STANDARD: [(u32, u32); 36 << 7] = {
    let mut all = [(0, 0); 36 << 7];
    let mut at = 0;
    while at < HANDLES.len() {
        let free = &mut all[place(HANDLES[at].0)];
        assert!(free.0 == 0, "two numbers have one place");
        *free = HANDLES[at];
        at += 1;
    }
    all
};

/// MPICH's number of each predefined handle, by that of the standard; 0 for the others.
static MPICH: [u32; 1024] = {
    let mut all = [0; 1024];
    let mut at = 0;
    while at < HANDLES.len() {
        all[HANDLES[at].1 as usize] = HANDLES[at].0;
        at += 1;
    }
    all
};

/// The null handle of requests. Null messages have the same number.
const REQUEST_NULL: i32 = 0x2c00_0000;

/// MPICH's numbers of the error classes, in the standard's order.
const CLASSES: [i32; 62] = [
    1, 2, 3, 4, 5, 6, 19, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 17, 20, 21, 53, 22, 46, 23, 52,
    24, 25, 26, 27, 29, 31, 30, 28, 32, 48, 47, 33, 34, 35, 36, 37, 38, 39, 40, 56, 49, 55, 57, 50,
    41, 51, 42, 43, 44, 45, 58, 76, 77, 75, 80, 81,
];

/// The levels of thread support, as the standard's interface numbers them.
const LEVELS: [i32; 4] = [0, 1024, 2048, 4096];

/// MPICH's predefined attribute keys, in the order of the standard's, which start at 501.
const KEYS: [i32; 7] =
    [0x6440_0001, 0x6440_0005, 0x6440_0003, 0x6440_0007, 0x6440_000d, 0x6440_000b, 0x6440_0009];
const FIRST_KEY: i32 = 501;

impl Dialect for This {
    type Handle = Handle;
    type File = File;
    type Status = Status;

    const IN_PLACE: usize = usize::MAX;
    const STATUS_IGNORE: usize = 1;
    const MAX_NAMES: [usize; 2] = [128, 128];
    // This library does not implement the standard's ABI.
    const ABI_VERSION: [i32; 2] = [-1, -1];
    const KEYVAL_INVALID: i32 = 0x2400_0000;
    const FIRST_CODE: i32 = 0x4000_0000;
    const ORDERS: [i32; 2] = [56, 57];
    const TOPOLOGIES: [i32; 3] = [2, 1, 3];
    const DISTRIBUTIONS: [i32; 4] = [123, 121, 122, -49767];
    const COMBINERS: [i32; 16] = [1, 2, 3, 4, 6, 7, 9, 10, 19, 12, 13, 14, 18, 17, 15, 16];
    const TYPE_CLASSES: [i32; 4] = [2, 1, 3, i32::MIN];
    const NAME: &'static str = "MPICH ABI";

    #[inline]
    fn number(object: Object, handle: Handle) -> hikyaku_mpi::Handle {
        let number = handle as u32;
        if matches!(object, Object::Request | Object::Message) && handle == REQUEST_NULL {
            return hikyaku_mpi::Handle::null(object);
        }
        let known = STANDARD.get(place(number)).filter(|(here, _)| *here == number);
        hikyaku_mpi::Handle(known.map_or(number, |(_, there)| *there))
    }

    #[inline]
    fn handle(object: Object, number: hikyaku_mpi::Handle) -> Handle {
        if number == hikyaku_mpi::Handle::null(object)
            && matches!(object, Object::Request | Object::Message)
        {
            return REQUEST_NULL;
        }
        let known = MPICH.get(number.0 as usize).filter(|here| **here != 0);
        known.map_or(number.0, |here| *here) as i32
    }

    #[inline]
    fn rank(rank: i32) -> i32 {
        match rank {
            -1 => PROC_NULL,
            -2 => ANY_SOURCE,
            -3 => ROOT,
            other => other,
        }
    }

    #[inline]
    fn rank_out(rank: i32) -> i32 {
        match rank {
            PROC_NULL => -1,
            ANY_SOURCE => -2,
            ROOT => -3,
            other => other,
        }
    }

    #[inline]
    fn tag(tag: i32) -> i32 {
        match tag {
            -1 => ANY_TAG,
            -2 => i32::MIN,
            other => other,
        }
    }

    #[inline]
    fn tag_out(tag: i32) -> i32 {
        if tag == ANY_TAG { -1 } else { tag }
    }

    fn keyval(keyval: i32) -> i32 {
        let at = KEYS.iter().position(|key| *key == keyval);
        at.map_or(keyval, |at| FIRST_KEY + at as i32)
    }

    fn thread_level(level: i32) -> i32 {
        LEVELS[level.clamp(0, 3) as usize]
    }

    fn thread_level_out(level: i32) -> i32 {
        LEVELS.iter().rposition(|it| *it <= level).unwrap_or(0) as i32
    }

    fn comparison_out(comparison: i32) -> i32 {
        comparison - 201
    }

    fn split_type(kind: i32) -> i32 {
        match kind {
            UNDEFINED => UNDEFINED,
            1 | 4 => 220 + kind,
            // The standard's interface has the guided kinds in the other order.
            2 | 3 => 225 - kind,
            other => -other,
        }
    }

    fn class_out(class: Class) -> i32 {
        CLASSES[class as usize - 1]
    }

    fn class(number: i32) -> Option<Class> {
        Class::ALL.get(CLASSES.iter().position(|class| *class == number)?).copied()
    }

    #[inline]
    fn status_out(status: Neutral, into: &mut Status) {
        let Neutral { source, tag, error, bytes, cancelled } = status;
        into.source = Self::rank_out(source);
        into.tag = Self::tag_out(tag);
        into.error = error.unwrap_or(into.error);
        into.low = bytes as u32 as i32;
        into.high_and_cancelled = ((bytes >> 32) as i32) << 1 | i32::from(cancelled);
    }

    fn status(status: &Status) -> Neutral {
        let Status { low, high_and_cancelled, source, tag, error } = *status;
        Neutral {
            source: Self::rank(source),
            tag: Self::tag(tag),
            error: Some(error),
            bytes: u64::from(low as u32) | u64::from(high_and_cancelled as u32 >> 1) << 32,
            cancelled: high_and_cancelled & 1 != 0,
        }
    }
}

impl FromInt<Handle> for This {
    fn from_int(_: Object, number: i32) -> Handle {
        number
    }

    fn to_int(handle: Handle) -> i32 {
        handle
    }
}

impl FromInt<File> for This {
    fn from_int(_: Object, number: i32) -> File {
        number as u32 as usize
    }

    fn to_int(handle: File) -> i32 {
        handle as i32
    }
}
