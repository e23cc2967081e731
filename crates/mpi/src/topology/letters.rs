//! Blocking neighbour collectives by letter (MPI 5.0 §8.6): `hikyaku_rank::persistent` implements
//! the letters; long blocks are sent as messages beside them.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_rank::Error;
use hikyaku_rank::persistent::{EdgeBlocks, Letters, is_long};

use super::exchange::{Block, Exchange, InFlight};
use super::{Tags, Topology};
use crate::communicators::Comm;
use crate::failure::Failure;
use crate::requests::Round as _;

impl Topology {
    /// The letters for the next blocking exchange; `None`: it uses messages. A collective call.
    pub(super) fn way(&self, comm: &Comm) -> Result<Option<&RefCell<Letters>>, Failure> {
        let links = (&self.links.destinations[..], &self.links.sources[..]);
        let comm = &comm.inner;
        let made = || Letters::new(comm, links, |link| link.rank, |words| comm.share(words));
        Ok(self.way.letters(self.run.get(), made)?)
    }
}

impl EdgeBlocks for &Exchange {
    fn out_length(&self, place: usize) -> usize {
        self.outs[place].area.len()
    }

    fn write(&self, place: usize, letter: &mut Vec<u8>) {
        letter.extend_from_slice(&self.outs[place].area.data());
    }

    fn in_length(&self, place: usize) -> usize {
        self.ins[place].area.len()
    }

    fn put(&mut self, place: usize, bytes: &[u8]) {
        self.ins[place].area.put(bytes);
    }
}

/// Runs an exchange and waits.
pub(super) fn run(letters: &mut Letters, exchange: Exchange, tags: Tags) -> Result<(), Failure> {
    let goes = |block: &Block| is_long(block.area.len());
    if !exchange.outs.iter().chain(&exchange.ins).any(goes) {
        if letters.exchange(tags.base, &&exchange)? {
            letters.deliver(&mut &exchange);
            return Ok(());
        }
        let exchange = Rc::new(exchange);
        let nothing = InFlight::start(Rc::clone(&exchange), tags, |_| false);
        return end_unequal(letters, &exchange, tags, nothing);
    }
    let exchange = Rc::new(exchange);
    let long = InFlight::start(Rc::clone(&exchange), tags, goes);
    match letters.exchange(tags.base, &&*exchange) {
        Ok(true) => {
            letters.deliver(&mut &*exchange);
            long.wait().map(drop)
        }
        Ok(false) => end_unequal(letters, &exchange, tags, long),
        Err(error) => {
            // The letters report the error to the neighbours and through them to the others. So no
            // message will arrive.
            long.abandon(|_| true);
            Err(error.into())
        }
    }
}

/// Ends an exchange in which some received blocks have an unexpected length.
#[cold]
fn end_unequal(
    letters: &mut Letters,
    mut exchange: &Exchange,
    tags: Tags,
    long: InFlight,
) -> Result<(), Failure> {
    let mut first = Ok(());
    for (place, sent) in letters.unequal(&exchange)? {
        let Block { edge, rank: source_rank, ref area, .. } = exchange.ins[place];
        let expected = area.len() as u64;
        match (is_long(sent as usize), is_long(area.len())) {
            (false, true) => long.abandon(|incoming| incoming == Some(place)),
            (true, false) => long.drop_message(place, tags),
            _ => {}
        }
        let rank = exchange.comm.inner.rank();
        let error = Error::UnequalEdge { edge, source_rank, sent, rank, expected };
        first = first.and(Err(Failure::from(error)));
    }
    letters.deliver(&mut exchange);
    let rest = long.wait().map(drop);
    first.and(rest)
}
