//! Datatypes beyond 2 and 4 GiB, in memory that is reserved and hardly touched, and by address
//! arithmetic alone.

use hikyaku_mpi::datatype::{Basic, Cursor, Datatype};

const GIB: i64 = 1 << 30;

#[test]
fn strides_of_a_gibibyte_reach_far_memory() {
    // Zeroed memory of this size takes no pages until they are written.
    let mut memory = vec![0u8; 3 * GIB as usize];
    let old = Datatype::from(Basic::Int);
    let vector = Datatype::hvector(3, 2, GIB, &old).unwrap();
    for turn in 0..3 {
        for at in 0..8 {
            memory[turn * GIB as usize + at] = (10 * turn + at) as u8;
        }
    }
    let expected: Vec<u8> = (0..3).flat_map(|turn| (0..8).map(move |at| 10 * turn + at)).collect();
    let mut packed = vec![0; 24];
    let mut cursor = Cursor::new(&vector, 1).unwrap();
    assert_eq!(cursor.pack_slice(&memory, 0, &mut packed), Ok(24));
    assert_eq!(packed, expected);

    // Backwards from the last block, all but the last byte.
    let down = Datatype::hvector(3, 2, -GIB, &old).unwrap();
    let mut cursor = Cursor::new(&down, 1).unwrap();
    let origin = 2 * GIB as usize;
    assert_eq!(cursor.unpack_slice(&[77; 23], &mut memory, origin), Ok(23));
    assert_eq!(memory[origin..origin + 8], [77; 8]);
    assert_eq!(memory[..8], [77, 77, 77, 77, 77, 77, 77, 7]);
}

/// The block at a packed offset.
fn block_at(cursor: &mut Cursor, position: u64, bytes: u64) -> Vec<(i64, u64)> {
    let mut blocks = Vec::new();
    cursor.seek(position);
    cursor.visit(bytes, |at, length| blocks.push((at, length)));
    blocks
}

#[test]
fn a_cursor_finds_its_place_among_petabytes() {
    // 2^20 planes of 2^20 blocks of 8 bytes at stride 16, planes 2^30 apart; 2^10 elements, 2^51
    // apart. Block b of plane p of element e lies at e × 2^51 + p × 2^30 + b × 16.
    let double = Datatype::from(Basic::Double);
    let plane = Datatype::vector(1 << 20, 1, 2, &double).unwrap();
    let planes = Datatype::hvector(1 << 20, 1, GIB, &plane).unwrap();
    let element = Datatype::resized(0, 1 << 51, &planes).unwrap();
    let mut cursor = Cursor::new(&element, 1 << 10).unwrap();
    assert_eq!(cursor.size(), 8 << 50);
    for (e, p, b) in [(0, 0, 0), (1, 2, 3), (1023, 77, (1 << 20) - 1), (512, (1 << 20) - 1, 9)] {
        let position = ((e << 40) + (p << 20) + b) * 8;
        let at = (e << 51) + (p << 30) + b * 16;
        assert_eq!(block_at(&mut cursor, position + 3, 5), [(at as i64 + 3, 5)]);
    }
    let end = (1023i64 << 51) + (((1 << 20) - 1) << 30) + (((1 << 20) - 1) * 16);
    let size = cursor.size();
    assert_eq!(block_at(&mut cursor, size - 8, 100), [(end, 8)]);
}

#[test]
fn counts_beyond_32_bits_are_exact() {
    let char = Datatype::from(Basic::Char);
    let many = Datatype::contiguous(5 * GIB, &char).unwrap();
    assert_eq!((many.size(), many.extent()), (5 << 30, 5 * GIB));
    assert_eq!(many.program().as_block(3), Some((0, 15 << 30)));
    assert_eq!(many.count_of(10 << 30), Some(2));
    assert_eq!(many.elements_of((5 << 30) + 1), Some((5 << 30) + 1));
    let mut cursor = Cursor::new(&many, 3).unwrap();
    assert_eq!(block_at(&mut cursor, 4 << 30, 3 << 30), [(4 * GIB, 3 << 30)]);
}

#[test]
fn lists_are_searched_and_not_walked() {
    // A million blocks, alternately of 4 and 8 bytes, 32 bytes apart: block 2k is at packed 12 k.
    let lengths: Vec<i64> = (0..1_000_000).map(|at| 1 + at % 2).collect();
    let displacements: Vec<i64> = (0..1_000_000).map(|at| 8 * at).collect();
    let list = Datatype::indexed(&lengths, &displacements, &Basic::Int.into()).unwrap();
    let mut cursor = Cursor::new(&list, 1_000_000).unwrap();
    for element in [0u64, 1, 999_999] {
        for pair in [0u64, 1, 77_777, 499_999] {
            let position = element * list.size() + pair * 12;
            let at = element as i64 * list.extent() + pair as i64 * 64;
            assert_eq!(block_at(&mut cursor, position, 12), [(at, 4), (at + 32, 8)]);
            assert_eq!(block_at(&mut cursor, position + 5, 2), [(at + 33, 2)]);
        }
    }
}
