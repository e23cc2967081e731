//! Datatypes with results computed by hand, and every check of every constructor.

use hikyaku_mpi::datatype::{
    Basic, Combiner, Cursor, Datatype, DatatypeError, DistributedDimension, Distribution, Envelope,
    Integer, LeafKind, MAX_DEPTH, Order, Pair, TypeClass, Width,
};

const BIG: i64 = i64::MAX;

fn int() -> Datatype {
    Basic::Int.into()
}

fn double() -> Datatype {
    Basic::Double.into()
}

fn char() -> Datatype {
    Basic::Char.into()
}

/// Size, lower bound, extent, true lower bound, true extent.
fn facts(datatype: &Datatype) -> (u64, i64, i64, i64, i64) {
    let (lb, extent) = (datatype.lb(), datatype.extent());
    (datatype.size(), lb, extent, datatype.true_lb(), datatype.true_extent())
}

/// The blocks of `count` elements.
fn blocks(datatype: &Datatype, count: u64) -> Vec<(i64, u64)> {
    let mut blocks = Vec::new();
    let mut cursor = Cursor::new(datatype, count).expect("it fits");
    cursor.visit(u64::MAX, |at, length| blocks.push((at, length)));
    blocks
}

/// {(double, 0), (char, 8)}: 9 bytes, padded to 16 by the double's alignment.
fn double_char() -> Datatype {
    Datatype::create_struct(&[1, 1], &[0, 8], &[double(), char()]).expect("it fits")
}

#[test]
fn a_struct_is_padded_to_its_alignment() {
    assert_eq!(facts(&double_char()), (9, 0, 16, 0, 9));
    assert_eq!(blocks(&double_char(), 2), [(0, 9), (16, 9)]);
    assert!(!double_char().is_contiguous());
    assert_eq!(double_char().alignment(), 8);
}

#[test]
fn a_vector_of_blocks() {
    // 2 blocks of 3 elements, 4 elements apart: starts at 0 and 4 × 16 = 64, each 3 × 16 long.
    let vector = Datatype::vector(2, 3, 4, &double_char()).unwrap();
    // Last byte: 64 + 2 × 16 + 9 = 105, padded to a multiple of 8: 64 + 48 = 112.
    assert_eq!(facts(&vector), (2 * 3 * 9, 0, 112, 0, 105));
    let starts = [0, 16, 32, 64, 80, 96];
    assert_eq!(blocks(&vector, 1), starts.map(|start| (start, 9)));
    // A negative stride: -2 × 4 = -8 bytes, so elements at 0, -8, -16.
    let down = Datatype::vector(3, 1, -2, &int()).unwrap();
    assert_eq!(facts(&down), (12, -16, 20, -16, 20));
    assert_eq!(blocks(&down, 1), [(0, 4), (-8, 4), (-16, 4)]);
}

#[test]
fn an_indexed_type_keeps_its_order() {
    // Blocks of 3 at 4 and of 1 at 0: 4 × 4 = 16 to 28, then 0 to 4.
    let indexed = Datatype::indexed(&[3, 1], &[4, 0], &int()).unwrap();
    assert_eq!(facts(&indexed), (16, 0, 28, 0, 28));
    assert_eq!(blocks(&indexed, 1), [(16, 12), (0, 4)]);
}

#[test]
fn marks_are_inherited() {
    // (int, 0) with bounds -3 to 6, twice: bounds -3 to 15, data 0 to 9 + 4.
    let resized = Datatype::resized(-3, 9, &int()).unwrap();
    assert_eq!(facts(&resized), (4, -3, 9, 0, 4));
    let twice = Datatype::contiguous(2, &resized).unwrap();
    assert_eq!(facts(&twice), (8, -3, 18, 0, 13));
    // A struct with one marked part has that part's bounds only: 20 - 3 to 20 + 6.
    let mixed = Datatype::create_struct(&[1, 1], &[20, 0], &[resized, double()]).unwrap();
    assert_eq!(facts(&mixed), (12, 17, 9, 0, 24));
    // A resize replaces the marks.
    assert_eq!(facts(&Datatype::resized(0, 8, &mixed).unwrap()), (12, 0, 8, 0, 24));
}

#[test]
fn neighbours_merge_to_one_block() {
    let merged = Datatype::hindexed(&[1, 2, 1], &[8, 12, 20], &int()).unwrap();
    assert_eq!(blocks(&merged, 1), [(8, 16)]);
    // Rows that touch: 4 rows of 5 ints, 5 ints apart.
    let plane = Datatype::vector(4, 5, 5, &int()).unwrap();
    assert!(plane.is_contiguous());
    assert_eq!(plane.program().as_block(3), Some((0, 3 * 4 * 5 * 4)));
    // A single element may be one block although two are not.
    let gap = Datatype::resized(0, 12, &plane).unwrap();
    assert!(!gap.is_contiguous());
    assert_eq!(gap.program().as_block(1), Some((0, 80)));
    assert_eq!(gap.program().as_block(2), None);
    // The order matters: the same bytes in reverse order are not one block.
    let back = Datatype::hindexed(&[1, 1], &[4, 0], &int()).unwrap();
    assert_eq!((back.size() as i64, back.extent(), back.is_contiguous()), (8, 8, false));
}

#[test]
fn count_zero_gives_an_empty_type() {
    let none: [i64; 0] = [];
    let empty = [
        Datatype::contiguous(0, &int()),
        Datatype::vector(0, 3, 5, &int()),
        Datatype::vector(3, 0, 5, &int()),
        Datatype::hvector(0, 3, 5, &int()),
        Datatype::indexed(&none, &none, &int()),
        Datatype::indexed(&[0, 0], &[3, 9], &int()),
        Datatype::hindexed(&none, &none, &int()),
        Datatype::indexed_block(1, &none, &int()),
        Datatype::hindexed_block(0, &[4], &int()),
        Datatype::create_struct(&none, &none, &[]),
    ];
    for empty in empty {
        let empty = empty.unwrap();
        assert_eq!(facts(&empty), (0, 0, 0, 0, 0));
        assert_eq!(empty.kind(), None);
        assert!(empty.is_contiguous());
        assert_eq!(blocks(&empty, 5), []);
        assert_eq!(empty.count_of(0), Some(0));
        assert_eq!(
            (empty.count_of(4), empty.elements_of(4), empty.bytes_of(1)),
            (None, None, None)
        );
        assert_eq!(empty.true_span(7), Ok(None));
    }
}

#[test]
fn a_subarray_is_a_box_of_its_array() {
    // 4 × 5 ints, the box of 2 × 3 from (1, 2). In C's order row 1 starts at element 5:
    // elements 7 to 9 and 12 to 14, bytes 28 and 48. In Fortran's column 2 starts at element 8:
    // (1, 2) is 9, and columns are 4 apart: 9, 10, then 13, 14, then 17, 18.
    let make = |order| Datatype::subarray(&[4, 5], &[2, 3], &[1, 2], order, &int()).unwrap();
    assert_eq!(facts(&make(Order::C)), (24, 0, 80, 28, 32));
    assert_eq!(blocks(&make(Order::C), 1), [(28, 12), (48, 12)]);
    assert_eq!(facts(&make(Order::Fortran)), (24, 0, 80, 36, 40));
    assert_eq!(blocks(&make(Order::Fortran), 1), [(36, 8), (52, 8), (68, 8)]);
    let all = Datatype::subarray(&[4, 5], &[4, 5], &[0, 0], Order::C, &int()).unwrap();
    assert!(all.is_contiguous());
}

#[test]
fn a_darray_is_dealt_out() {
    // 10 ints over 3 processes in blocks of 2: place 1 has 2, 3 and 8, 9.
    let dimension = |distribution, argument, processes| DistributedDimension {
        elements: 10,
        distribution,
        argument,
        processes,
    };
    let one = |dimension, rank, size| {
        Datatype::darray(size, rank, &[dimension], Order::C, &int()).unwrap()
    };
    let cyclic = one(dimension(Distribution::Cyclic, Some(2), 3), 1, 3);
    assert_eq!(facts(&cyclic), (16, 0, 40, 8, 32));
    assert_eq!(blocks(&cyclic, 1), [(8, 8), (32, 8)]);
    // Blocks of (10 + 3) / 4 = 3: the last place has one element.
    let last = one(dimension(Distribution::Block, None, 4), 3, 4);
    assert_eq!(blocks(&last, 1), [(36, 4)]);
    // Blocks of 5 over 3 places: the last place is empty.
    let nothing = one(dimension(Distribution::Block, Some(5), 3), 2, 3);
    assert_eq!(facts(&nothing), (0, 0, 40, 0, 0));
    // An argument is ignored without distribution.
    let whole = one(dimension(Distribution::None, Some(-7), 1), 0, 1);
    assert!(whole.is_contiguous());
    assert_eq!(whole.size(), 40);
}

#[test]
fn pairs_are_two_elements() {
    let pair = Datatype::from(Basic::DoubleInt);
    assert_eq!(facts(&pair), (12, 0, 16, 0, 12));
    assert_eq!(pair.elements(), 2);
    assert_eq!([8, 12, 20, 24].map(|bytes| pair.elements_of(bytes)), [1, 2, 3, 4].map(Some));
    assert_eq!(pair.elements_of(9), None);
    assert_eq!(pair.bytes_of(3), Some(20));
    let wanted = Pair { value: Basic::Double, index: Basic::Int };
    assert_eq!(Datatype::contiguous(3, &pair).unwrap().kind(), Some(LeafKind::Pair(wanted)));
    // long double ends at 16, the int at 20; the struct is padded to 32.
    assert_eq!(facts(&Basic::LongDoubleInt.into()), (20, 0, 32, 0, 20));
    assert_eq!(blocks(&Basic::ShortInt.into(), 1), [(0, 2), (4, 4)]);
}

#[test]
fn the_kind_is_that_of_all_data() {
    assert_eq!(Datatype::vector(2, 1, 3, &int()).unwrap().kind(), Some(LeafKind::One(Basic::Int)));
    assert_eq!(double_char().kind(), None);
    let types = [int(), Basic::Int32.into()];
    assert_eq!(Datatype::create_struct(&[1, 1], &[0, 4], &types).unwrap().kind(), None);
    let types = [int(), Datatype::contiguous(0, &double()).unwrap()];
    let one = Datatype::create_struct(&[1, 1], &[0, 8], &types).unwrap();
    assert_eq!(one.kind(), Some(LeafKind::One(Basic::Int)));
}

#[test]
fn commit_is_of_one_type() {
    let vector = Datatype::vector(2, 1, 3, &int()).unwrap();
    let before = Datatype::dup(&vector).unwrap();
    vector.commit();
    vector.commit();
    let after = Datatype::dup(&vector).unwrap();
    assert!(int().is_committed() && vector.is_committed() && after.is_committed());
    assert!(!before.is_committed());
    assert!(vector.is(&vector.clone()) && !vector.is(&after));
    assert_eq!((int().named(), after.named()), (Some(Basic::Int), None));
    assert!(Datatype::from(Basic::Int).is(&int()));
    for basic in Basic::ALL {
        assert_eq!(Datatype::from(*basic).named(), Some(*basic));
    }
}

#[test]
fn a_type_outlives_the_one_it_is_made_of() {
    let old = Datatype::vector(2, 1, 2, &int()).unwrap();
    let new = Datatype::contiguous(2, &old).unwrap();
    drop(old);
    // The second element starts at the extent, 12.
    assert_eq!(blocks(&new, 1), [(0, 4), (8, 4), (12, 4), (20, 4)]);
    let contents = new.contents();
    assert_eq!(contents.datatypes[0].combiner(), Combiner::Vector);
}

fn numbers(values: &[i64]) -> Vec<Integer> {
    values.iter().copied().map(Integer::Number).collect()
}

#[test]
fn contents_are_the_arguments() {
    let check = |made: Result<Datatype, _>, combiner, integers: &[i64], addresses: &[i64]| {
        let made: Datatype = made.unwrap();
        let contents = made.contents();
        assert_eq!((contents.combiner, made.width()), (combiner, Width::Int));
        assert_eq!(contents.integers, numbers(integers), "{combiner:?}");
        assert_eq!(contents.addresses, addresses, "{combiner:?}");
        assert!(contents.large_counts.is_empty());
        assert!(contents.datatypes.iter().all(|old| old.is(&int())));
        // With a constructor for large counts, all of them are large counts.
        let large = made.with_large_counts();
        let contents = large.contents();
        assert_eq!(large.width(), Width::Large);
        assert_eq!(contents.large_counts, [integers, addresses].concat(), "{combiner:?}");
        assert!(contents.integers.is_empty() && contents.addresses.is_empty());
        let envelope = Envelope {
            combiner,
            integers: 0,
            addresses: 0,
            large_counts: integers.len() + addresses.len(),
            datatypes: contents.datatypes.len(),
        };
        assert_eq!(large.envelope(), envelope);
    };
    let (d, old) = (Datatype::contiguous(3, &int()), int());
    check(d, Combiner::Contiguous, &[3], &[]);
    check(Datatype::dup(&old), Combiner::Dup, &[], &[]);
    check(Datatype::vector(3, 2, -4, &old), Combiner::Vector, &[3, 2, -4], &[]);
    check(Datatype::hvector(3, 2, -4, &old), Combiner::Hvector, &[3, 2], &[-4]);
    let (lengths, at) = ([1, 2], [9, -5]);
    check(Datatype::indexed(&lengths, &at, &old), Combiner::Indexed, &[2, 1, 2, 9, -5], &[]);
    check(Datatype::hindexed(&lengths, &at, &old), Combiner::Hindexed, &[2, 1, 2], &[9, -5]);
    check(Datatype::indexed_block(7, &at, &old), Combiner::IndexedBlock, &[2, 7, 9, -5], &[]);
    check(Datatype::hindexed_block(7, &at, &old), Combiner::HindexedBlock, &[2, 7], &[9, -5]);
    let types = [int(), int()];
    check(Datatype::create_struct(&lengths, &at, &types), Combiner::Struct, &[2, 1, 2], &[9, -5]);
    check(Datatype::resized(-4, 12, &old), Combiner::Resized, &[], &[-4, 12]);
    assert_eq!(int().envelope().combiner, Combiner::Named);
    assert_eq!(int().contents().datatypes.len(), 0);
}

#[test]
fn contents_of_arrays_keep_constants_apart() {
    let array = Datatype::subarray(&[4, 5], &[2, 3], &[1, 2], Order::C, &int()).unwrap();
    let mut expected = numbers(&[2, 4, 5, 2, 3, 1, 2]);
    expected.push(Integer::Order(Order::C));
    assert_eq!(array.contents().integers, expected);
    let contents = array.with_large_counts().contents();
    assert_eq!(contents.integers, [Integer::Number(2), Integer::Order(Order::C)]);
    assert_eq!(contents.large_counts, [4, 5, 2, 3, 1, 2]);

    let dimension = |elements, distribution, argument, processes| DistributedDimension {
        elements,
        distribution,
        argument,
        processes,
    };
    let dimensions = [
        dimension(10, Distribution::Cyclic, Some(2), 3),
        dimension(6, Distribution::None, None, 1),
    ];
    let array = Datatype::darray(3, 1, &dimensions, Order::Fortran, &int()).unwrap();
    let rest = [
        Integer::Distribution(Distribution::Cyclic),
        Integer::Distribution(Distribution::None),
        Integer::Number(2),
        Integer::DefaultArgument,
        Integer::Number(3),
        Integer::Number(1),
        Integer::Order(Order::Fortran),
    ];
    let expected = [&numbers(&[3, 1, 2, 10, 6])[..], &rest].concat();
    assert_eq!(array.contents().integers, expected);
    let contents = array.with_large_counts().contents();
    assert_eq!(contents.integers, [&numbers(&[3, 1, 2])[..], &rest].concat());
    assert_eq!(contents.large_counts, [10, 6]);
}

#[test]
fn fortran_kinds_are_found_by_their_digits() {
    let size = |made: Result<Datatype, DatatypeError>| made.map(|made| made.size()).ok();
    let integers = [1, 3, 9, 10, 38, 39].map(|range| size(Datatype::f90_integer(range)));
    assert_eq!(integers, [Some(1), Some(2), Some(4), Some(8), Some(16), None]);
    let cases = [
        (Some(6), Some(37), Some(4)),
        (Some(7), None, Some(8)),
        (None, Some(308), Some(16)),
        (Some(34), None, None),
        (None, None, None),
    ];
    for (precision, range, expected) in cases {
        assert_eq!(size(Datatype::f90_real(precision, range)), expected);
        let complex = size(Datatype::f90_complex(precision, range));
        assert_eq!(complex, expected.map(|size| 2 * size));
    }
    let made = Datatype::f90_real(Some(7), None).unwrap();
    assert_eq!(made.contents().integers, [Integer::Number(7), Integer::Undefined]);
    assert!(made.is_committed());
    assert_eq!(Datatype::match_size(TypeClass::Real, 8).unwrap().named(), Some(Basic::Real8));
}

/// The text of an error.
fn line(made: Result<Datatype, DatatypeError>) -> String {
    made.map(|made| facts(&made)).expect_err("it is wrong").to_string()
}

#[test]
fn wrong_arguments_are_named_with_their_values() {
    let old = &int();
    let negative = |argument| format!("{argument} is -1: it must be 0 or more");
    assert_eq!(line(Datatype::contiguous(-1, old)), negative("count"));
    assert_eq!(line(Datatype::vector(-1, 1, 1, old)), negative("count"));
    assert_eq!(line(Datatype::vector(1, -1, 1, old)), negative("blocklength"));
    assert_eq!(line(Datatype::hvector(-1, 1, 1, old)), negative("count"));
    assert_eq!(line(Datatype::hvector(1, -1, 1, old)), negative("blocklength"));
    assert_eq!(line(Datatype::indexed_block(-1, &[0], old)), negative("blocklength"));
    assert_eq!(line(Datatype::hindexed_block(-1, &[0], old)), negative("blocklength"));
    let element = "array_of_blocklengths[1] is -2: it must be 0 or more";
    assert_eq!(line(Datatype::indexed(&[1, -2], &[0, 0], old)), element);
    assert_eq!(line(Datatype::hindexed(&[1, -2], &[0, 0], old)), element);
    let types = [int(), int()];
    assert_eq!(line(Datatype::create_struct(&[1, -2], &[0, 0], &types)), element);
    let short = "array_of_displacements has 1 elements where 2 are needed";
    assert_eq!(line(Datatype::indexed(&[1, 2], &[0], old)), short);
    assert_eq!(line(Datatype::hindexed(&[1, 2], &[0], old)), short);
    assert_eq!(line(Datatype::create_struct(&[1, 2], &[0], &types)), short);
    let short = "array_of_types has 2 elements where 1 are needed";
    assert_eq!(line(Datatype::create_struct(&[1], &[0], &types)), short);
    let no_size = "size is 3: no predefined integer datatype has it";
    assert_eq!(line(Datatype::match_size(TypeClass::Integer, 3)), no_size);
    assert_eq!(
        line(Datatype::f90_real(Some(99), None)),
        "no Fortran real kind has precision p = 99"
    );
    assert_eq!(
        line(Datatype::f90_real(None, None)),
        "no Fortran real kind has undefined precision p and range r"
    );
}

#[test]
fn wrong_subarrays_are_refused() {
    let make = |sizes: &[i64], subsizes: &[i64], starts: &[i64]| {
        line(Datatype::subarray(sizes, subsizes, starts, Order::C, &int()))
    };
    assert_eq!(make(&[], &[], &[]), format!("ndims is 0: it must be 1 to {BIG}"));
    let short = "array_of_subsizes has 1 elements where 2 are needed";
    assert_eq!(make(&[2, 2], &[1], &[0, 0]), short);
    let short = "array_of_starts has 1 elements where 2 are needed";
    assert_eq!(make(&[2, 2], &[1, 1], &[0]), short);
    assert_eq!(make(&[0], &[1], &[0]), format!("array_of_sizes[0] is 0: it must be 1 to {BIG}"));
    assert_eq!(make(&[4, 4], &[1, 0], &[0, 0]), "array_of_subsizes[1] is 0: it must be 1 to 4");
    assert_eq!(make(&[4, 4], &[1, 5], &[0, 0]), "array_of_subsizes[1] is 5: it must be 1 to 4");
    assert_eq!(make(&[4], &[3], &[2]), "array_of_starts[0] is 2: it must be 0 to 1");
    assert_eq!(make(&[4], &[3], &[-1]), "array_of_starts[0] is -1: it must be 0 to 1");
    assert_eq!(
        make(&[BIG, 2], &[1, 1], &[0, 0]),
        "the extent of the datatype does not fit 64 bits"
    );
}

#[test]
fn wrong_darrays_are_refused() {
    let make = |size, rank, elements, distribution, argument, processes| {
        let dimension = DistributedDimension { elements, distribution, argument, processes };
        line(Datatype::darray(size, rank, &[dimension], Order::C, &int()))
    };
    let none = Datatype::darray(1, 0, &[], Order::C, &int());
    assert_eq!(line(none), format!("ndims is 0: it must be 1 to {BIG}"));
    let block = Distribution::Block;
    let to = format!("it must be 1 to {BIG}");
    assert_eq!(make(0, 0, 4, block, None, 1), format!("size is 0: {to}"));
    assert_eq!(make(2, 2, 4, block, None, 2), "rank is 2: it must be 0 to 1");
    assert_eq!(make(2, -1, 4, block, None, 2), "rank is -1: it must be 0 to 1");
    assert_eq!(make(2, 0, 0, block, None, 2), format!("array_of_gsizes[0] is 0: {to}"));
    assert_eq!(make(2, 0, 4, block, None, 0), format!("array_of_psizes[0] is 0: {to}"));
    assert_eq!(make(2, 0, 4, block, Some(0), 2), format!("array_of_dargs[0] is 0: {to}"));
    assert_eq!(
        make(2, 0, 4, Distribution::None, None, 2),
        "array_of_psizes[0] is 2: it must be 1 to 1"
    );
    assert_eq!(
        make(2, 0, 9, block, Some(4), 2),
        "array_of_dargs[0] is 4: 2 such blocks do not hold the 9 elements of dimension 0"
    );
    assert_eq!(
        make(2, 0, 9, block, None, 3),
        "the product of array_of_psizes is 3: it must be size, 2"
    );
}

#[test]
fn what_does_not_fit_64_bits_is_refused() {
    let overflow = |what: &str| format!("{what} of the datatype does not fit 64 bits");
    let old = &double();
    assert_eq!(line(Datatype::contiguous(BIG, old)), overflow("the span"));
    assert_eq!(line(Datatype::vector(2, 1, BIG, old)), overflow("a displacement"));
    assert_eq!(line(Datatype::hvector(3, 1, BIG, old)), overflow("the span"));
    assert_eq!(line(Datatype::hvector(BIG, BIG, 0, old)), overflow("the span"));
    assert_eq!(line(Datatype::hvector(BIG, 1, 0, old)), overflow("the size"));
    let still = Datatype::resized(0, 0, old).unwrap();
    assert_eq!(line(Datatype::hvector(BIG, BIG, 0, &still)), overflow("the number of elements"));
    assert_eq!(line(Datatype::indexed(&[1], &[BIG], old)), overflow("a displacement"));
    assert_eq!(line(Datatype::indexed_block(1, &[-BIG], old)), overflow("a displacement"));
    assert_eq!(line(Datatype::hindexed(&[1], &[BIG - 7], old)), overflow("the upper bound"));
    assert_eq!(line(Datatype::hindexed(&[2], &[BIG], old)), overflow("the span"));
    let ends = Datatype::hindexed(&[1, 1], &[-BIG, BIG - 8], old);
    assert_eq!(line(ends), overflow("the upper bound"));
    let marked = Datatype::resized(0, 8, old).unwrap();
    let ends = Datatype::hindexed(&[1, 1], &[-BIG, BIG - 8], &marked);
    assert_eq!(line(ends), overflow("the true extent"));
    assert_eq!(line(Datatype::resized(BIG, 1, old)), overflow("the upper bound"));
    let half = Datatype::contiguous(1 << 59, old).unwrap();
    assert_eq!(half.extent(), 1 << 62);
    assert_eq!(line(Datatype::contiguous(2, &half)), overflow("the size"));
    assert!(Cursor::new(&half, 1).is_ok());
    assert!(Cursor::new(&half, 2).is_err());
    assert_eq!(half.true_span(4), Err(DatatypeError::Overflow { what: "the span" }));
}

#[test]
fn levels_of_types_are_limited() {
    let mut made = int();
    for _ in 1..MAX_DEPTH {
        made = Datatype::dup(&made).unwrap();
    }
    assert_eq!(facts(&made), (4, 0, 4, 0, 4));
    assert!(made.is_contiguous());
    let limit = format!("the datatype is made of {} levels of datatypes: 512 are supported", 513);
    assert_eq!(line(Datatype::dup(&made)), limit);
}

#[test]
fn sharing_does_not_make_programs_large() {
    // Each level contains the one below twice, with a gap: 2^40 blocks, which no list may contain.
    let mut made = int();
    for level in 0..40 {
        let at = [0, made.extent() + 4 * (level % 3 + 1)];
        made = Datatype::create_struct(&[1, 1], &at, &[made.clone(), made.clone()]).unwrap();
    }
    assert_eq!(made.size(), 4 << 40);
    let mut cursor = Cursor::new(&made, 1).unwrap();
    cursor.seek(made.size() - 4);
    let mut last = Vec::new();
    cursor.visit(100, |at, length| last.push((at, length)));
    assert_eq!(last, [(made.true_extent() - 4, 4)]);
}

/// Memory that holds `count` elements and their origin, with a pattern; and the origin.
fn memory_of(datatype: &Datatype, count: u64) -> (Vec<u8>, usize) {
    let (low, high) = datatype.true_span(count).expect("it fits").expect("it has data");
    let low = low.min(0);
    ((low..high).map(|at| (at ^ (at >> 8)) as u8).collect(), low.unsigned_abs() as usize)
}

#[test]
fn large_tables_are_packed_and_unpacked_row_by_row() {
    // More rows than one tile of columns, with rows of every form.
    let (ragged, short): (Vec<i64>, Vec<i64>) = ((0..9).map(|at| 5 - at).collect(), vec![1, 2, 9]);
    let rows = [
        Datatype::create_struct(&[1, 1], &[0, 12], &[double(), int()]),
        Datatype::vector(3, 1, -2, &int()),
        Datatype::vector(2, 100, 101, &char()),
        Datatype::indexed_block(1, &short, &double()),
        Datatype::hindexed(
            &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[90, 80, 70, 60, 50, 40, 30, 20, 0],
            &char(),
        ),
        Datatype::indexed(&[1, 2, 1], &[0, 3, 9], &double()),
        Ok(Basic::LongDoubleInt.into()),
        Datatype::indexed_block(1, &ragged, &Basic::Short.into()),
    ];
    const COUNT: u64 = 3_001;
    for row in rows {
        let row = row.unwrap();
        for row in [Datatype::resized(0, row.true_extent() + 3, &row).unwrap(), row] {
            let (memory, origin) = memory_of(&row, COUNT);
            let mut cursor = Cursor::new(&row, COUNT).unwrap();
            let mut expected = Vec::new();
            let one = blocks(&row, 1);
            for element in 0..COUNT as i64 {
                for (at, length) in &one {
                    let start = (origin as i64 + element * row.extent() + at) as usize;
                    expected.extend_from_slice(&memory[start..start + *length as usize]);
                }
            }
            let mut packed = vec![0; expected.len() + 1];
            assert_eq!(cursor.pack_slice(&memory, origin, &mut packed), Ok(expected.len()));
            packed.pop();
            assert_eq!(packed, expected);
            let mut back = vec![0; memory.len()];
            cursor.seek(0);
            for piece in packed.chunks(20_001) {
                cursor.unpack_slice(piece, &mut back, origin).unwrap();
            }
            cursor.seek(0);
            let mut again = vec![0; expected.len()];
            cursor.pack_slice(&back, origin, &mut again).unwrap();
            assert_eq!(again, expected);
        }
    }
}

#[test]
fn the_deepest_type_packs_and_is_dropped() {
    // Each level puts a char before the level below, so 511 levels have 511 chars and an int.
    let mut made = int();
    for _ in 1..MAX_DEPTH {
        let at = made.extent() + 8;
        made = Datatype::create_struct(&[1, 1], &[at, 0], &[char(), made]).unwrap();
    }
    assert_eq!((made.size(), made.elements()), (511 + 4, 512));
    assert_eq!(made.elements_of(511), Some(511));
    let (memory, origin) = memory_of(&made, 2);
    let mut packed = vec![0; 2 * 515];
    let mut cursor = Cursor::new(&made, 2).unwrap();
    for piece in packed.chunks_mut(7) {
        cursor.pack_slice(&memory, origin, piece).unwrap();
    }
    // The last int of an element lies at its start.
    let second = origin + made.extent() as usize;
    assert_eq!(packed[511..515], memory[origin..origin + 4]);
    assert_eq!(packed[515 + 511..], memory[second..second + 4]);
}
