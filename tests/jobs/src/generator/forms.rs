//! Every collective in its three forms: blocking, in flight, persistent.

use hikyaku::{Collective, Error, Persistent, Scope, World};

use super::calls::{Call, Kind, Work};

/// Cuts bytes into pieces of these lengths.
fn cut<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut piece = |length: &usize| {
        let (piece, rest) = bytes.split_at(*length);
        bytes = rest;
        piece
    };
    lengths.iter().map(&mut piece).collect()
}

fn cut_mut<'a>(mut bytes: &'a mut [u8], lengths: &[usize]) -> Vec<&'a mut [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, rest) = bytes.split_at_mut(*length);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

impl Work {
    /// Lengths of the blocks of this rank as the root, from or for the others; other ranks have
    /// none.
    fn at_root(&self, world: &World) -> Vec<usize> {
        match self.call.kind {
            _ if world.rank() != self.call.root => Vec::new(),
            Kind::Scatterv => self.outgoing(),
            _ => self.incoming(),
        }
    }
}

/// Runs the blocking form.
pub(super) fn blocking(world: &World, work: &mut Work) -> Result<(), Error> {
    let Call { kind, root, combine, .. } = work.call;
    let (outgoing, incoming) = (work.outgoing(), work.incoming());
    let at_root = work.at_root(world);
    let Work { data, into, words, part, layouts, .. } = work;
    match kind {
        Kind::Barrier => world.barrier(),
        Kind::Broadcast => world.broadcast(data, root),
        Kind::Gather => world.gather_into(data, into, root),
        Kind::Gatherv => world.gatherv_into(data, cut_mut(into, &at_root), root),
        Kind::Scatter => world.scatter(data, into, root),
        Kind::Scatterv => world.scatterv(&cut(data, &at_root), into, root),
        Kind::Allgather => world.allgather(data, into),
        Kind::AllgatherInPlace => world.allgather_in_place(data),
        Kind::Allgatherv => world.allgatherv(data, into, &incoming),
        Kind::Alltoall => world.alltoall(data, into),
        Kind::AlltoallInPlace => world.alltoall_in_place(data),
        Kind::Alltoallv => world.alltoallv(&cut(data, &outgoing), cut_mut(into, &incoming)),
        Kind::Alltoallw => world.alltoallw(data, &layouts.0, into, &layouts.1),
        Kind::AlltoallwInPlace => world.alltoallw_in_place(data, &layouts.0),
        Kind::Reduce => world.reduce(words, combine, root),
        Kind::Allreduce => world.allreduce(words, combine),
        Kind::ReduceScatter => world.reduce_scatter(words, part, &outgoing, combine),
        Kind::ReduceScatterBlock => world.reduce_scatter_block(words, part, combine),
        Kind::Scan => world.scan(words, combine),
        Kind::Exscan => world.exscan(words, combine),
    }
}

/// Starts it and leaves it in flight.
pub(super) fn start<'scope>(
    world: &World,
    scope: &'scope Scope<'scope, '_>,
    work: &'scope mut Work,
) -> Collective<'scope> {
    let Call { kind, root, combine, .. } = work.call;
    let (outgoing, incoming) = (work.outgoing(), work.incoming());
    let at_root = work.at_root(world);
    let Work { data, into, words, part, layouts, .. } = work;
    match kind {
        Kind::Barrier => scope.ibarrier(),
        Kind::Broadcast => scope.ibroadcast(data, root),
        Kind::Gather => scope.igather_into(data, into, root),
        Kind::Gatherv => scope.igatherv_into(data, cut_mut(into, &at_root), root),
        Kind::Scatter => scope.iscatter(data, into, root),
        Kind::Scatterv => scope.iscatterv(cut(data, &at_root), into, root),
        Kind::Allgather => scope.iallgather(data, into),
        Kind::AllgatherInPlace => scope.iallgather_in_place(data),
        Kind::Allgatherv => scope.iallgatherv(data, into, incoming),
        Kind::Alltoall => scope.ialltoall(data, into),
        Kind::AlltoallInPlace => scope.ialltoall_in_place(data),
        Kind::Alltoallv => scope.ialltoallv(cut(data, &outgoing), cut_mut(into, &incoming)),
        Kind::Alltoallw => scope.ialltoallw(data, &layouts.0, into, &layouts.1),
        Kind::AlltoallwInPlace => scope.ialltoallw_in_place(data, &layouts.0),
        Kind::Reduce => scope.ireduce(words, combine, root),
        Kind::Allreduce => scope.iallreduce(words, combine),
        Kind::ReduceScatter => scope.ireduce_scatter(words, part, outgoing, combine),
        Kind::ReduceScatterBlock => scope.ireduce_scatter_block(words, part, combine),
        Kind::Scan => scope.iscan(words, combine),
        Kind::Exscan => scope.iexscan(words, combine),
    }
}

/// Makes it once and runs it `rounds` times, each time with other data.
pub(super) fn persistent(world: &World, call: Call, rounds: u32) -> Result<(), Error> {
    let first = Work::new(call, world.rank(), world.size(), 0);
    let Call { kind, root, combine, .. } = call;
    let (outgoing, incoming, at_root) = (first.outgoing(), first.incoming(), first.at_root(world));
    let Work { data, into, words, part, layouts, .. } = first;
    let (out, places) = &layouts;
    let owned = |bytes: &[u8], lengths: &[usize]| -> Vec<Vec<u8>> {
        cut(bytes, lengths).into_iter().map(<[u8]>::to_vec).collect()
    };
    let mut rounds = Rounds { world, call, rounds };
    match kind {
        Kind::Barrier => rounds.run(world.barrier_init(), |_, _| {}),
        Kind::Broadcast => rounds.in_place(world.broadcast_init(data, root)),
        Kind::Gather => rounds.pair(world.gather_into_init(data, into, root)),
        Kind::Gatherv => {
            let blocks = owned(&into, &at_root);
            rounds.run(world.gatherv_into_init(data, blocks, root), |(data, blocks), work| {
                std::mem::swap(data, &mut work.data);
                work.into = blocks.concat();
            })
        }
        Kind::Scatter => rounds.pair(world.scatter_init(data, into, root)),
        Kind::Scatterv => {
            let parts = owned(&data, &at_root);
            rounds.run(world.scatterv_init(parts, into, root), |(parts, into), work| {
                *parts = owned(&work.data, &at_root);
                std::mem::swap(into, &mut work.into);
            })
        }
        Kind::Allgather => rounds.pair(world.allgather_init(data, into)),
        Kind::AllgatherInPlace => rounds.in_place(world.allgather_in_place_init(data)),
        Kind::Allgatherv => rounds.pair(world.allgatherv_init(data, into, incoming)),
        Kind::Alltoall => rounds.pair(world.alltoall_init(data, into)),
        Kind::AlltoallInPlace => rounds.in_place(world.alltoall_in_place_init(data)),
        Kind::Alltoallv => {
            let (parts, blocks) = (owned(&data, &outgoing), owned(&into, &incoming));
            rounds.run(world.alltoallv_init(parts, blocks), |(parts, blocks), work| {
                *parts = owned(&work.data, &outgoing);
                work.into = blocks.concat();
            })
        }
        Kind::Alltoallw => rounds.pair(world.alltoallw_init(data, out, into, places)),
        Kind::AlltoallwInPlace => rounds.in_place(world.alltoallw_in_place_init(data, out)),
        Kind::Reduce => rounds.words(world.reduce_init(words, combine, root)),
        Kind::Allreduce => rounds.words(world.allreduce_init(words, combine)),
        Kind::ReduceScatter => {
            rounds.parts(world.reduce_scatter_init(words, part, outgoing, combine))
        }
        Kind::ReduceScatterBlock => {
            rounds.parts(world.reduce_scatter_block_init(words, part, combine))
        }
        Kind::Scan => rounds.words(world.scan_init(words, combine)),
        Kind::Exscan => rounds.words(world.exscan_init(words, combine)),
    }
}

/// Rounds of a persistent operation. Each swaps the operation's buffers with those of the round's
/// work, before it is started and again when it has ended.
struct Rounds<'w> {
    world: &'w World,
    call: Call,
    rounds: u32,
}

impl Rounds<'_> {
    fn run<B: 'static>(
        &mut self,
        mut operation: Persistent<B>,
        swap: impl Fn(&mut B, &mut Work),
    ) -> Result<(), Error> {
        for round in 0..u64::from(self.rounds) {
            let mut work = Work::new(self.call, self.world.rank(), self.world.size(), round);
            swap(operation.buffers_mut()?, &mut work);
            operation.start()?;
            operation.wait()?;
            swap(operation.buffers_mut()?, &mut work);
            work.check();
        }
        Ok(())
    }

    fn in_place(&mut self, operation: Persistent<Vec<u8>>) -> Result<(), Error> {
        self.run(operation, |data, work| std::mem::swap(data, &mut work.data))
    }

    fn words(&mut self, operation: Persistent<Vec<u64>>) -> Result<(), Error> {
        self.run(operation, |words, work| std::mem::swap(words, &mut work.words))
    }

    fn pair(&mut self, operation: Persistent<(Vec<u8>, Vec<u8>)>) -> Result<(), Error> {
        self.run(operation, |(data, into), work| {
            std::mem::swap(data, &mut work.data);
            std::mem::swap(into, &mut work.into);
        })
    }

    fn parts(&mut self, operation: Persistent<(Vec<u64>, Vec<u64>)>) -> Result<(), Error> {
        self.run(operation, |(words, part), work| {
            std::mem::swap(words, &mut work.words);
            std::mem::swap(part, &mut work.part);
        })
    }
}
