//! Persistent neighbour collectives (MPI 5.0 §8.8): the edges of a topology as an exchange that is
//! set up once and runs by itself from its start.
//!
//! If several edges connect two ranks, an exchange pairs them in the order of both lists. A
//! topology has a number for each edge, the same at both ends, so the edges are passed in the order
//! of these numbers.

use std::ops::Range;

use hikyaku_coll::topology::Link;
use hikyaku_msg::{Layout, MsgError};
use hikyaku_rank::persistent::{EdgeEnd, Terms};
use hikyaku_rank::{MOST_WORDS, heard_own};

use super::Neighbourhood;
use crate::error::Error;
use crate::persistent::StagedExchange;
use crate::scalar::Scalar;
use crate::world::World;

impl<S> Neighbourhood<S> {
    /// Makes an exchange with a layout for each edge (MPI_Neighbor_alltoallw_init): out of the
    /// buffer that is passed to each start, into the buffer that is passed to each wait. All ranks
    /// of the neighbourhood call it. Layouts of incoming elements must not overlap: the result
    /// would be unspecified.
    ///
    /// # Errors
    /// The number of layouts is not that of edges, or the ends of an edge disagree on its size: on
    /// every rank. Or a rank is gone.
    pub fn neighbour_alltoallw_init<T: Scalar>(
        &self,
        out_layouts: &[Layout],
        into_layouts: &[Layout],
    ) -> Result<StagedExchange<T>, Error> {
        let outs = self.ends_of::<T>("destinations", &self.destinations, out_layouts);
        let ins = self.ends_of::<T>("sources", &self.sources, into_layouts);
        let checked = outs.and_then(|outs| Ok((outs, ins?)));
        let end = |layouts: &[Layout]| layouts.iter().map(Layout::end).max().unwrap_or(0);
        let needed = (end(out_layouts), end(into_layouts));
        let world = self.world.handle();
        // A tag of its own: the neighbourhood's other calls have another context.
        let terms = Terms { messages: Some(self.next_call().first()), ..Terms::ANY };
        StagedExchange::new(world, terms, (checked, needed), |world, words| {
            self.share(world, words)
        })
    }

    /// The same with a range of the buffers for each edge (MPI_Neighbor_alltoallv_init).
    ///
    /// # Errors
    /// As [`Neighbourhood::neighbour_alltoallw_init`].
    pub fn neighbour_alltoallv_init<T: Scalar>(
        &self,
        out_blocks: &[Range<usize>],
        into_blocks: &[Range<usize>],
    ) -> Result<StagedExchange<T>, Error> {
        let layouts = |blocks: &[Range<usize>]| -> Vec<Layout> {
            blocks.iter().cloned().map(Layout::from).collect()
        };
        self.neighbour_alltoallw_init(&layouts(out_blocks), &layouts(into_blocks))
    }

    /// The ends of edges that exist, in an order that is the same at both ends.
    fn ends_of<T: Scalar>(
        &self,
        what: &'static str,
        links: &[Link],
        layouts: &[Layout],
    ) -> Result<Vec<EdgeEnd>, Error> {
        if layouts.len() != links.len() {
            let (given, edges) = (layouts.len(), links.len());
            return Err(Error::WrongBlocks { what, given, edges });
        }
        let mut edges: Vec<_> = links.iter().zip(layouts).collect();
        edges.sort_by_key(|(link, _)| link.channel);
        let end = |(link, layout): (&Link, &Layout)| {
            let rank = self.process(link)?;
            let mut runs = Vec::new();
            let bytes = |elements: usize| elements.saturating_mul(size_of::<T>());
            layout.for_each_run(|run| runs.push(bytes(run.start)..bytes(run.end)));
            Some(EdgeEnd { rank, runs })
        };
        Ok(edges.into_iter().filter_map(end).collect())
    }

    /// Gives every rank of the neighbourhood the words of all, by rank of the world. Other ranks do
    /// not take part.
    pub(super) fn share(&self, world: &World, words: &[u32]) -> Result<Vec<Vec<u32>>, Error> {
        let mut all = vec![vec![1]; world.size() as usize];
        let lengths =
            world.share_among(&self.members, &[words.len() as u32], self.next_call().first())?;
        let most = lengths.iter().map(|length| length[0]).max().unwrap_or(0) as usize;
        if most > MOST_WORDS {
            return Err(MsgError::Malformed { source_rank: self.members[0] }.into());
        }
        let mut padded = words.to_vec();
        padded.resize(most, 0);
        let shared = world.share_among(&self.members, &padded, self.next_call().first())?;
        for ((member, length), mut words) in self.members.iter().zip(lengths).zip(shared) {
            words.truncate(length[0] as usize);
            all[*member as usize] = words;
        }
        Ok(heard_own(all, world.rank(), words)?)
    }
}
