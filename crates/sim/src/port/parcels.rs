//! Parcels in flight between ranks, parcels that wait for room at their target, and parcels that
//! were refused there and are back at their sender.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use hikyaku_nic::fabric::{FullCause, Rank};
use hikyaku_nic::hosted::{ChainedPut, Posted, Shipped};

use crate::slab::Slab;

/// The bytes of the answer to a chain's puts.
const ANSWER_BYTES: u64 = 16;

/// The content of a parcel from one rank to another.
#[derive(Debug)]
pub(super) enum ParcelContent {
    /// A send, and the number of its payload bytes that have landed.
    Send(Posted, usize),
    /// The record of a command that was carried out. The command has already travelled, so this
    /// takes no time.
    Announce { protocol: u8, header: u64, length: u64, offset: u64 },
    /// A put of a chain, and its number in the chain.
    Chained(ChainedPut, u32),
    /// A datagram, which needs no room.
    Datagram(Rc<[u8]>),
    /// The command of a rank that waits for its arrival, or the reply.
    Trip { rank: Rank, bytes: u64 },
    /// The answer to the last put of a chain to the answering rank.
    Answer,
    /// A put of a command queue.
    Put(Shipped),
    /// The refusal of a parcel, on its path to the sender, which has kept the bytes.
    Refusal(Box<RankParcel>, FullCause),
    /// Not a parcel: a queue must be checked.
    Run(hikyaku_nic::fabric::QueueAddress),
}

impl ParcelContent {
    /// The bytes of payload that travel.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            ParcelContent::Send(posted, taken) => (posted.payload.len() - taken) as u64,
            ParcelContent::Put(shipped) => shipped.payload.len() as u64,
            ParcelContent::Chained(put, _) => put.payload.len() as u64,
            ParcelContent::Datagram(payload) => payload.len() as u64,
            ParcelContent::Trip { bytes, .. } => *bytes,
            ParcelContent::Answer => ANSWER_BYTES,
            ParcelContent::Announce { .. } | ParcelContent::Refusal(..) | ParcelContent::Run(_) => {
                0
            }
        }
    }

    /// Whether it lands although earlier parcels have found no room.
    pub(super) fn passes(&self) -> bool {
        matches!(self, ParcelContent::Send(posted, _) if posted.passes)
    }
}

#[derive(Debug)]
pub(super) struct RankParcel {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) content: ParcelContent,
    /// The last refusal, if it was refused.
    pub(super) refused: Option<Refused>,
}

/// The last refusal of a parcel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    /// Its place among all refused parcels.
    place: u64,
    /// The number of turns of its target at that time.
    turns: u64,
}

/// A datagram that has arrived: its sender and its bytes.
type UnreadDatagram = (Rank, Rc<[u8]>);

/// All parcels of a job.
#[derive(Debug, Default)]
pub(super) struct JobParcels {
    /// Parcels in flight, by number.
    pub(super) moving: Slab<RankParcel>,
    /// By a parcel that has not left: the parcels that leave with it.
    copies: BTreeMap<u32, Vec<u32>>,
    /// By path: parcels that have arrived and found no room, oldest first.
    blocked: BTreeMap<ParcelPath, VecDeque<RankParcel>>,
    /// By path: the places of refused parcels that have not landed, oldest first. No other parcel
    /// of the path lands before them.
    refused: BTreeMap<ParcelPath, VecDeque<u64>>,
    /// By target: datagrams that it has not yet had a turn to receive, oldest first.
    unread: BTreeMap<Rank, VecDeque<UnreadDatagram>>,
    /// By target: refused parcels that are kept at their senders until the target has had a turn.
    kept: BTreeMap<Rank, Vec<RankParcel>>,
    refusals: u64,
    /// By source: its chain, until all of the chain has been answered.
    chains: BTreeMap<Rank, ChainUnderWay>,
}

/// The puts of a chain in flight.
#[derive(Debug, Default)]
struct ChainUnderWay {
    /// The number of puts.
    puts: u32,
    /// The ranks that have refused a put, and the number of the first refused put to each.
    refused: BTreeMap<Rank, u32>,
}

/// A path, on which parcels keep their order: from one source to one target. Parcels that
/// [pass](ParcelContent::passes) others have a path of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParcelPath {
    pub(super) to: Rank,
    pub(super) from: Rank,
    pub(super) passes: bool,
}

impl RankParcel {
    pub(super) fn new(from: Rank, to: Rank, content: ParcelContent) -> RankParcel {
        RankParcel { from, to, content, refused: None }
    }

    pub(super) fn way(&self) -> ParcelPath {
        ParcelPath { to: self.to, from: self.from, passes: self.content.passes() }
    }
}

impl JobParcels {
    /// Adds a parcel that leaves with another one, by the same command.
    pub(super) fn copy(&mut self, first: u32, parcel: RankParcel) {
        let key = self.moving.insert(parcel);
        self.copies.entry(first).or_default().push(key);
    }

    /// Appends a datagram to those that its receiver has not taken yet.
    pub(super) fn keep_datagram(&mut self, (from, to): (Rank, Rank), datagram: Rc<[u8]>) {
        self.unread.entry(to).or_default().push_back((from, datagram));
    }

    /// Passes the datagrams that a rank has not received to `leave`, until there is no room.
    /// Returns whether one was left.
    pub(super) fn leave_datagrams(
        &mut self,
        to: Rank,
        leave: impl Fn(Rank, &[u8]) -> bool,
    ) -> bool {
        let Some(unread) = self.unread.get_mut(&to) else { return false };
        let mut any = false;
        while unread.pop_front_if(|(from, datagram)| leave(*from, datagram)).is_some() {
            any = true;
        }
        if unread.is_empty() {
            self.unread.remove(&to);
        }
        any
    }

    /// Takes the parcels that leave with this one.
    pub(super) fn take_copies(&mut self, first: u32) -> Vec<u32> {
        // An empty vector needs no memory, and few parcels have copies.
        self.copies.remove(&first).unwrap_or_default()
    }

    /// Whether a parcel waits for room on this path.
    pub(super) fn is_blocked(&self, way: ParcelPath) -> bool {
        self.blocked.contains_key(&way)
    }

    /// Appends a parcel to the waiting ones.
    pub(super) fn block(&mut self, parcel: RankParcel) {
        self.blocked.entry(parcel.way()).or_default().push_back(parcel);
    }

    /// Puts a parcel back in front of the waiting ones.
    pub(super) fn block_first(&mut self, parcel: RankParcel) {
        self.blocked.entry(parcel.way()).or_default().push_front(parcel);
    }

    /// Takes the parcel that has waited longest on a path.
    pub(super) fn unblock(&mut self, way: ParcelPath) -> Option<RankParcel> {
        let queue = self.blocked.get_mut(&way)?;
        let parcel = queue.pop_front();
        if queue.is_empty() {
            self.blocked.remove(&way);
        }
        parcel
    }

    /// Whether no other refused parcel of its path comes before this one.
    pub(super) fn is_next(&self, parcel: &RankParcel) -> bool {
        let first = self.refused.get(&parcel.way()).and_then(|places| places.front());
        first.is_none_or(|first| parcel.refused.is_some_and(|refused| refused.place == *first))
    }

    /// Whether refused parcels of a path have not landed yet.
    pub(super) fn has_refused(&self, way: ParcelPath) -> bool {
        self.refused.contains_key(&way)
    }

    /// Marks a parcel as refused by a target that has had this many turns.
    pub(super) fn refuse(&mut self, mut parcel: RankParcel, turns: u64) -> RankParcel {
        let place = match parcel.refused {
            Some(refused) => refused.place,
            None => {
                self.refusals += 1;
                self.refused.entry(parcel.way()).or_default().push_back(self.refusals);
                self.refusals
            }
        };
        parcel.refused = Some(Refused { place, turns });
        parcel
    }

    /// Handles a refused parcel that is back at its sender. If the target has had no turn since, it
    /// would be refused again, so it is kept. Otherwise it is returned, to be sent.
    pub(super) fn keep(&mut self, parcel: RankParcel, turns: u64) -> Option<RankParcel> {
        let is_new = parcel.refused.is_some_and(|refused| refused.turns == turns);
        if !is_new && !self.kept.contains_key(&parcel.to) {
            return Some(parcel);
        }
        self.kept.entry(parcel.to).or_default().push(parcel);
        None
    }

    /// Takes the parcels that were kept until this target had a turn.
    pub(super) fn take_kept(&mut self, to: Rank) -> Vec<RankParcel> {
        self.kept.remove(&to).unwrap_or_default()
    }

    /// Whether a parcel waits for a turn of this rank.
    pub(super) fn await_turn(&self, to: Rank) -> bool {
        self.kept.contains_key(&to) || !self.waiting_at(to).is_empty()
    }

    /// Notes that the first refused parcel of a path has landed or is lost. Returns whether it was
    /// the last one.
    pub(super) fn settle(&mut self, way: ParcelPath) -> bool {
        let Some(places) = self.refused.get_mut(&way) else { return true };
        places.pop_front();
        let last = places.is_empty();
        if last {
            self.refused.remove(&way);
        }
        last
    }

    /// The number of a rank's next put in its chain.
    pub(super) fn count_put(&mut self, from: Rank) -> u32 {
        let chain = self.chains.entry(from).or_default();
        chain.puts += 1;
        chain.puts - 1
    }

    /// Notes that a target has refused a put of a chain.
    pub(super) fn refuse_put(&mut self, from: Rank, to: Rank, number: u32) {
        let chain = self.chains.entry(from).or_default();
        chain.refused.entry(to).or_insert(number);
    }

    /// Whether a target has refused a put of a rank's chain.
    pub(super) fn has_refused_put(&self, from: Rank, to: Rank) -> bool {
        self.chains.get(&from).is_some_and(|chain| chain.refused.contains_key(&to))
    }

    /// Ends a rank's chain, which is completely answered. Returns the number of its first refused
    /// put.
    pub(super) fn end_chain(&mut self, from: Rank) -> Option<u32> {
        self.chains.remove(&from)?.refused.into_values().min()
    }

    /// The paths on which parcels wait for room at a rank. Paths of passing parcels come first.
    pub(super) fn waiting_at(&self, to: Rank) -> Vec<ParcelPath> {
        let first = ParcelPath { to, from: 0, passes: false };
        let last = ParcelPath { to, from: Rank::MAX, passes: true };
        let mut ways: Vec<ParcelPath> =
            self.blocked.range(first..=last).map(|(way, _)| *way).collect();
        ways.sort_by_key(|way| !way.passes);
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(from: Rank, to: Rank, bytes: u64) -> RankParcel {
        RankParcel::new(from, to, ParcelContent::Trip { rank: from, bytes })
    }

    #[test]
    fn waiting_parcels_keep_their_order() {
        let mut parcels = JobParcels::default();
        for (from, bytes) in [(1, 10), (2, 20), (1, 11)] {
            parcels.block(trip(from, 0, bytes));
        }
        let way = |to, from| ParcelPath { to, from, passes: false };
        assert_eq!(parcels.waiting_at(0), [way(0, 1), way(0, 2)]);
        assert!(parcels.waiting_at(1).is_empty() && !parcels.is_blocked(way(1, 0)));
        let first = parcels.unblock(way(0, 1)).unwrap();
        assert_eq!(first.content.bytes(), 10);
        parcels.block_first(first);
        let order: Vec<u64> = std::iter::from_fn(|| parcels.unblock(way(0, 1)))
            .map(|parcel| parcel.content.bytes())
            .collect();
        assert_eq!(order, [10, 11]);
        assert!(!parcels.is_blocked(way(0, 1)) && parcels.is_blocked(way(0, 2)));
    }

    #[test]
    fn refused_parcels_land_in_their_order_and_before_others() {
        let mut parcels = JobParcels::default();
        let [first, second] = [10, 11].map(|bytes| parcels.refuse(trip(1, 0, bytes), 5));
        assert!(parcels.is_next(&first) && !parcels.is_next(&second));
        assert!(!parcels.is_next(&trip(1, 0, 12)) && parcels.is_next(&trip(2, 0, 12)));
        // The target has had no turn since the first refusal, and one since the second. A parcel
        // that comes back later does not overtake.
        let (first, second) = (parcels.refuse(first, 6), parcels.refuse(second, 5));
        assert!(parcels.keep(first, 6).is_none() && parcels.keep(second, 6).is_none());
        assert!(parcels.await_turn(0) && !parcels.await_turn(1));
        let kept = parcels.take_kept(0);
        assert_eq!(kept.iter().map(|parcel| parcel.content.bytes()).collect::<Vec<_>>(), [10, 11]);
        assert!(parcels.is_next(&kept[0]));
        assert!(!parcels.settle(kept[0].way()) && parcels.is_next(&kept[1]));
        assert!(parcels.settle(kept[1].way()) && parcels.is_next(&trip(1, 0, 12)));
    }
}
