//! The messages of a step: puts, in one chain or one by one, and a word to each rank when its data
//! is there.

use hikyaku::{Error, Window, World};

/// A put: the rank, the place, and the data.
pub(crate) type Put<'a> = (u32, usize, &'a [f64]);

/// The totals of the exchanges so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) exchanges: u64,
    /// Puts to other ranks, and their bytes.
    pub(crate) puts: u64,
    pub(crate) bytes: u64,
    /// Time from the first put until all incoming data is here and all outgoing data has arrived.
    pub(crate) nanoseconds: u64,
}

/// One rank's side of the exchanges of a program.
pub(crate) struct Exchange<'w> {
    pub(crate) world: &'w World,
    /// By source: the number of the last exchange whose data is here.
    arrived: Window<'w, u64>,
    /// Whether to put one by one.
    each: bool,
    tally: Tally,
}

impl<'w> Exchange<'w> {
    pub(crate) fn new(world: &'w World, each: bool) -> Result<Exchange<'w>, Error> {
        let arrived = world.window(world.size() as usize)?;
        Ok(Exchange { world, arrived, each, tally: Tally::default() })
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Sends `puts` into the others' parts of `data`, and waits for the data of `sources`: the
    /// ranks that put something here.
    pub(crate) fn step(
        &mut self,
        data: &Window<'_, f64>,
        puts: &[Put<'_>],
        sources: &[u32],
    ) -> Result<(), Error> {
        let (rank, number) = (self.world.rank(), self.tally.exchanges + 1);
        let start = self.world.now();
        let signal = (&self.arrived, rank as usize, number);
        if self.each {
            for (at, put) in puts.iter().enumerate() {
                let is_last = !puts[at + 1..].iter().any(|later| later.0 == put.0);
                data.put_chain(&[*put], is_last.then_some(signal))?;
            }
        } else {
            data.put_chain(puts, Some(signal))?;
        }
        for source in sources {
            self.arrived.wait(*source as usize, *source, |value| value >= number)?;
        }
        let tally = &mut self.tally;
        tally.nanoseconds += (self.world.now() - start).nanoseconds();
        tally.exchanges = number;
        for (_, _, data) in puts.iter().filter(|put| put.0 != rank) {
            tally.puts += 1;
            tally.bytes += size_of_val(*data) as u64;
        }
        Ok(())
    }
}
