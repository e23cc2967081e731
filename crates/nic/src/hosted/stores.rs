//! The way to store long payloads for each peer: through the caches or past them ([`LongStores`]).
//!
//! No fixed table can decide this. The answer depends on the distance of the two cores, on how many
//! lines a core fetches at once for its stores, and on the distance of the memory; and it changes
//! while a job runs, where cores are virtual. So both ends measure now and then. The sender times
//! some of its stores, alternating between both ways, and marks them in their records. The receiver
//! times its loads of these payloads, and publishes the costs in its table, in the line that the
//! sender reads for each payload anyway. The sender uses the way with the smaller sum.
//!
//! ```text
//!   sender                                        receiver
//!   store, timed ──► record: sampled, its way ──► load, timed
//!        ▲                                          │ a whole round
//!        └─────────── source table: loads ◄─────────┘
//! ```
//!
//! A contribution to a round has such a sample in its control line, for the member after the
//! writer. Without it a program that sends no messages would never measure: a reduction of 16 KiB
//! between two cores of an EPYC, 490 ns a line, took 10.9 us and takes 3.3.
//!
//! Only the copies are timed, so neither the programs' computation nor the waiting between ranks
//! matters, and a single payload is enough for a sample. All other payloads read no clock.

use std::fmt;

use crate::ring::LongStores;
use crate::segment::SourceLine;
use crate::sync::{Ordering, fence};
use crate::time::Time;

/// Samples of each way in a round. The minimum counts: interruptions and page faults only add.
const SAMPLES: u8 = 4;

/// The number of long payloads between two rounds, at first and at most, and its growth factor. The
/// first rounds come soon: the ring has no lines yet that the receiver has read, and the cost of
/// the loads may not be known. Later the samples of the unused way are 4 in a thousand, and cost a
/// hundredth even where that way takes four times as long.
const PAUSE: u32 = 16;
const MOST_PAUSE: u32 = 1024;
const GROWTH: u32 = 4;

/// The other way is used when it costs at most this many sixteenths of the one in use, so chance
/// differences cause no change. While loads are unknown it must cost half: loads may have to pay
/// for what stores past the caches save.
const BETTER: u64 = 15;
const FAR_BETTER: u64 = 8;

/// Nanoseconds for 8 KiB, of each way.
type Costs = [u32; 2];

/// The ways of storing for one peer, by class of lengths.
#[derive(Debug)]
pub(super) struct PeerStores([StoreChoice; LongStores::CLASSES]);

impl PeerStores {
    /// The state for a peer to which nothing was stored yet. `fixed`: always store in this way.
    pub(super) fn new(fixed: Option<LongStores>) -> PeerStores {
        PeerStores(std::array::from_fn(|_| StoreChoice::new(fixed)))
    }

    /// The way in use.
    #[inline]
    pub(super) fn way(&self, length: usize) -> LongStores {
        self.0[LongStores::class_of(length)].way
    }

    /// The way for the next payload of `length` bytes. `source`: the peer's line for this rank.
    #[inline]
    pub(super) fn begin(
        &mut self,
        length: usize,
        source: &SourceLine,
        now: impl FnOnce() -> Time,
    ) -> Storing {
        if length < LongStores::FROM {
            return Storing { way: LongStores::Cached, began: None };
        }
        let class = LongStores::class_of(length);
        self.0[class].begin(source.loads(class), now)
    }

    /// Ends a store.
    #[inline]
    pub(super) fn end(&mut self, storing: Storing, length: usize, now: impl FnOnce() -> Time) {
        if let Storing { way, began: Some(began) } = storing {
            self.0[LongStores::class_of(length)].end_sample(way, began, length, now);
        }
    }

    /// Adds the counts of stores to `sum`.
    pub(super) fn add_to(&self, sum: &mut StoreCounts) {
        for (sum, choice) in sum.classes.iter_mut().zip(&self.0) {
            sum.add(choice.counts);
        }
    }
}

/// The way of storing payloads of one class for one peer, and the measurements of both ways.
#[derive(Debug)]
struct StoreChoice {
    way: LongStores,
    /// Nothing is measured: the job fixes the way, or no other core will load the payloads.
    is_fixed: bool,
    /// Long stores until the next sample, and those between the next two rounds.
    rest: u32,
    pause: u32,
    round: SampleRound,
    stored: Costs,
    /// The load costs in the peer's table; 0: it has not measured them.
    loads: u64,
    counts: ClassCounts,
}

/// A store that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storing {
    pub(super) way: LongStores,
    /// Its start, if it is a sample.
    began: Option<Time>,
}

/// The samples since the last whole round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampleRound {
    least: Costs,
    samples: [u8; 2],
}

impl StoreChoice {
    fn new(fixed: Option<LongStores>) -> StoreChoice {
        StoreChoice {
            way: fixed.unwrap_or_default(),
            is_fixed: fixed.is_some(),
            rest: 0,
            pause: PAUSE,
            round: SampleRound::default(),
            stored: [0; 2],
            loads: 0,
            counts: ClassCounts::default(),
        }
    }

    /// `loads`: the word in the peer's table.
    #[inline]
    fn begin(&mut self, loads: u64, now: impl FnOnce() -> Time) -> Storing {
        if self.loads != loads {
            self.loads = loads;
            self.decide();
        }
        let storing = match self.rest.checked_sub(1) {
            Some(rest) => {
                self.rest = rest;
                Storing { way: self.way, began: None }
            }
            None if self.is_fixed => {
                self.rest = u32::MAX;
                Storing { way: self.way, began: None }
            }
            None => self.begin_sample(now),
        };
        self.counts.stores[storing.way as usize] += 1;
        storing
    }

    #[cold]
    fn begin_sample(&mut self, now: impl FnOnce() -> Time) -> Storing {
        // Excludes earlier stores from the measurement.
        fence(Ordering::SeqCst);
        Storing { way: self.round.next(), began: Some(now()) }
    }

    #[cold]
    fn end_sample(
        &mut self,
        way: LongStores,
        began: Time,
        length: usize,
        now: impl FnOnce() -> Time,
    ) {
        // The time of a store includes the transfer of its lines.
        fence(Ordering::SeqCst);
        if let Some(costs) = self.round.note(way, now() - began, length) {
            self.stored = costs;
            self.rest = self.pause;
            self.pause = (self.pause * GROWTH).min(MOST_PAUSE);
            self.decide();
        }
    }

    /// Switches to the other way if that is better.
    fn decide(&mut self) {
        if self.is_fixed || self.stored == [0; 2] {
            return;
        }
        let (loaded, better) = match self.loads {
            0 => ([0; 2], FAR_BETTER),
            loads => (unpack(loads), BETTER),
        };
        let cost = |way: usize| u64::from(self.stored[way]) + u64::from(loaded[way]);
        let other = LongStores::ALL[1 - self.way as usize];
        if cost(other as usize) * 16 <= cost(self.way as usize) * better {
            self.way = other;
            self.counts.changes += 1;
        }
    }
}

impl Storing {
    /// The sample mark for the record: 0 if it is no sample, else the way plus one.
    #[inline]
    pub(super) fn sample(&self) -> u8 {
        self.began.map_or(0, |_| self.way as u8 + 1)
    }
}

/// The reverse of [`Storing::sample`].
#[inline]
pub(super) fn sampled_way(sample: u8) -> Option<LongStores> {
    LongStores::ALL.get(usize::from(sample).wrapping_sub(1)).copied()
}

impl SampleRound {
    /// The way of the next sample; the ways alternate.
    fn next(&self) -> LongStores {
        LongStores::ALL[usize::from(self.samples[0] > self.samples[1])]
    }

    /// Records the cost of a copy of `length` bytes. Returns the cost of each way when the round is
    /// complete.
    pub(super) fn note(&mut self, way: LongStores, took: Time, length: usize) -> Option<Costs> {
        let cost = took.nanoseconds().saturating_mul(8 << 10) / length.max(1) as u64;
        let cost = u32::try_from(cost).unwrap_or(u32::MAX).max(1);
        let (least, samples) = (&mut self.least[way as usize], &mut self.samples[way as usize]);
        *least = if *samples == 0 { cost } else { cost.min(*least) };
        *samples = samples.saturating_add(1);
        if self.samples.iter().any(|samples| *samples < SAMPLES) {
            return None;
        }
        let costs = self.least;
        *self = SampleRound::default();
        Some(costs)
    }
}

/// Costs as a word of the source table.
pub(super) fn pack([cached, past]: Costs) -> u64 {
    u64::from(past) << 32 | u64::from(cached)
}

fn unpack(word: u64) -> Costs {
    [word as u32, (word >> 32) as u32]
}

/// How long payloads were stored, by class of lengths; `hikyaku run --stats` prints it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounts {
    classes: [ClassCounts; LongStores::CLASSES],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ClassCounts {
    /// Through the caches, and past them.
    stores: [u64; 2],
    /// How often a rank has changed the way for a peer.
    changes: u64,
}

/// Words of a class.
const CLASS_WORDS: usize = 3;

impl ClassCounts {
    fn add(&mut self, other: ClassCounts) {
        for (sum, more) in self.stores.iter_mut().zip(other.stores) {
            *sum += more;
        }
        self.changes += other.changes;
    }
}

impl StoreCounts {
    /// The number of words that hold it.
    pub const WORDS: usize = LongStores::CLASSES * CLASS_WORDS;

    /// The counts, which can be added to those of another rank.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.classes.iter().flat_map(|class| [class.stores[0], class.stores[1], class.changes])
    }

    /// The reverse of [`StoreCounts::words`]. Missing words are zeros.
    pub fn of_words(words: &[u64]) -> StoreCounts {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let class = |class: usize| {
            let start = class * CLASS_WORDS;
            ClassCounts { stores: [word(start), word(start + 1)], changes: word(start + 2) }
        };
        StoreCounts { classes: std::array::from_fn(class) }
    }
}

/// A line for each class of lengths that has payloads.
impl fmt::Display for StoreCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (class, lengths) in self.classes.iter().zip(["4 to 8 KiB", "8 to 64 KiB", "more"]) {
            let ClassCounts { stores: [cached, past], changes } = class;
            if cached + past > 0 {
                write!(
                    f,
                    "{separator}payloads of {lengths}: {cached} stored through the caches, {past} \
                     past them; changed {changes} times"
                )?;
                separator = "\n";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fabric::{Command, Event, GroupPort, Landing, Port, RemoteAddress, Short, Space};
    use crate::loopback::{LoopbackConfig, LoopbackPort, open};

    const LENGTH: usize = 8 << 10;
    const CLASS: usize = 1;

    /// Nanoseconds of the store and the load of a packet, of each way.
    type Machine = [[u64; 2]; 2];

    /// As measured: near and far cores of an EPYC, and a Xeon, whose stores past the caches take
    /// less time and whose loads take more.
    const NEAR: Machine = [[700, 500], [500, 600]];
    const FAR: Machine = [[3000, 1200], [500, 700]];
    const XEON: Machine = [[800, 500], [600, 1100]];

    /// A sender and a receiver that take time by a table.
    struct Pair {
        sender: PeerStores,
        receiver: SampleRound,
        table: SourceLine,
        now: u64,
    }

    impl Pair {
        fn new() -> Pair {
            let (sender, table) = (PeerStores::new(None), SourceLine::default());
            Pair { sender, receiver: SampleRound::default(), table, now: 0 }
        }

        /// Sends `packets`, each of which takes the machine's time and the addition of `chance`.
        /// Returns how many went past the caches, and the nanoseconds of all.
        fn send(
            &mut self,
            packets: u64,
            machine: Machine,
            chance: impl Fn(u64) -> u64,
        ) -> (u64, u64) {
            let (mut past, mut all) = (0, 0);
            for packet in 0..packets {
                let time = Time::from_nanoseconds;
                let storing = self.sender.begin(LENGTH, &self.table, || time(self.now));
                let [store, load] = machine[storing.way as usize];
                self.now += store + chance(packet);
                self.sender.end(storing, LENGTH, || time(self.now));
                past += u64::from(storing.way == LongStores::PastCaches);
                if let Some(way) = sampled_way(storing.sample()) {
                    let took = time(load + chance(packet + 1));
                    if let Some(costs) = self.receiver.note(way, took, LENGTH) {
                        self.table.set_loads(CLASS, pack(costs));
                    }
                }
                all += store + load;
            }
            (past, all)
        }

        fn prefers(&self) -> LongStores {
            self.sender.way(LENGTH)
        }

        fn changes(&self) -> u64 {
            self.sender.0[CLASS].counts.changes
        }
    }

    fn no_chance(_: u64) -> u64 {
        0
    }

    #[test]
    fn the_way_whose_copies_take_less_together_is_taken() {
        use LongStores::{Cached, PastCaches};
        for (machine, faster) in [(NEAR, PastCaches), (FAR, PastCaches), (XEON, Cached)] {
            let mut pair = Pair::new();
            pair.send(100, machine, no_chance);
            assert_eq!(pair.prefers(), faster, "{machine:?}");
        }
    }

    #[test]
    fn samples_cost_a_hundredth() {
        for machine in [NEAR, FAR, XEON] {
            let mut pair = Pair::new();
            pair.send(10_000, machine, no_chance);
            let (past, all) = pair.send(100_000, machine, no_chance);
            let other = past.min(100_000 - past);
            assert!((300..500).contains(&other), "both are measured, seldom: {other}");
            let best = machine.map(|[store, load]| store + load).into_iter().min().unwrap();
            assert!(all * 100 <= best * 100_000 * 102, "{machine:?}: {all}");
        }
    }

    #[test]
    fn a_choice_follows_cores_that_become_near_or_far() {
        // Loads as in FAR, but cheap stores: near cores that do not contend for lines.
        let near: Machine = [[300, 200], [500, 700]];
        let mut pair = Pair::new();
        for (machine, faster) in [
            (near, LongStores::Cached),
            (FAR, LongStores::PastCaches),
            (near, LongStores::Cached),
            (XEON, LongStores::Cached),
            (FAR, LongStores::PastCaches),
        ] {
            // The loads of a round may be published only after it.
            pair.send(u64::from(2 * (MOST_PAUSE + 2 * u32::from(SAMPLES))), machine, no_chance);
            assert_eq!(pair.prefers(), faster, "{machine:?}");
        }
        assert_eq!(pair.changes(), 3);
    }

    #[test]
    fn interruptions_and_chance_change_nothing() {
        let mut pair = Pair::new();
        pair.send(1000, XEON, no_chance);
        let before = pair.changes();
        // One copy of some rounds is interrupted.
        pair.send(100_000, XEON, |packet| if packet % 11 == 0 { 30_000 } else { 0 });
        assert_eq!((pair.prefers(), pair.changes()), (LongStores::Cached, before));
        // Neither way is better than the other by more than chance.
        let mut pair = Pair::new();
        pair.send(100_000, [[500, 500], [500, 500]], |packet| packet * 7919 % 25);
        assert_eq!(pair.changes(), 0);
    }

    #[test]
    fn until_loads_are_measured_stores_must_take_half() {
        use LongStores::{Cached, PastCaches};
        for (machine, first) in [(NEAR, Cached), (XEON, Cached), (FAR, PastCaches)] {
            let (mut sender, table) = (PeerStores::new(None), SourceLine::default());
            let mut now = 0;
            for _ in 0..100 {
                let time = Time::from_nanoseconds;
                let storing = sender.begin(LENGTH, &table, || time(now));
                now += machine[storing.way as usize][0];
                sender.end(storing, LENGTH, || time(now));
            }
            assert_eq!(sender.way(LENGTH), first, "{machine:?}");
            // Published load costs count at once, for their class; and any value may be published.
            let other = LongStores::ALL[1 - first as usize];
            let mut loads = [9000; 2];
            loads[other as usize] = 1;
            table.set_loads(CLASS - 1, pack(loads));
            sender.begin(LENGTH, &table, || Time::ZERO);
            assert_eq!(sender.way(LENGTH), first, "{machine:?}");
            table.set_loads(CLASS, pack(loads));
            sender.begin(LENGTH, &table, || Time::ZERO);
            assert_eq!(sender.way(LENGTH), other, "{machine:?}");
            table.set_loads(CLASS, u64::MAX);
            sender.begin(LENGTH, &table, || Time::ZERO);
            assert_eq!(sender.way(LENGTH), other);
        }
    }

    #[test]
    fn lengths_have_classes_and_each_its_way() {
        let classes = [4 << 10, 8191, 8 << 10, 65_535, 64 << 10, usize::MAX];
        assert_eq!(classes.map(LongStores::class_of), [0, 0, 1, 1, 2, 2]);
        let mut pair = Pair::new();
        pair.send(100, FAR, no_chance);
        let ways = [4 << 10, LENGTH, 64 << 10].map(|length| pair.sender.way(length));
        assert_eq!(ways, [LongStores::Cached, LongStores::PastCaches, LongStores::Cached]);
    }

    #[test]
    fn short_payloads_and_a_fixed_way_read_no_clock() {
        let never = || -> Time { unreachable!() };
        let table = SourceLine::default();
        let mut sender = PeerStores::new(None);
        let storing = sender.begin(LongStores::FROM - 1, &table, never);
        sender.end(storing, LongStores::FROM - 1, never);
        assert_eq!((storing.way, storing.sample()), (LongStores::Cached, 0));
        for way in LongStores::ALL {
            let mut sender = PeerStores::new(Some(way));
            for loads in [0, pack([1, 100]), pack([100, 1])] {
                table.set_loads(CLASS, loads);
                let storing = sender.begin(LENGTH, &table, never);
                sender.end(storing, LENGTH, never);
                assert_eq!((storing.way, storing.sample()), (way, 0));
            }
            let mut stores = [0; 2];
            stores[way as usize] = 3;
            assert_eq!(sender.0[CLASS].counts, ClassCounts { stores, changes: 0 });
        }
    }

    #[test]
    fn a_record_says_what_is_sampled() {
        for way in LongStores::ALL {
            let storing = Storing { way, began: Some(Time::ZERO) };
            assert_eq!(sampled_way(storing.sample()), Some(way));
            assert_eq!(sampled_way(Storing { began: None, ..storing }.sample()), None);
        }
        for invalid in [0, 3, 255] {
            assert_eq!(sampled_way(invalid), None);
        }
    }

    /// Sends `messages` of one packet from the first port to the second, which receives by `take`.
    fn exchange(
        ports: &mut [LoopbackPort],
        messages: u8,
        take: impl Fn(&mut LoopbackPort, &mut [u8]),
    ) {
        for message in 0..messages {
            let payload = [message; LENGTH];
            assert_eq!(ports[0].post(&Command::send(1, 3, 5, &payload)), Ok(LENGTH));
            let mut into = [0xee; LENGTH];
            take(&mut ports[1], &mut into);
            assert!(into == payload);
        }
    }

    #[test]
    fn receivers_measure_what_they_copy_out_in_any_way() {
        let by_event = |port: &mut LoopbackPort, into: &mut [u8]| match port.poll() {
            Some(Event::Landed(landed)) => match landed.data {
                Landing::Ring(slice) => assert_eq!(port.read_out(slice, into), LENGTH),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let whole = |port: &mut LoopbackPort, into: &mut [u8]| {
            assert_eq!(port.receive_whole(0, 3, 5, into), Short::Taken(LENGTH));
        };
        for take in [&by_event as &dyn Fn(&mut LoopbackPort, &mut [u8]), &whole] {
            let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap();
            exchange(&mut ports, 2 * SAMPLES - 1, take);
            assert_eq!(ports[1].own.source(0).loads(CLASS), 0, "a round is not whole");
            exchange(&mut ports, 1, take);
            // The clock of this fabric stands still.
            assert_eq!(ports[1].own.source(0).loads(CLASS), pack([1, 1]));
            assert_eq!(ports[0].store_counts().classes[CLASS].stores, [4, 4]);
            // For messages to itself a rank measures nothing.
            for message in 1..3 {
                assert_eq!(ports[0].post(&Command::send(0, 3, 5, &[1; LENGTH])), Ok(LENGTH));
                assert_eq!(ports[0].receive_whole(0, 3, 5, &mut [0; LENGTH]), Short::Taken(LENGTH));
                let counts = ports[0].store_counts().classes[CLASS];
                assert_eq!(counts.stores, [4 + message, 4]);
            }
            assert_eq!(ports[0].stores_for(0, LENGTH), LongStores::Cached);
        }
    }

    #[test]
    fn contributions_are_measured_by_the_member_behind_the_writer() {
        let mut ports = open(&LoopbackConfig::for_ranks(3)).unwrap();
        let ids: Vec<_> = ports.iter_mut().map(|port| port.join(0, &[0, 1, 2], 0)).collect();
        let id = ids[0].unwrap();
        let mut round = |last: &mut [u8]| {
            let payload = [7; LENGTH];
            ports[0].contribute(id, 5, &[&payload[..100], &payload[100..]]).unwrap();
            for reader in [2, 1] {
                let found = ports[reader].contribution(id, 0).unwrap().unwrap();
                let mut into = [0; LENGTH];
                // A short load is no sample.
                assert_eq!(ports[reader].load_contribution(id, 0, &found, 1, &mut into[..9]), 9);
                assert_eq!(ports[reader].load_contribution(id, 0, &found, 0, last), last.len());
            }
            ports.iter_mut().for_each(|port| port.finish_round(id).unwrap());
            let known = [1, 2].map(|reader: usize| ports[reader].own.source(0).loads(CLASS));
            (known, ports[0].store_counts().classes[CLASS].stores)
        };
        for count in 1..2 * u64::from(SAMPLES) {
            let stores = [count.div_ceil(2), count / 2];
            assert_eq!(round(&mut [0; LENGTH]), ([0, 0], stores), "not whole");
        }
        // The clock of this fabric stands still.
        assert_eq!(round(&mut [0; LENGTH]), ([pack([1, 1]), 0], [4, 4]));
    }

    #[test]
    fn puts_are_measured_as_well() {
        let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap();
        for length in [LongStores::FROM - 1, LongStores::FROM, LENGTH, LENGTH, 64 << 10] {
            let rank = 1;
            let to = RemoteAddress { rank, space: Space::Region, offset: 0 };
            assert_eq!(ports[0].post(&Command::put(to, &vec![7; length])), Ok(length));
        }
        let counts = ports[0].store_counts().classes;
        assert_eq!(counts.map(|class| class.stores), [[1, 0], [1, 1], [1, 0]]);
    }

    #[test]
    fn counts_survive_as_words_and_are_said() {
        let mut counts = StoreCounts::default();
        assert_eq!(counts.to_string(), "");
        for (class, stores) in [(0, [1, 0]), (2, [5, 7])] {
            counts.classes[class].add(ClassCounts { stores, changes: 1 });
            counts.classes[class].add(ClassCounts { stores, changes: 0 });
        }
        let words: Vec<u64> = counts.words().collect();
        assert_eq!(words.len(), StoreCounts::WORDS);
        assert_eq!(StoreCounts::of_words(&words), counts);
        assert_eq!(StoreCounts::of_words(&[]), StoreCounts::default());
        assert_eq!(
            counts.to_string(),
            "payloads of 4 to 8 KiB: 2 stored through the caches, 0 past them; changed 1 times\n\
             payloads of more: 10 stored through the caches, 14 past them; changed 1 times"
        );
    }
}
