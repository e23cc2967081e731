//! A test that packing and unpacking allocate nothing. It counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_mpi::datatype::{Basic, Cursor, Datatype, Order};

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator with the caller's arguments; counting
// does not change the returned pointers.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are the system's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `alloc` above with this layout, so from the system.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// The only test in this file: another test would allocate at the same time.
#[test]
fn pieces_take_no_memory() {
    let double = Datatype::from(Basic::Double);
    let row = Datatype::create_struct(&[1, 1], &[0, 12], &[double, Basic::Int.into()]);
    let row = row.expect("it fits");
    let list = Datatype::indexed(&[1, 2, 4, 1], &[9, 0, 3, 12], &row).expect("it fits");
    let grid = Datatype::subarray(&[9, 8, 7], &[4, 3, 2], &[1, 1, 1], Order::C, &list);
    let grid = grid.expect("it fits");
    let (_, high) = grid.true_span(3).expect("it fits").expect("it has data");
    let mut memory = vec![1; high as usize];
    let mut packed = vec![0; 3 * grid.size() as usize];
    let mut cursor = Cursor::new(&grid, 3).expect("it fits");

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for piece in packed.chunks_mut(77) {
        cursor.pack_slice(&memory, 0, piece).expect("it lies within");
    }
    cursor.seek(0);
    for piece in packed.chunks(91) {
        cursor.unpack_slice(piece, &mut memory, 0).expect("it lies within");
    }
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(after - before, 0);
    assert!(packed.iter().all(|byte| *byte == 1));
}
