//! The algorithms of each operation, by name: the values of options and of the table in `select`.
//! They are collected here, not beside their operations, so that names, choices and the table
//! import no algorithm.

/// Declares the algorithms of an operation.
macro_rules! algorithms {
    ($about:literal $($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Algorithm { $($(#[$doc])* $variant,)+ }

        impl Algorithm {
            /// All algorithms of the operation.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),+];

            /// The names of all algorithms, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name in messages and options.
            pub const fn name(self) -> &'static str {
                Algorithm::NAMES[self as usize]
            }

            /// The algorithm with this name.
            pub fn from_name(name: &str) -> Option<Algorithm> {
                Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
            }
        }
    };
}

/// The algorithms of [`crate::barrier`](mod@crate::barrier).
pub(crate) mod barrier {
    algorithms! {
        "The ways to make a barrier."
        /// Reports up a tree of sixteen and releases down.
        WideTree = "wide-tree",
        /// The same by a tree of two (paper 003, Fig. 10 B).
        BinaryTree = "binary-tree",
        /// In round k every rank sends to the rank 2^k further on (Hensgen, Finkel, Manber 1988).
        Dissemination = "dissemination",
        /// Every rank sends a message to every other (Fig. 10 A).
        AllToAll = "all-to-all",
        /// Every rank adds to every rank's counter (Fig. 10 C).
        AtomicAdd = "atomic-add",
        /// Every rank adds to all counters by one multicast (Fig. 10 D).
        MulticastAdd = "multicast-add",
        /// The network counts the ranks that have entered (Fig. 10 E).
        Sync = "sync",
        /// Every rank polls every other rank's line.
        Lines = "lines",
    }
}

/// The algorithms of [`crate::broadcast`](mod@crate::broadcast).
pub(crate) mod broadcast {
    /// Bytes of a segment of `pipelined`: two packets of the shared-memory fabric, so that a
    /// segment is passed on while the next one arrives, and large compared with the cost of a
    /// message.
    pub(crate) const SEGMENT: usize = 16 << 10;

    algorithms! {
        "The ways to broadcast."
        /// The number of ranks with the data doubles in each round; a rank's sends are sequential.
        Binomial = "binomial",
        /// The same with a rank's sends in one chain; powers of two only (paper 004, ONE2ALL-BT).
        BinaryTree = "binary-tree",
        /// The root sends to each (paper 004, ONE2ALL-PP).
        PointToPoint = "point-to-point",
        /// Chains along each dimension of the network in turn (paper 004, ONE2ALL-SYS).
        System = "system",
        /// A chain of all ranks that passes segments on.
        Pipelined = "pipelined",
        /// One command that the network delivers to all (paper 003, multicast).
        Multicast = "multicast",
        /// The root writes to its lines, which all read.
        Lines = "lines",
        /// All copy out of the root's memory.
        Read = "read",
    }
}

/// The algorithms of [`crate::reduce`](mod@crate::reduce).
pub(crate) mod reduce {
    algorithms! {
        "The ways to reduce."
        /// Up a binomial tree.
        Binomial = "binomial",
        /// The root receives from one rank after the other, from the last to the first.
        Linear = "linear",
        /// Each rank writes to its lines, which the root reads and combines.
        Lines = "lines",
    }
}

/// The algorithms of [`crate::allreduce`](mod@crate::allreduce).
pub(crate) mod allreduce {
    algorithms! {
        "The ways to combine at all ranks."
        /// Pairs of ranks exchange and combine their values, at doubling distances.
        RecursiveDoubling = "recursive-doubling",
        /// Each rank combines one block, then all blocks are passed round.
        Ring = "ring",
        /// First within each node, then between one rank of each node.
        TwoLevel = "two-level",
        /// Each rank writes to its lines, which all read and combine.
        Lines = "lines",
        /// Each rank combines one share from all ranks' memory, then copies the other shares.
        Read = "read",
    }
}

/// The algorithms of [`crate::gather`](mod@crate::gather).
pub(crate) mod gather {
    algorithms! {
        "The ways to gather."
        /// All receives are posted at once, as paper 004 presets its receive areas.
        Chained = "chained",
        /// One rank after the other.
        Linear = "linear",
        /// Up a binomial tree, which has fewer and longer messages.
        Binomial = "binomial",
        /// Each rank writes to its lines, which the root reads.
        Lines = "lines",
    }
}

/// The algorithms of [`crate::scatter`](mod@crate::scatter).
pub(crate) mod scatter {
    algorithms! {
        "The ways to scatter."
        /// All of the root's sends are one chain (paper 004).
        Chained = "chained",
        /// One rank after the other.
        Linear = "linear",
        /// Down a binomial tree, which has fewer and longer messages.
        Binomial = "binomial",
        /// The root writes all parts to its lines, where each rank reads its own.
        Lines = "lines",
    }
}

/// The algorithms of [`crate::allgather`](mod@crate::allgather).
pub(crate) mod allgather {
    algorithms! {
        "The ways to gather at all ranks."
        /// Each rank passes on the part that it received last.
        Ring = "ring",
        /// Pairs exchange all their parts, at doubling distances (paper 004's butterfly
        /// collection).
        Butterfly = "butterfly",
        /// Each rank sends all its parts 2^k ranks back (Bruck et al. 1997).
        Bruck = "bruck",
        /// Each rank writes to its lines, which all read.
        Lines = "lines",
        /// Each rank copies from all other ranks' memory.
        Read = "read",
    }
}

/// The algorithms of [`crate::alltoall`](mod@crate::alltoall).
pub(crate) mod alltoall {
    algorithms! {
        "The ways to exchange parts."
        /// With the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// All at once, the sends in one chain (paper 004).
        Chained = "chained",
        /// Several parts in one message at doubling distances (Bruck et al. 1997).
        Bruck = "bruck",
        /// Each rank writes its parts to its lines, and reads its own from all others'.
        Lines = "lines",
        /// All parts of a node's ranks for another node are one message.
        TwoLevel = "two-level",
        /// Each rank copies its parts from all other ranks' memory.
        Read = "read",
    }
}

/// The algorithms of [`crate::alltoallw`](mod@crate::alltoallw).
pub(crate) mod alltoallw {
    algorithms! {
        "The ways to exchange parts that lie anywhere."
        /// With the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// All at once, the sends in one chain (paper 004).
        Chained = "chained",
    }
}

/// The algorithms of [`crate::reduce_scatter`](mod@crate::reduce_scatter).
pub(crate) mod reduce_scatter {
    algorithms! {
        "The ways to combine and scatter."
        /// Rank 0 combines everything, in the order of the ranks.
        ReduceThenScatter = "reduce-then-scatter",
        /// Each rank receives its block from the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// Blocks are passed round and combined on the way.
        Ring = "ring",
        /// Each rank writes all data to its lines, and combines its block from all lines.
        Lines = "lines",
        /// Each rank combines its block from all other ranks' memory.
        Read = "read",
    }
}

/// The algorithms of [`crate::scan`](mod@crate::scan).
pub(crate) mod scan {
    algorithms! {
        "The ways to combine what comes before."
        /// With the value of the rank 1, 2, 4, … before in turn (Hillis, Steele 1986).
        RecursiveDoubling = "recursive-doubling",
        /// From rank to rank in order.
        Linear = "linear",
        /// Each rank writes to its lines, and combines the contributions of earlier ranks.
        Lines = "lines",
    }
}
