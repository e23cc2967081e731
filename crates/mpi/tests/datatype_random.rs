//! Random nested datatypes, compared with a naive walk of their type maps as defined in MPI 5.0
//! §5.1.
//!
//! The oracle writes out every type map: basic values with displacements, and the marks of resized
//! types. It computes bounds from the list and packs value by value.

use hikyaku_mpi::datatype::{
    Basic, Cursor, Datatype, DistributedDimension, Distribution, LeafKind, Order, external_size,
    packed_size,
};
use proptest::prelude::*;

/// The construction of a type.
#[derive(Debug, Clone)]
enum Model {
    Basic(Basic),
    Dup(Box<Model>),
    Contiguous(i64, Box<Model>),
    Vector(i64, i64, i64, Box<Model>),
    Hvector(i64, i64, i64, Box<Model>),
    Indexed(Vec<(i64, i64)>, Box<Model>),
    Hindexed(Vec<(i64, i64)>, Box<Model>),
    IndexedBlock(i64, Vec<i64>, Box<Model>),
    HindexedBlock(i64, Vec<i64>, Box<Model>),
    Struct(Vec<(i64, i64, Model)>),
    /// Each dimension is (size, subsize, start).
    Subarray(Vec<(i64, i64, i64)>, Order, Box<Model>),
    Darray(i64, Vec<DistributedDimension>, Order, Box<Model>),
    Resized(i64, i64, Box<Model>),
}

/// An entry of a type map.
#[derive(Debug, Clone, Copy)]
struct Entry {
    basic: Basic,
    at: i64,
}

/// A type map with its marks.
#[derive(Debug, Clone, Default)]
struct Map {
    entries: Vec<Entry>,
    lb_marks: Vec<i64>,
    ub_marks: Vec<i64>,
}

impl Map {
    fn lb(&self) -> i64 {
        let data = self.entries.iter().map(|entry| entry.at).min();
        self.lb_marks.iter().copied().min().or(data).unwrap_or(0)
    }

    fn ub(&self) -> i64 {
        if let Some(mark) = self.ub_marks.iter().copied().max() {
            return mark;
        }
        let Some(end) = self.entries.iter().map(|entry| entry.at + size_of(entry)).max() else {
            return self.lb();
        };
        let alignment = self.alignment();
        (end..).find(|ub| (ub - self.lb()) % alignment == 0).expect("one of the next is")
    }

    fn alignment(&self) -> i64 {
        let alignments = self.entries.iter().map(|entry| i64::from(entry.basic.alignment()));
        alignments.max().unwrap_or(1)
    }

    fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    fn size(&self) -> i64 {
        self.entries.iter().map(size_of).sum()
    }

    fn true_bounds(&self) -> (i64, i64) {
        let low = self.entries.iter().map(|entry| entry.at).min().unwrap_or(0);
        let high = self.entries.iter().map(|entry| entry.at + size_of(entry)).max().unwrap_or(0);
        (low, high)
    }

    /// Appends a copy that is shifted by `by`.
    fn append(&mut self, other: &Map, by: i64) {
        let moved = |entry: &Entry| Entry { at: entry.at + by, ..*entry };
        self.entries.extend(other.entries.iter().map(moved));
        self.lb_marks.extend(other.lb_marks.iter().map(|mark| mark + by));
        self.ub_marks.extend(other.ub_marks.iter().map(|mark| mark + by));
    }

    fn block(&mut self, other: &Map, length: i64, by: i64) {
        for turn in 0..length {
            self.append(other, by + turn * other.extent());
        }
    }

    fn mark(&mut self, lb: i64, ub: i64) {
        self.lb_marks = vec![lb];
        self.ub_marks = vec![ub];
    }

    /// Offsets of all bytes of `count` elements in packed order.
    fn bytes(&self, count: i64) -> Vec<i64> {
        let mut bytes = Vec::new();
        for element in 0..count {
            for entry in &self.entries {
                let start = element * self.extent() + entry.at;
                bytes.extend(start..start + size_of(entry));
            }
        }
        bytes
    }
}

fn size_of(entry: &Entry) -> i64 {
    i64::from(entry.basic.size())
}

/// The type map of a model, by the definitions of MPI 5.0 §5.1.2 to §5.1.7.
fn map_of(model: &Model) -> Map {
    let mut map = Map::default();
    match model {
        Model::Basic(basic) => {
            let entry = |(basic, at)| Entry { basic, at: i64::from(at) };
            map.entries.extend(basic.kind().elements().map(entry));
        }
        Model::Dup(old) => map = map_of(old),
        Model::Contiguous(count, old) => map.block(&map_of(old), *count, 0),
        Model::Vector(count, length, stride, old) => {
            let old = map_of(old);
            for turn in 0..*count {
                map.block(&old, *length, turn * stride * old.extent());
            }
        }
        Model::Hvector(count, length, stride, old) => {
            let old = map_of(old);
            for turn in 0..*count {
                map.block(&old, *length, turn * stride);
            }
        }
        Model::Indexed(blocks, old) => {
            let old = map_of(old);
            for (length, displacement) in blocks {
                map.block(&old, *length, displacement * old.extent());
            }
        }
        Model::Hindexed(blocks, old) => {
            let old = map_of(old);
            blocks.iter().for_each(|(length, at)| map.block(&old, *length, *at));
        }
        Model::IndexedBlock(length, displacements, old) => {
            let old = map_of(old);
            displacements.iter().for_each(|at| map.block(&old, *length, at * old.extent()));
        }
        Model::HindexedBlock(length, displacements, old) => {
            let old = map_of(old);
            displacements.iter().for_each(|at| map.block(&old, *length, *at));
        }
        Model::Struct(parts) => {
            parts.iter().for_each(|(length, at, old)| map.block(&map_of(old), *length, *at));
        }
        Model::Subarray(dims, order, old) => {
            let chosen = |dim: usize, at: i64| {
                let (_, subsize, start) = dims[dim];
                (start..start + subsize).contains(&at)
            };
            let sizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
            array(&mut map, &sizes, *order, &map_of(old), chosen);
        }
        Model::Darray(rank, dims, order, old) => {
            let sizes: Vec<i64> = dims.iter().map(|dim| dim.elements).collect();
            let owned = |dim: usize, at: i64| owner(&dims[dim], at) == place(*rank, dims, dim);
            array(&mut map, &sizes, *order, &map_of(old), owned);
        }
        Model::Resized(lb, extent, old) => {
            map = map_of(old);
            map.mark(*lb, lb + extent);
        }
    }
    map
}

/// All elements of an array whose index is chosen in each dimension, in memory order.
fn array(
    map: &mut Map,
    sizes: &[i64],
    order: Order,
    old: &Map,
    chosen: impl Fn(usize, i64) -> bool,
) {
    let total: i64 = sizes.iter().product();
    for element in 0..total {
        let mut rest = element;
        let mut all = true;
        let dims: Vec<usize> = match order {
            Order::Fortran => (0..sizes.len()).collect(),
            Order::C => (0..sizes.len()).rev().collect(),
        };
        for dim in dims {
            all &= chosen(dim, rest % sizes[dim]);
            rest /= sizes[dim];
        }
        if all {
            map.append(old, element * old.extent());
        }
    }
    map.mark(0, total * old.extent());
}

/// The place that owns an element of a dimension.
fn owner(dim: &DistributedDimension, at: i64) -> i64 {
    let block = match (dim.distribution, dim.argument) {
        (Distribution::None, _) => return 0,
        (Distribution::Cyclic, None) => 1,
        (Distribution::Block, None) => (dim.elements + dim.processes - 1) / dim.processes,
        (_, Some(argument)) => argument,
    };
    at / block % dim.processes
}

fn place(rank: i64, dims: &[DistributedDimension], dim: usize) -> i64 {
    let below: i64 = dims[dim + 1..].iter().map(|dim| dim.processes).product();
    rank / below % dims[dim].processes
}

fn make(model: &Model) -> Datatype {
    let made = match model {
        Model::Basic(basic) => return Datatype::from(*basic),
        Model::Dup(old) => Datatype::dup(&make(old)),
        Model::Contiguous(count, old) => Datatype::contiguous(*count, &make(old)),
        Model::Vector(count, length, stride, old) => {
            Datatype::vector(*count, *length, *stride, &make(old))
        }
        Model::Hvector(count, length, stride, old) => {
            Datatype::hvector(*count, *length, *stride, &make(old))
        }
        Model::Indexed(blocks, old) => {
            let (lengths, displacements): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
            Datatype::indexed(&lengths, &displacements, &make(old))
        }
        Model::Hindexed(blocks, old) => {
            let (lengths, displacements): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
            Datatype::hindexed(&lengths, &displacements, &make(old))
        }
        Model::IndexedBlock(length, displacements, old) => {
            Datatype::indexed_block(*length, displacements, &make(old))
        }
        Model::HindexedBlock(length, displacements, old) => {
            Datatype::hindexed_block(*length, displacements, &make(old))
        }
        Model::Struct(parts) => {
            let lengths: Vec<_> = parts.iter().map(|part| part.0).collect();
            let displacements: Vec<_> = parts.iter().map(|part| part.1).collect();
            let types: Vec<_> = parts.iter().map(|part| make(&part.2)).collect();
            Datatype::create_struct(&lengths, &displacements, &types)
        }
        Model::Subarray(dims, order, old) => {
            let sizes: Vec<_> = dims.iter().map(|dim| dim.0).collect();
            let subsizes: Vec<_> = dims.iter().map(|dim| dim.1).collect();
            let starts: Vec<_> = dims.iter().map(|dim| dim.2).collect();
            Datatype::subarray(&sizes, &subsizes, &starts, *order, &make(old))
        }
        Model::Darray(rank, dims, order, old) => {
            let size = dims.iter().map(|dim| dim.processes).product();
            Datatype::darray(size, *rank, dims, *order, &make(old))
        }
        Model::Resized(lb, extent, old) => Datatype::resized(*lb, *extent, &make(old)),
    };
    made.expect("it fits")
}

fn basic() -> impl Strategy<Value = Model> {
    prop_oneof![
        4 => prop::sample::select(vec![Basic::Char, Basic::Short, Basic::Int, Basic::Double]),
        1 => prop::sample::select(Basic::ALL.to_vec()),
    ]
    .prop_map(Model::Basic)
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

fn dimension() -> impl Strategy<Value = (i64, i64, i64)> {
    (1..5i64).prop_flat_map(|size| {
        (Just(size), 1..=size)
            .prop_flat_map(|(size, subsize)| (Just(size), Just(subsize), 0..=size - subsize))
    })
}

fn distributed() -> impl Strategy<Value = DistributedDimension> {
    (1..8i64, 0..5, 1..4i64, 1..4i64).prop_map(|(elements, kind, processes, argument)| {
        let (distribution, argument) = match kind {
            0 => (Distribution::None, None),
            1 => (Distribution::Block, None),
            2 => (Distribution::Block, Some((elements - 1) / processes + argument)),
            3 => (Distribution::Cyclic, None),
            _ => (Distribution::Cyclic, Some(argument)),
        };
        let processes = if kind == 0 { 1 } else { processes };
        DistributedDimension { elements, distribution, argument, processes }
    })
}

fn model() -> impl Strategy<Value = Model> {
    basic().prop_recursive(4, 24, 3, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let block = (0..4i64, -6..7i64);
        prop_oneof![
            old.clone().prop_map(Model::Dup),
            (0..4i64, old.clone()).prop_map(|(count, old)| Model::Contiguous(count, old)),
            (0..4i64, 0..4i64, -5..6i64, old.clone()).prop_map(|(count, length, stride, old)| {
                Model::Vector(count, length, stride, old)
            }),
            (0..4i64, 0..4i64, -40..41i64, old.clone()).prop_map(|(count, length, stride, old)| {
                Model::Hvector(count, length, stride, old)
            }),
            (prop::collection::vec(block, 0..5), old.clone())
                .prop_map(|(blocks, old)| Model::Indexed(blocks, old)),
            (prop::collection::vec((0..4i64, -50..51i64), 0..5), old.clone())
                .prop_map(|(blocks, old)| Model::Hindexed(blocks, old)),
            (0..3i64, prop::collection::vec(-8..9i64, 0..24), old.clone())
                .prop_map(|(length, at, old)| Model::IndexedBlock(length, at, old)),
            (0..3i64, prop::collection::vec(-50..51i64, 0..6), old.clone())
                .prop_map(|(length, at, old)| Model::HindexedBlock(length, at, old)),
            prop::collection::vec((0..3i64, -50..51i64, inner), 0..4).prop_map(Model::Struct),
            (prop::collection::vec(dimension(), 1..4), order(), old.clone())
                .prop_map(|(dims, order, old)| Model::Subarray(dims, order, old)),
            (prop::collection::vec(distributed(), 1..4), any::<u16>(), order(), old.clone())
                .prop_map(|(dims, rank, order, old)| {
                    let size: i64 = dims.iter().map(|dim| dim.processes).product();
                    Model::Darray(i64::from(rank) % size, dims, order, old)
                }),
            (-30..31i64, -20..61i64, old)
                .prop_map(|(lb, extent, old)| Model::Resized(lb, extent, old)),
        ]
    })
}

/// Models whose maps are small enough to be written out.
fn small() -> impl Strategy<Value = Model> {
    model().prop_filter("too large", |model| map_size(model) < 3_000)
}

/// An upper bound of the number of entries of a model's map, without making the map.
fn map_size(model: &Model) -> i64 {
    let product = |dims: &[i64]| dims.iter().product::<i64>();
    let sum = |blocks: &[(i64, i64)]| blocks.iter().map(|block| block.0).sum::<i64>();
    match model {
        Model::Basic(_) => 2,
        Model::Dup(old) | Model::Resized(_, _, old) => map_size(old),
        Model::Contiguous(count, old) => count * map_size(old),
        Model::Vector(count, length, _, old) | Model::Hvector(count, length, _, old) => {
            count * length * map_size(old)
        }
        Model::Indexed(blocks, old) | Model::Hindexed(blocks, old) => sum(blocks) * map_size(old),
        Model::IndexedBlock(length, at, old) | Model::HindexedBlock(length, at, old) => {
            length * at.len() as i64 * map_size(old)
        }
        Model::Struct(parts) => parts.iter().map(|part| part.0 * map_size(&part.2)).sum(),
        Model::Subarray(dims, _, old) => {
            product(&dims.iter().map(|dim| dim.0).collect::<Vec<_>>()) * map_size(old)
        }
        Model::Darray(_, dims, _, old) => {
            product(&dims.iter().map(|dim| dim.elements).collect::<Vec<_>>()) * map_size(old)
        }
    }
}

/// Memory around an origin that holds all bytes of a map, and the origin.
fn memory(bytes: &[i64]) -> (Vec<u8>, usize) {
    let low = bytes.iter().copied().min().unwrap_or(0).min(0);
    let high = bytes.iter().copied().max().unwrap_or(0) + 1;
    let noise = |at: i64| (at.wrapping_mul(0x9e37_79b9) >> 8) as u8;
    ((low..high).map(noise).collect(), low.unsigned_abs() as usize)
}

/// Piece lengths that add up to `size`, from a few numbers that repeat.
fn pieces(size: u64, lengths: &[usize]) -> Vec<usize> {
    let mut left = size as usize;
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if left == 0 {
            break;
        }
        pieces.push((*length).min(left));
        left -= (*length).min(left);
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn facts_are_those_of_the_type_map(model in small()) {
        let (map, made) = (map_of(&model), make(&model));
        prop_assert_eq!(made.size() as i64, map.size());
        prop_assert_eq!(made.lb(), map.lb());
        prop_assert_eq!(made.extent(), map.extent());
        let (low, high) = map.true_bounds();
        prop_assert_eq!((made.true_lb(), made.true_extent()), (low, high - low));
        prop_assert_eq!(i64::from(made.alignment()), map.alignment());
        prop_assert_eq!(made.elements() as usize, map.entries.len());
        let external: u32 = map.entries.iter().map(|entry| entry.basic.external_size()).sum();
        prop_assert_eq!(external_size(&made, 3), Ok(3 * u64::from(external)));
        let is_contiguous =
            map.bytes(2).windows(2).all(|pair| pair[1] == pair[0] + 1);
        prop_assert_eq!(made.is_contiguous(), is_contiguous);
        if let Some(LeafKind::One(basic)) = made.kind() {
            prop_assert!(map.entries.iter().all(|entry| entry.basic == basic));
        }
    }

    #[test]
    fn elements_and_bytes_are_counted_as_in_the_map(model in small(), count in 1..4u64) {
        let (map, made) = (map_of(&model), make(&model));
        let mut starts = vec![0u64];
        for entry in (0..count).flat_map(|_| &map.entries) {
            starts.push(starts[starts.len() - 1] + u64::from(entry.basic.size()));
        }
        let total = starts[starts.len() - 1];
        for bytes in 0..=total.min(500) {
            let found = starts.iter().position(|start| *start == bytes);
            prop_assert_eq!(made.elements_of(bytes), found.map(|at| at as u64), "{} bytes", bytes);
            let size = made.size();
            let whole = if size == 0 { Some(0) } else { (bytes % size == 0).then(|| bytes / size) };
            prop_assert_eq!(made.count_of(bytes), whole);
        }
        for (elements, bytes) in starts.iter().enumerate() {
            prop_assert_eq!(made.bytes_of(elements as u64), Some(*bytes));
        }
    }

    #[test]
    fn pieces_pack_as_the_map_does(
        model in small(),
        count in 0..9i64,
        lengths in prop::collection::vec(prop_oneof![1..70usize, 1..2000usize], 1..5),
    ) {
        let (bytes, made) = (map_of(&model).bytes(count), make(&model));
        let (memory, origin) = memory(&bytes);
        let expected: Vec<u8> =
            bytes.iter().map(|at| memory[(origin as i64 + at) as usize]).collect();
        let mut cursor = Cursor::new(&made, count as u64).unwrap();
        prop_assert_eq!(cursor.size(), packed_size(&made, count as u64).unwrap());
        let mut packed = Vec::new();
        for length in pieces(cursor.size(), &lengths) {
            let mut piece = vec![0; length];
            prop_assert_eq!(cursor.pack_slice(&memory, origin, &mut piece), Ok(length));
            packed.extend(piece);
            prop_assert_eq!(cursor.position(), packed.len() as u64);
        }
        prop_assert_eq!(cursor.remaining(), 0);
        prop_assert_eq!(cursor.pack_slice(&memory, origin, &mut [0; 9]), Ok(0));
        prop_assert_eq!(packed, expected);
    }

    #[test]
    fn pieces_unpack_as_the_map_does(
        model in small(),
        count in 0..9i64,
        lengths in prop::collection::vec(prop_oneof![1..70usize, 1..2000usize], 1..5),
    ) {
        let (bytes, made) = (map_of(&model).bytes(count), make(&model));
        let (mut memory, origin) = memory(&bytes);
        let message: Vec<u8> = (0..bytes.len()).map(|at| (at % 251) as u8).collect();
        // Overlapping data may arrive in any order: any of the values may be the last.
        let mut allowed: Vec<Vec<u8>> = memory.iter().map(|_| Vec::new()).collect();
        for (at, value) in bytes.iter().zip(&message) {
            allowed[(origin as i64 + at) as usize].push(*value);
        }
        let untouched = memory.clone();
        let mut cursor = Cursor::new(&made, count as u64).unwrap();
        let mut rest = &message[..];
        for length in pieces(cursor.size(), &lengths) {
            let (piece, later) = rest.split_at(length);
            prop_assert_eq!(cursor.unpack_slice(piece, &mut memory, origin), Ok(length));
            rest = later;
        }
        prop_assert_eq!(cursor.unpack_slice(&[1, 2], &mut memory, origin), Ok(0));
        for (at, value) in memory.iter().enumerate() {
            let is_untouched = allowed[at].is_empty() && *value == untouched[at];
            prop_assert!(is_untouched || allowed[at].contains(value), "byte {}", at);
        }
    }

    #[test]
    fn a_cursor_starts_at_any_byte(
        model in small(),
        count in 1..4i64,
        places in prop::collection::vec((any::<u32>(), 0..90usize), 1..8),
    ) {
        let (bytes, made) = (map_of(&model).bytes(count), make(&model));
        let (memory, origin) = memory(&bytes);
        let mut cursor = Cursor::new(&made, count as u64).unwrap();
        for (place, length) in places {
            let start = place as usize % (bytes.len() + 1);
            let expected = &bytes[start..bytes.len().min(start + length)];
            cursor.seek(start as u64);
            let mut piece = vec![0; length];
            prop_assert_eq!(
                cursor.pack_slice(&memory, origin, &mut piece),
                Ok(expected.len())
            );
            for (value, at) in piece.iter().zip(expected) {
                prop_assert_eq!(*value, memory[(origin as i64 + at) as usize]);
            }
            cursor.seek(start as u64);
            let mut visited = Vec::new();
            cursor.visit(length as u64, |at, length| visited.extend(at..at + length as i64));
            prop_assert_eq!(&visited[..], expected);
        }
        cursor.seek(u64::MAX);
        prop_assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn what_is_packed_unpacks_to_the_same(model in small(), count in 0..4i64) {
        let (bytes, made) = (map_of(&model).bytes(count), make(&model));
        let (source, origin) = memory(&bytes);
        let mut packed = vec![0; bytes.len()];
        let mut cursor = Cursor::new(&made, count as u64).unwrap();
        cursor.pack_slice(&source, origin, &mut packed).unwrap();
        let mut target = vec![0; source.len()];
        cursor.seek(0);
        cursor.unpack_slice(&packed, &mut target, origin).unwrap();
        let mut expected = vec![0; source.len()];
        for at in &bytes {
            let at = (origin as i64 + at) as usize;
            expected[at] = source[at];
        }
        prop_assert_eq!(target, expected);
    }
}
