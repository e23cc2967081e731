//! The construction of a datatype: its envelope and its contents (MPI 5.0 §5.1.13).
//!
//! Constants such as MPI_ORDER_C have different numbers in each binary interface. So integers that
//! are constants are values of enums here ([`Integer`]).

use super::basic::Basic;
use super::tree::Datatype;

/// The constructor that made a type (MPI 5.0 §5.1.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combiner {
    /// MPI_COMBINER_NAMED: a predefined type.
    Named,
    /// MPI_COMBINER_DUP.
    Dup,
    /// MPI_COMBINER_CONTIGUOUS.
    Contiguous,
    /// MPI_COMBINER_VECTOR.
    Vector,
    /// MPI_COMBINER_HVECTOR.
    Hvector,
    /// MPI_COMBINER_INDEXED.
    Indexed,
    /// MPI_COMBINER_HINDEXED.
    Hindexed,
    /// MPI_COMBINER_INDEXED_BLOCK.
    IndexedBlock,
    /// MPI_COMBINER_HINDEXED_BLOCK.
    HindexedBlock,
    /// MPI_COMBINER_STRUCT.
    Struct,
    /// MPI_COMBINER_SUBARRAY.
    Subarray,
    /// MPI_COMBINER_DARRAY.
    Darray,
    /// MPI_COMBINER_RESIZED.
    Resized,
    /// MPI_COMBINER_F90_INTEGER.
    F90Integer,
    /// MPI_COMBINER_F90_REAL.
    F90Real,
    /// MPI_COMBINER_F90_COMPLEX.
    F90Complex,
}

/// The order of an array in memory (MPI 5.0 §5.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// MPI_ORDER_C: the last dimension is contiguous.
    C,
    /// MPI_ORDER_FORTRAN: the first dimension is contiguous.
    Fortran,
}

/// How a dimension of an array is distributed (MPI 5.0 §5.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// MPI_DISTRIBUTE_NONE.
    None,
    /// MPI_DISTRIBUTE_BLOCK.
    Block,
    /// MPI_DISTRIBUTE_CYCLIC.
    Cyclic,
}

/// An integer argument of a constructor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Integer {
    /// A number.
    Number(i64),
    /// The order of an array.
    Order(Order),
    /// The distribution of a dimension.
    Distribution(Distribution),
    /// MPI_DISTRIBUTE_DFLT_DARG.
    DefaultArgument,
    /// MPI_UNDEFINED.
    Undefined,
}

/// Whether a constructor took `int` counts or large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Counts are `int`, byte displacements are MPI_Aint.
    Int,
    /// A constructor with the suffix `_c`: counts and displacements are MPI_Count.
    Large,
}

/// Lengths of the arrays in [`Contents`] (MPI_Type_get_envelope).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The constructor.
    pub combiner: Combiner,
    /// Number of integers.
    pub integers: usize,
    /// Number of addresses.
    pub addresses: usize,
    /// Number of large counts.
    pub large_counts: usize,
    /// Number of datatypes.
    pub datatypes: usize,
}

/// The arguments with which a type was made (MPI_Type_get_contents), in the standard's order.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Integers and constants.
    pub integers: Vec<Integer>,
    /// Addresses of a constructor with `int` counts.
    pub addresses: Vec<i64>,
    /// Counts and addresses of a constructor with large counts.
    pub large_counts: Vec<i64>,
    /// Datatypes.
    pub datatypes: Vec<Datatype>,
}

/// One dimension of an array that is distributed over a process grid (MPI 5.0 §5.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistributedDimension {
    /// Elements of the global array (`gsize`).
    pub elements: i64,
    /// How they are distributed (`distrib`).
    pub distribution: Distribution,
    /// The distribution's argument; `None` is MPI_DISTRIBUTE_DFLT_DARG (`darg`).
    pub argument: Option<i64>,
    /// Processes of the grid (`psize`).
    pub processes: i64,
}

/// A constructor with its arguments.
#[derive(Debug, Clone)]
pub(super) enum Construction {
    Named(Basic),
    Dup(Datatype),
    Contiguous {
        count: i64,
        old: Datatype,
    },
    Vector {
        count: i64,
        length: i64,
        stride: i64,
        old: Datatype,
    },
    Hvector {
        count: i64,
        length: i64,
        stride: i64,
        old: Datatype,
    },
    Indexed {
        lengths: Vec<i64>,
        displacements: Vec<i64>,
        old: Datatype,
    },
    Hindexed {
        lengths: Vec<i64>,
        displacements: Vec<i64>,
        old: Datatype,
    },
    IndexedBlock {
        length: i64,
        displacements: Vec<i64>,
        old: Datatype,
    },
    HindexedBlock {
        length: i64,
        displacements: Vec<i64>,
        old: Datatype,
    },
    Struct {
        lengths: Vec<i64>,
        displacements: Vec<i64>,
        types: Vec<Datatype>,
    },
    Subarray {
        sizes: Vec<i64>,
        subsizes: Vec<i64>,
        starts: Vec<i64>,
        order: Order,
        old: Datatype,
    },
    Darray {
        size: i64,
        rank: i64,
        dimensions: Vec<DistributedDimension>,
        order: Order,
        old: Datatype,
    },
    Resized {
        lb: i64,
        extent: i64,
        old: Datatype,
    },
    F90Integer {
        range: i64,
    },
    F90Real {
        precision: Option<i64>,
        range: Option<i64>,
    },
    F90Complex {
        precision: Option<i64>,
        range: Option<i64>,
    },
}

impl Construction {
    fn combiner(&self) -> Combiner {
        match self {
            Construction::Named(_) => Combiner::Named,
            Construction::Dup(_) => Combiner::Dup,
            Construction::Contiguous { .. } => Combiner::Contiguous,
            Construction::Vector { .. } => Combiner::Vector,
            Construction::Hvector { .. } => Combiner::Hvector,
            Construction::Indexed { .. } => Combiner::Indexed,
            Construction::Hindexed { .. } => Combiner::Hindexed,
            Construction::IndexedBlock { .. } => Combiner::IndexedBlock,
            Construction::HindexedBlock { .. } => Combiner::HindexedBlock,
            Construction::Struct { .. } => Combiner::Struct,
            Construction::Subarray { .. } => Combiner::Subarray,
            Construction::Darray { .. } => Combiner::Darray,
            Construction::Resized { .. } => Combiner::Resized,
            Construction::F90Integer { .. } => Combiner::F90Integer,
            Construction::F90Real { .. } => Combiner::F90Real,
            Construction::F90Complex { .. } => Combiner::F90Complex,
        }
    }
}

impl Datatype {
    /// The constructor that made the type (MPI 5.0 §5.1.13).
    pub fn combiner(&self) -> Combiner {
        self.construction().0.combiner()
    }

    /// The constructor and the numbers of its arguments (MPI_Type_get_envelope, MPI 5.0 §5.1.13).
    /// A type with large counts may be queried only in the `_c` form: see [`Datatype::width`].
    pub fn envelope(&self) -> Envelope {
        let contents = self.contents();
        Envelope {
            combiner: contents.combiner,
            integers: contents.integers.len(),
            addresses: contents.addresses.len(),
            large_counts: contents.large_counts.len(),
            datatypes: contents.datatypes.len(),
        }
    }

    /// Whether the type was made with large counts.
    pub fn width(&self) -> Width {
        self.construction().1
    }

    /// The arguments with which the type was made (MPI_Type_get_contents, MPI 5.0 §5.1.13). Those
    /// of a predefined type are empty; to query them is an error of the program.
    pub fn contents(&self) -> Contents {
        let (construction, width) = self.construction();
        let mut list = List { width, contents: Contents::empty(construction.combiner()) };
        match construction {
            Construction::Named(_) => {}
            Construction::Dup(old) => list.datatype(old),
            Construction::Contiguous { count, old } => {
                list.counts(&[*count]);
                list.datatype(old);
            }
            Construction::Vector { count, length, stride, old } => {
                list.counts(&[*count, *length, *stride]);
                list.datatype(old);
            }
            Construction::Hvector { count, length, stride, old } => {
                list.counts(&[*count, *length]);
                list.bytes(&[*stride]);
                list.datatype(old);
            }
            Construction::Indexed { lengths, displacements, old } => {
                list.counted(lengths);
                list.counts(displacements);
                list.datatype(old);
            }
            Construction::Hindexed { lengths, displacements, old } => {
                list.counted(lengths);
                list.bytes(displacements);
                list.datatype(old);
            }
            Construction::IndexedBlock { length, displacements, old } => {
                list.counts(&[displacements.len() as i64, *length]);
                list.counts(displacements);
                list.datatype(old);
            }
            Construction::HindexedBlock { length, displacements, old } => {
                list.counts(&[displacements.len() as i64, *length]);
                list.bytes(displacements);
                list.datatype(old);
            }
            Construction::Struct { lengths, displacements, types } => {
                list.counted(lengths);
                list.bytes(displacements);
                types.iter().for_each(|old| list.datatype(old));
            }
            Construction::Subarray { sizes, subsizes, starts, order, old } => {
                list.number(sizes.len() as i64);
                [sizes, subsizes, starts].iter().for_each(|numbers| list.counts(numbers));
                list.contents.integers.push(Integer::Order(*order));
                list.datatype(old);
            }
            Construction::Darray { size, rank, dimensions, order, old } => {
                list.darray(*size, *rank, dimensions, *order);
                list.datatype(old);
            }
            Construction::Resized { lb, extent, old } => {
                list.bytes(&[*lb, *extent]);
                list.datatype(old);
            }
            Construction::F90Integer { range } => list.number(*range),
            Construction::F90Real { precision, range }
            | Construction::F90Complex { precision, range } => list.digits([*precision, *range]),
        }
        list.contents
    }
}

impl Contents {
    fn empty(combiner: Combiner) -> Contents {
        let (integers, addresses) = (Vec::new(), Vec::new());
        let (large_counts, datatypes) = (Vec::new(), Vec::new());
        Contents { combiner, integers, addresses, large_counts, datatypes }
    }
}

/// Contents under construction. The width decides where counts and addresses go.
struct List {
    width: Width,
    contents: Contents,
}

impl List {
    fn number(&mut self, number: i64) {
        self.contents.integers.push(Integer::Number(number));
    }

    fn counts(&mut self, counts: &[i64]) {
        match self.width {
            Width::Int => counts.iter().for_each(|count| self.number(*count)),
            Width::Large => self.contents.large_counts.extend_from_slice(counts),
        }
    }

    /// An array of counts, preceded by its length.
    fn counted(&mut self, counts: &[i64]) {
        self.counts(&[counts.len() as i64]);
        self.counts(counts);
    }

    fn bytes(&mut self, addresses: &[i64]) {
        match self.width {
            Width::Int => self.contents.addresses.extend_from_slice(addresses),
            Width::Large => self.contents.large_counts.extend_from_slice(addresses),
        }
    }

    fn digits(&mut self, digits: [Option<i64>; 2]) {
        let integer = |digits: Option<i64>| digits.map_or(Integer::Undefined, Integer::Number);
        self.contents.integers.extend(digits.map(integer));
    }

    fn datatype(&mut self, old: &Datatype) {
        self.contents.datatypes.push(old.clone());
    }

    /// Only the global sizes are counts. The rest are plain integers in both widths.
    fn darray(&mut self, size: i64, rank: i64, dimensions: &[DistributedDimension], order: Order) {
        [size, rank, dimensions.len() as i64].iter().for_each(|number| self.number(*number));
        let elements: Vec<i64> = dimensions.iter().map(|dimension| dimension.elements).collect();
        self.counts(&elements);
        let integers = &mut self.contents.integers;
        integers.extend(dimensions.iter().map(|one| Integer::Distribution(one.distribution)));
        let argument = |one: &DistributedDimension| {
            one.argument.map_or(Integer::DefaultArgument, Integer::Number)
        };
        integers.extend(dimensions.iter().map(argument));
        integers.extend(dimensions.iter().map(|one| Integer::Number(one.processes)));
        integers.push(Integer::Order(order));
    }
}
