//! The source table: the landing ring of this rank for each source (paper 000's AMT).
//!
//! A source reads its entry at each post, so a changed entry takes effect at its next post.
//! Messages keep their order, which is that of the status records. Shared rings accept any source.
//!
//! A private ring has one writer, which claims by a plain store. Before the ring is assigned to
//! another source, its last source must have left every post that began before it was redirected:
//!
//! ```text
//!   source                            owner
//!   ------                            -----
//!   epoch = odd                       entry = another ring
//!   Host::fence_post                  Host::barrier
//!   entry ─► ring                     epoch odd? ─► the ring is unsettled until it has changed
//!   claim, store, commit, record      (acquire) ─► the ring may be assigned to another source
//!   epoch = even (release)
//! ```
//!
//! Either the source sees the new entry, or the owner sees the odd epoch. A fence of the source
//! would cost each message some 20 ns: where the system supports it, the owner executes the barrier
//! for both (`membarrier(2)`, as for sleeping). Elsewhere, used private rings stay with their
//! sources. `tests/loom_route.rs` explores this, and shows that without the barrier two sources
//! claim the same bytes.

use super::{Host, HostedPort};
use crate::fabric::{FullPolicy, PeerState, Port, Rank, RingId, RingPort, RingState, TableError};
use crate::sync::Ordering;

impl<H: Host> RingPort for HostedPort<H> {
    fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError> {
        if source >= self.size {
            return Err(TableError::NoSuchSource { source_rank: source, size: self.size });
        }
        let before = self.route_of(source);
        if ring == before {
            return Ok(());
        }
        if let Some(ring) = ring {
            self.free_for(ring, source)?;
        }
        let own = self.own;
        if !self.host.is_here(source) {
            // Even if the source failed, the entry may be changed.
            let _ = self.meet(source);
        } else if source != self.rank
            && let Some(before) = before
            // Checked, because the entry is in memory that peers can write.
            && let Some(landing) = self.rings.get_mut(before as usize)
            && !own.ring(before).is_shared()
        {
            landing.leaving = Some((source, None));
        }
        own.source(source).set_ring(ring);
        Ok(())
    }

    fn set_full(&mut self, ring: RingId, policy: FullPolicy) -> Result<(), TableError> {
        self.exists(ring)?;
        self.own.ring(ring).set_policy(policy);
        Ok(())
    }

    fn ring(&self, ring: RingId) -> Option<RingState> {
        let landing = self.rings.get(ring as usize)?;
        let view = self.own.ring(ring);
        let (stalls, refusals) = view.full();
        Some(RingState {
            size: view.size(),
            head: landing.ledger.head(),
            tail: view.tail(),
            stalls,
            refusals,
            policy: view.policy(),
            shared: view.is_shared(),
        })
    }
}

impl<H: Host> HostedPort<H> {
    /// The number of packets of a source that have come out of shared rings since the last call.
    pub fn take_from_shared(&mut self, source: Rank) -> u32 {
        let peer = self.peers.get_mut(source as usize);
        peer.map_or(0, |peer| std::mem::take(&mut peer.from_shared))
    }

    fn exists(&self, ring: RingId) -> Result<(), TableError> {
        let rings = self.own.layout().rings;
        if ring < rings { Ok(()) } else { Err(TableError::NoSuchRing { ring, rings }) }
    }

    /// Checks that a source may land in a ring from now on. On success the ring has memory.
    fn free_for(&mut self, ring: RingId, source: Rank) -> Result<(), TableError> {
        self.exists(ring)?;
        if !self.own.ring(ring).is_shared() {
            if let Some(owner) = self.owner_of(ring) {
                return Err(TableError::Private { ring, owner });
            }
            self.settle_ring(ring, source)?;
        }
        let has_memory = self.rings[ring as usize].has_memory || self.host.commit_ring(ring);
        self.rings[ring as usize].has_memory = has_memory;
        if has_memory { Ok(()) } else { Err(TableError::NoMemory { ring }) }
    }

    /// The source that lands in a private ring.
    fn owner_of(&self, ring: RingId) -> Option<Rank> {
        let own = self.own;
        let mut known = self.peers.iter().map(|(source, _)| source);
        let mapped = known.find(|source| own.source(*source).ring() == Some(ring));
        // A source of another host that has sent nothing yet will land in its first ring.
        let unmet = || ring < own.layout().first_rings && !self.peers.has(ring as usize);
        mapped.or_else(|| unmet().then_some(ring))
    }

    /// Checks that the last source of a private ring, unless it is `source`, is in no post to it.
    fn settle_ring(&mut self, ring: RingId, source: Rank) -> Result<(), TableError> {
        let Some((last, seen)) = self.rings[ring as usize].leaving else { return Ok(()) };
        let gone = matches!(self.host.registry().state(last), PeerState::Failed(_));
        let epoch = || self.own.sender(last).epoch.load(Ordering::Acquire);
        let odd = match seen {
            _ if last == source || gone => None,
            Some(seen) => (epoch() == seen).then_some(seen),
            None if !self.host.barrier() => {
                return Err(TableError::Unsettled { ring, source_rank: last });
            }
            None => Some(epoch()).filter(|epoch| epoch % 2 == 1),
        };
        self.rings[ring as usize].leaving = odd.map(|odd| (last, Some(odd)));
        odd.map_or(Ok(()), |_| Err(TableError::Unsettled { ring, source_rank: last }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Command, DeathCause, Event, Landing};
    use crate::loopback::{LoopbackConfig, LoopbackPort, open};

    /// Four ranks with a ring each.
    fn job() -> Vec<LoopbackPort> {
        open(&LoopbackConfig::for_ranks(4)).unwrap()
    }

    /// `rank` begins or ends a post to rank 0.
    fn step(ports: &[LoopbackPort], rank: Rank) {
        let line = ports[rank as usize].host().segment(0).sender(rank);
        line.epoch.fetch_add(1, Ordering::Release);
    }

    const UNSETTLED: TableError = TableError::Unsettled { ring: 1, source_rank: 1 };

    #[test]
    fn ip_13_a_ring_waits_for_the_post_of_its_last_source() {
        let mut ports = job();
        step(&ports, 1);
        ports[0].route(1, None).unwrap();
        ports[0].route(2, None).unwrap();
        for _ in 0..3 {
            assert_eq!(ports[0].route(2, Some(1)), Err(UNSETTLED));
            assert_eq!(ports[0].route_of(2), None, "nothing has changed");
        }
        // The next post has begun: it has read the new entry.
        step(&ports, 1);
        step(&ports, 1);
        assert_eq!(ports[0].route(2, Some(1)), Ok(()));
    }

    #[test]
    fn ip_13_a_source_gets_its_own_ring_back_at_once() {
        let mut ports = job();
        step(&ports, 1);
        ports[0].route(1, None).unwrap();
        assert_eq!(ports[0].route(2, Some(1)), Err(UNSETTLED));
        assert_eq!(ports[0].route(1, Some(1)), Ok(()));
        ports[0].route(1, None).unwrap();
        assert_eq!(ports[0].route(2, Some(1)), Err(UNSETTLED), "it may be the same post still");
    }

    #[test]
    fn ip_13_what_the_dead_left_in_a_ring_is_freed_for_its_next_source() {
        let mut ports = job();
        step(&ports, 1);
        let ring = ports[1].host().segment(0).ring(1);
        ring.claim(100, 100, &mut ring.head()).unwrap();
        ports[0].route(1, None).unwrap();
        assert_eq!(ports[0].route(2, Some(1)), Err(UNSETTLED));
        assert!(ports[0].host().fail(1, DeathCause::Signal(9)));
        assert_eq!(ports[0].route(2, Some(1)), Ok(()));
        ports[2].post(&Command::send(0, 0, 7, &[5; 100])).unwrap();
        let mut headers = Vec::new();
        while let Some(event) = ports[0].poll() {
            let Event::Landed(landed) = event else { continue };
            headers.push(landed.header);
            let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
            assert_eq!((slice.ring(), ports[0].read_out(slice, &mut [0; 100])), (1, 100));
        }
        assert_eq!((headers, ports[0].ring(1).unwrap().head), (vec![7], 256));
    }
}
