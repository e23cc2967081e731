//! The algorithms of each operation, by name: what options offer and the table of `select` chooses
//! among. They are beside each other, and not with their operations, so that names, choices and the
//! table import no algorithm.

/// Declares the algorithms of an operation.
macro_rules! algorithms {
    ($about:literal $($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Algorithm { $($(#[$doc])* $variant,)+ }

        impl Algorithm {
            /// All algorithms of the operation.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),+];

            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name in messages and options.
            pub const fn name(self) -> &'static str {
                Algorithm::NAMES[self as usize]
            }

            /// The algorithm of a name.
            pub fn from_name(name: &str) -> Option<Algorithm> {
                Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
            }
        }
    };
}

/// Those of [`crate::barrier`](mod@crate::barrier).
pub(crate) mod barrier {
    algorithms! {
        "The ways to make a barrier."
        /// Reports up a tree of sixteen and releases down.
        WideTree = "wide-tree",
        /// The same by a tree of two (paper 003, Fig. 10 B).
        BinaryTree = "binary-tree",
        /// In round k everyone tells the rank 2^k further on (Hensgen, Finkel, Manber 1988).
        Dissemination = "dissemination",
        /// Everyone tells everyone by messages (Fig. 10 A).
        AllToAll = "all-to-all",
        /// Everyone adds to everyone's counter (Fig. 10 C).
        AtomicAdd = "atomic-add",
        /// Everyone adds to all counters by one multicast (Fig. 10 D).
        MulticastAdd = "multicast-add",
        /// The network counts who has come (Fig. 10 E).
        Sync = "sync",
        /// Everyone looks at everyone's line.
        Lines = "lines",
    }
}

/// Those of [`crate::broadcast`](mod@crate::broadcast).
pub(crate) mod broadcast {
    /// Bytes of a segment of `pipelined`: two packets of the shared-memory fabric, so that a
    /// segment is passed on while the next is landing, and large against the cost of a message.
    pub(crate) const SEGMENT: usize = 16 << 10;

    algorithms! {
        "The ways to broadcast."
        /// Those who have the data double in each round; a rank's sends follow each other.
        Binomial = "binomial",
        /// The same with a rank's sends in one chain; powers of two only (paper 004, ONE2ALL-BT).
        BinaryTree = "binary-tree",
        /// The root sends to each (paper 004, ONE2ALL-PP).
        PointToPoint = "point-to-point",
        /// Chains along each dimension of the network in turn (paper 004, ONE2ALL-SYS).
        System = "system",
        /// A chain of all ranks, through which segments follow each other.
        Pipelined = "pipelined",
        /// One command that the network delivers to all (paper 003, multicast).
        Multicast = "multicast",
        /// The root writes to its lines, which all read.
        Lines = "lines",
        /// All copy out of the root's memory.
        Read = "read",
    }
}

/// Those of [`crate::reduce`](mod@crate::reduce).
pub(crate) mod reduce {
    algorithms! {
        "The ways to reduce."
        /// Up a binomial tree.
        Binomial = "binomial",
        /// The root takes from one rank after the other, from the last to the first.
        Linear = "linear",
        /// Each rank writes to its lines, which the root reads and combines.
        Lines = "lines",
    }
}

/// Those of [`crate::allreduce`](mod@crate::allreduce).
pub(crate) mod allreduce {
    algorithms! {
        "The ways to combine at all ranks."
        /// Pairs of ranks exchange and combine all they have, at doubling distances.
        RecursiveDoubling = "recursive-doubling",
        /// Each rank combines one block, then all blocks go round.
        Ring = "ring",
        /// First within each node, then between one rank of each.
        TwoLevel = "two-level",
        /// Each rank writes to its lines, which all read and combine.
        Lines = "lines",
        /// Each rank combines one share out of all ranks' memory, then copies the others'.
        Read = "read",
    }
}

/// Those of [`crate::gather`](mod@crate::gather).
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

/// Those of [`crate::scatter`](mod@crate::scatter).
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

/// Those of [`crate::allgather`](mod@crate::allgather).
pub(crate) mod allgather {
    algorithms! {
        "The ways to gather at all ranks."
        /// Each rank passes on the part that came last.
        Ring = "ring",
        /// Pairs exchange all they have, at doubling distances (paper 004's butterfly collection).
        Butterfly = "butterfly",
        /// Each rank sends all it has 2^k ranks back (Bruck et al. 1997).
        Bruck = "bruck",
        /// Each rank writes to its lines, which all read.
        Lines = "lines",
        /// Each rank copies out of all others' memory.
        Read = "read",
    }
}

/// Those of [`crate::alltoall`](mod@crate::alltoall).
pub(crate) mod alltoall {
    algorithms! {
        "The ways to exchange parts."
        /// With the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// All at once, the sends in one chain (paper 004).
        Chained = "chained",
        /// Several parts in one message at doubling distances (Bruck et al. 1997).
        Bruck = "bruck",
        /// Everyone writes its parts to its lines, and reads its own of all others'.
        Lines = "lines",
        /// What a node's ranks have for another node in one message.
        TwoLevel = "two-level",
        /// Each rank copies its parts out of all others' memory.
        Read = "read",
    }
}

/// Those of [`crate::alltoallw`](mod@crate::alltoallw).
pub(crate) mod alltoallw {
    algorithms! {
        "The ways to exchange parts that lie anywhere."
        /// With the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// All at once, the sends in one chain (paper 004).
        Chained = "chained",
    }
}

/// Those of [`crate::reduce_scatter`](mod@crate::reduce_scatter).
pub(crate) mod reduce_scatter {
    algorithms! {
        "The ways to combine and scatter."
        /// Rank 0 combines everything, in the order of the ranks.
        ReduceThenScatter = "reduce-then-scatter",
        /// Each rank gets its block of the ranks at distance 1, 2, 3, … in turn.
        Pairwise = "pairwise",
        /// Blocks go round and grow.
        Ring = "ring",
        /// Each rank writes all to its lines, and combines its block of all.
        Lines = "lines",
        /// Each rank combines its block out of all others' memory.
        Read = "read",
    }
}

/// Those of [`crate::scan`](mod@crate::scan).
pub(crate) mod scan {
    algorithms! {
        "The ways to combine what comes before."
        /// With the value of the rank 1, 2, 4, … before in turn (Hillis, Steele 1986).
        RecursiveDoubling = "recursive-doubling",
        /// From rank to rank.
        Linear = "linear",
        /// Each rank writes to its lines, and combines what those before it have written.
        Lines = "lines",
    }
}
