//! Makes an exchange: every rank announces its edges, then the addresses of their ends, and the two
//! ends of each edge are matched. Addresses are exchanged here and never again (TF-06).
//!
//! ```text
//!   1  ranks, bytes            all check them alike: a topology? which neighbours exchange
//!                              letters, which edges do queues serve, which of them are combined?
//!   2  queues, mailboxes, addresses
//! ```
//!
//! All ranks share their announcements before they check them. So a mistake of one rank is an error
//! on every rank, and no rank is left waiting. If one rank lacks resources (queues, slots, memory),
//! or an exchange exceeds a limit, all of it uses messages, at every rank.

use std::ops::Range;

use hikyaku_coll::persistent::{
    Channel, CombinedRank, IncomingEnd, NodeRank, PutSource, QueueLimits, QueueProgram, QueueStep,
    Scheme, combine,
};
use hikyaku_nic::fabric::{
    Activity, MailboxAddress, MailboxId, MailboxPort, Name, Port, QueueAddress, QueueCombine,
    QueueMode, QueuePort, Wait,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::ring::MailSlots;

use super::error::PersistentError;
use super::mail::{Correspondent, LetterPart, MOST_FAR, MOST_SHARED, MOST_STAGED, Mail};
use super::messages::MessageRounds;
use super::relays::{RelayMemory, arrange};
use super::tables::{Ends, Offer, ServedEnd, hear_ends, judge, tell_ends};
use crate::communicator::Communicator;
use crate::error::Error;

/// This rank's end of an edge, before it is matched.
#[derive(Debug, Clone)]
pub struct EdgeEnd {
    /// The rank at the other end.
    pub rank: u32,
    /// The ranges of the program's buffer. In shared memory there is one.
    pub runs: Vec<Range<usize>>,
}

impl EdgeEnd {
    /// The bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len() as u64).sum()
    }
}

/// A rank's ends of edges, the outgoing ones first; or the error that prevents them.
pub type Checked<E> = Result<(Vec<EdgeEnd>, Vec<EdgeEnd>), E>;

/// The offsets of an edge's data in a rank's region, used in turn.
pub type Places = [u64; 2];

/// A complete put along an outgoing edge. Most edges have one.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingEdge {
    /// Bytes per round.
    pub(super) bytes: u64,
    /// The offsets of the data in this rank's region.
    pub(super) from: Places,
    /// The offsets of the data in the other rank's region.
    pub(super) at: Places,
    /// The queue that counts its arrival.
    pub(super) event: QueueAddress,
    /// Whether the other end has room for two rounds, so that this one need not wait for it.
    pub(super) ahead: bool,
    /// Whether it is the edge's last put, whose arrival counts.
    pub(super) notify: bool,
    /// Slots of that queue that the data releases.
    pub(super) release: u32,
}

/// A complete incoming edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncomingEdge {
    /// The queue that waits for this rank's READY-TO-RECV, and the number of slots that it
    /// releases.
    pub(super) queue: QueueAddress,
    pub(super) ready: u32,
    /// Whether there is room for the data of two rounds.
    pub(super) ahead: bool,
}

/// The use of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The same buffers in every round.
    Fixed,
    /// Two in turn: data received in one is sent from it in the next round.
    Turning,
    /// The exchange's own places, of which an incoming edge has two.
    Staged,
}

/// A command queue of this rank with its program.
#[derive(Debug)]
pub(super) struct RoundQueue {
    pub(super) address: QueueAddress,
    pub(super) program: QueueProgram,
    /// The number of arrivals per round.
    pub(super) arrivals: u64,
}

/// Everything that a rank needs for its rounds. Edges are those that queues serve.
#[derive(Debug)]
pub struct ExchangeWiring {
    pub(super) queues: Vec<RoundQueue>,
    /// Edges of the program's data, in the order of their ends, then those of relays.
    pub(super) outs: Vec<OutgoingEdge>,
    /// The number of `outs` with the program's data.
    pub(super) own: usize,
    pub(super) ins: Vec<IncomingEdge>,
    /// The computations of the queues.
    pub(super) combines: Vec<QueueCombine>,
    pub(super) others: OtherQueues,
    /// The memory of relays, until it is dropped. Boxed, since few exchanges have it.
    pub(super) relays: Option<Box<RegionBuffer>>,
    pub(super) mail: Mail,
    /// Present if the exchange uses messages: then the rest is empty. Boxed, as above.
    pub(super) messages: Option<Box<MessageRounds>>,
    /// The wait for a round, as it is announced.
    pub(super) wait: Wait,
    /// The number of rounds after which the queues' slots hold the same commands again.
    pub(super) period: u64,
}

impl ExchangeWiring {
    /// The wiring of an exchange without edges.
    pub(super) fn nothing() -> ExchangeWiring {
        let wait = Wait::new(Activity::Collective).named(Name::new("persistent exchange"));
        let (queues, outs, ins, combines) = Default::default();
        let (own, relays, mail, messages) = Default::default();
        let others = OtherQueues::new(&[], &[], Vec::new());
        let period = 1;
        ExchangeWiring {
            queues,
            outs,
            own,
            ins,
            combines,
            others,
            relays,
            mail,
            messages,
            wait,
            period,
        }
    }

    /// Whether its rounds go by messages.
    pub(super) fn is_by_messages(&self) -> bool {
        self.messages.is_some()
    }
}

/// The other ranks' queues that a round depends on, once each.
#[derive(Debug)]
pub(super) struct OtherQueues {
    /// Queues of sources first.
    pub(super) all: Vec<QueueAddress>,
    sources: usize,
}

impl OtherQueues {
    /// The queues at the other ends of edges, and the `watched` ones.
    pub(super) fn new(
        outs: &[OutgoingEdge],
        ins: &[IncomingEdge],
        watched: Vec<QueueAddress>,
    ) -> OtherQueues {
        let mut others = OtherQueues { all: Vec::new(), sources: 0 };
        ins.iter().for_each(|edge| others.add(edge.queue));
        others.sources = others.all.len();
        outs.iter().map(|edge| edge.event).chain(watched).for_each(|queue| others.add(queue));
        others
    }

    fn add(&mut self, queue: QueueAddress) {
        if !self.all.contains(&queue) {
            self.all.push(queue);
        }
    }

    /// The queues of sources.
    pub(super) fn sources(&self) -> &[QueueAddress] {
        &self.all[..self.sources]
    }
}

/// The resources that a rank takes for an exchange before others know of it.
#[derive(Debug, Default)]
struct Taken {
    queues: Vec<RoundQueue>,
    relays: RelayMemory,
    boxes: Vec<(MailboxId, MailboxAddress)>,
}

/// The permitted ways of an exchange. If none is possible it uses messages, at every rank.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The scheme of the queues, if the program requests one. Otherwise the communicator's choices
    /// apply, if they have any.
    pub scheme: Option<Scheme>,
    /// The maximum bytes of an edge, if there is a limit. One rank's limit holds for all.
    pub most: Option<u64>,
    /// Whether all of it must use letters.
    pub letters_alone: bool,
    /// The tag of its messages among those of its communicator's neighbours. `None`: the creator of
    /// the exchange sends them.
    pub messages: Option<i32>,
}

impl Terms {
    /// Any way.
    pub const ANY: Terms = Terms { scheme: None, most: None, letters_alone: false, messages: None };

    /// Letters only.
    pub const LETTERS: Terms = Terms { letters_alone: true, ..Terms::ANY };

    /// The scheme of an exchange of `world` on these terms, if one is requested.
    pub fn scheme_in(&self, world: &Communicator) -> Option<Scheme> {
        let chosen = || world.choices().sessions.exchange.filter(|_| !self.letters_alone);
        self.scheme.or_else(chosen)
    }
}

/// Makes an exchange of the edges in `checked`, or of none if this rank has made a mistake. `place`
/// receives the ends that queues serve and returns the places of their data; `share` gives all
/// ranks the words of each, by rank of `world`. Every participating rank calls it. `None`: it uses
/// messages, at every rank, and the terms have no tag for them.
///
/// # Errors
/// A rank has made a mistake, or the ends of an edge disagree: on every rank. Or a rank is gone.
pub fn set_up<E: From<Error>>(
    world: &Communicator,
    (terms, buffers): (Terms, Use),
    checked: Checked<E>,
    share: impl Fn(&[u32]) -> Result<Vec<Vec<u32>>, E>,
    place: impl FnOnce(&[EdgeEnd], &[EdgeEnd]) -> Result<(Vec<Places>, Vec<Places>), E>,
) -> Result<Option<ExchangeWiring>, E> {
    let scheme = terms.scheme_in(world);
    let period = if buffers == Use::Turning { 2 } else { 1 };
    let staged = buffers == Use::Staged;
    let most = if scheme == Some(Scheme::Messages) { Some(0) } else { terms.most };
    let offer = Offer { most, ..offer_of(world, scheme, (buffers, period)) };
    let words = checked.as_ref().map_or(vec![0], |(outs, ins)| tell_ends(outs, ins, offer, staged));
    let shared = share(&words);
    let (outs, ins) = checked?;
    let tables = hear_ends(&shared?).map_err(Error::from)?;
    let by_messages = |outs: &[EdgeEnd], ins: &[EdgeEnd]| {
        let messages = MessageRounds::new(terms.messages?, outs, ins);
        Some(ExchangeWiring { messages: Some(Box::new(messages)), ..ExchangeWiring::nothing() })
    };
    let is_small = judge(&tables).map_err(Error::from)?;
    let choice = LetterChoice { world, tables: &tables };
    if !is_small || !choice.fits_hosts() || (terms.letters_alone && !choice.is_all_by_mail()) {
        return Ok(by_messages(&outs, &ins));
    }
    let all = (outs.clone(), ins.clone());
    let (mail_outs, outs) = choice.part(outs);
    let (mail_ins, ins) = choice.part(ins);
    let combined = combine(&choice.by_queue());
    let own = &combined[world.rank() as usize];
    let (outs, ins) = arrange(own, &outs, &ins);
    let mut taken = Taken::default();
    let ours = place(&outs, &ins).ok().and_then(|places| {
        taken.relays = RelayMemory::take(world, own).ok()?;
        taken.queues = take_queues(world, own, scheme, period)?;
        taken.boxes = take_boxes(world, &mail_outs, &mail_ins)?;
        Some(places)
    });
    let lacking = vec![0];
    let addresses = ours
        .as_ref()
        .map_or_else(|| lacking.clone(), |(_, in_places)| tell(own, in_places, &taken, staged));
    let wired = share(&addresses).and_then(|shared| {
        let Some((places, _)) = ours.filter(|_| !shared.contains(&lacking)) else {
            return Ok(None);
        };
        let told = Addresses::hear(&choice, &combined, &shared)?;
        let mail = told.mail(world, (&mail_outs, &mail_ins), &taken.boxes)?;
        let wired = told.wire(world.rank(), &places, &taken.relays);
        Ok(Some((wired, mail, told.watched(world.rank()))))
    });
    match wired {
        Ok(Some(((outs, ins), mail, watched))) => {
            let (queues, relays) = (taken.queues, taken.relays.memory.map(Box::new));
            let others = OtherQueues::new(&outs, &ins, watched);
            let (own, period) = (own.own_puts().len(), period.into());
            let nothing = ExchangeWiring::nothing();
            let made = ExchangeWiring { queues, outs, own, ins, others, ..nothing };
            Ok(Some(ExchangeWiring { relays, mail, period, ..made }))
        }
        unwired => {
            give_back(world, taken);
            unwired.map(|_| by_messages(&all.0, &all.1))
        }
    }
}

/// This rank's resources for an exchange: bytes for letters, and room for relays.
fn offer_of(world: &Communicator, scheme: Option<Scheme>, (buffers, period): (Use, u32)) -> Offer {
    let engine = world.engine().borrow();
    let port = engine.port();
    let asks_for_queues = matches!(scheme, Some(Scheme::Fast | Scheme::Mrc));
    let letters = match buffers {
        _ if asks_for_queues || !port.capabilities().mailboxes => 0,
        Use::Staged => MOST_STAGED,
        Use::Fixed | Use::Turning => MOST_SHARED,
    };
    let relays = match (scheme, port.free_queues()) {
        // The other half is for the edges of the program.
        (Some(Scheme::Combined), (queues, slots)) => {
            QueueLimits { queues: queues / 2, slots: slots / period }
        }
        _ => QueueLimits::default(),
    };
    Offer { letters, relays, most: None }
}

/// Destroys mailboxes, and queues without commands.
fn give_back(world: &Communicator, taken: Taken) {
    let mut engine = world.engine().borrow_mut();
    for queue in &taken.queues {
        // No other rank knows them yet, or has written to them, so this cannot be refused.
        let _ = engine.port_mut().destroy_queue(queue.address.queue);
    }
    for (id, address) in taken.boxes {
        // No rank writes to them: they have no writer but this rank that could end them.
        engine.port_mut().end_mail(address, hikyaku_nic::fabric::MailEnd::Retired { rounds: 0 });
        engine.port_mut().close_mailbox(id);
    }
}

/// The choice of neighbours that exchange letters: every rank gets the same result.
struct LetterChoice<'t> {
    world: &'t Communicator,
    tables: &'t [Ends],
}

impl LetterChoice<'_> {
    /// Whether two ranks do. Ranks on two hosts exchange nothing else: no queue reaches further.
    fn by_mail(&self, one: u32, other: u32) -> bool {
        if self.are_apart(one, other) {
            return true;
        }
        let node = |rank| self.world.node_of(rank);
        let ends = |rank: u32| &self.tables[rank as usize];
        let most = ends(one).offer.letters.min(ends(other).offer.letters);
        let small = |from: u32, to: u32| {
            let bytes = ends(from).outs.iter().filter(|end| end.0 == to).map(|end| end.1);
            bytes.fold(0, u64::saturating_add) <= u64::from(most)
        };
        most > 0 && node(one) == node(other) && small(one, other) && small(other, one)
    }

    /// Whether two ranks are on different hosts.
    fn are_apart(&self, one: u32, other: u32) -> bool {
        let engine = self.world.engine().borrow();
        let host = engine.port().host();
        let host_of = |rank| self.world.in_job(rank).map_or(0, |rank| host.host_of(rank));
        host.hosts().is_some() && host_of(one) != host_of(other)
    }

    /// Whether the data for ranks on other hosts fits in letters. Every rank gets the same result.
    fn fits_hosts(&self) -> bool {
        let fits = |(one, ends): (u32, &Ends)| {
            ends.outs.iter().all(|(other, _)| {
                let to_it = ends.outs.iter().filter(|end| end.0 == *other);
                let bytes = to_it.map(|end| end.1).fold(0, u64::saturating_add);
                bytes <= MOST_FAR || !self.are_apart(one, *other)
            })
        };
        (0..).zip(self.tables).all(fits)
    }

    /// Whether all neighbours exchange letters.
    fn is_all_by_mail(&self) -> bool {
        let by_mail = |(rank, ends): (u32, &Ends)| {
            ends.outs.iter().chain(&ends.ins).all(|end| self.by_mail(rank, end.0))
        };
        (0..).zip(self.tables).all(by_mail)
    }

    /// Splits this rank's ends into those whose peers exchange letters with it, and the others.
    fn part(&self, ends: Vec<EdgeEnd>) -> (Vec<EdgeEnd>, Vec<EdgeEnd>) {
        ends.into_iter().partition(|end| self.by_mail(self.world.rank(), end.rank))
    }

    /// The ranks with their edges that queues serve, in the order of their lists.
    fn by_queue(&self) -> Vec<NodeRank> {
        let rank = |(rank, ends): (u32, &Ends)| {
            let Ends { outs, ins, starts, offer } = ends;
            let outs = outs.iter().filter(|end| !self.by_mail(rank, end.0));
            let ins = ins.iter().enumerate().filter(|(_, end)| !self.by_mail(rank, end.0));
            let into = |(edge, end): (usize, &(u32, u64))| {
                let start = starts.get(edge).copied().flatten();
                IncomingEnd { rank: end.0, bytes: end.1, start }
            };
            NodeRank {
                node: self.world.node_of(rank),
                room: offer.relays,
                outs: outs.copied().collect(),
                ins: ins.map(into).collect(),
            }
        };
        (0..).zip(self.tables).map(rank).collect()
    }
}

/// Creates this rank's queues: those of relays, then those of the program's edges. `None`: there
/// are not enough, and none is taken.
fn take_queues(
    world: &Communicator,
    own: &CombinedRank,
    scheme: Option<Scheme>,
    period: u32,
) -> Option<Vec<RoundQueue>> {
    let mut taken = Vec::new();
    let relays = own.relays.iter().map(|relay| relay.program.clone());
    let done = take_each(world, relays, period, &mut taken).and_then(|()| {
        let (queues, slots) = world.engine().borrow().port().free_queues();
        let limits = QueueLimits { queues, slots: slots / period };
        let programs = own.plan(limits, scheme).ok()?;
        take_each(world, programs.into_iter(), period, &mut taken)
    });
    if done.is_none() {
        give_back(world, Taken { queues: taken, ..Taken::default() });
        return None;
    }
    Some(taken)
}

/// Creates a queue for each program. `None`: there are not enough.
fn take_each(
    world: &Communicator,
    programs: impl Iterator<Item = QueueProgram>,
    period: u32,
    taken: &mut Vec<RoundQueue>,
) -> Option<()> {
    for program in programs {
        let mode = match program.offset {
            None => QueueMode::Normal,
            Some(offset) => QueueMode::Session { offset },
        };
        let slots = program.steps.len() as u32 * period;
        let made = world.engine().borrow_mut().port_mut().create_queue(mode, slots);
        let address = made.ok()?;
        let ready = program.steps.iter().filter(|step| matches!(step, QueueStep::Ready(_)));
        taken.push(RoundQueue { address, arrivals: ready.count() as u64, program });
    }
    Some(())
}

/// The ranks at the other ends of edges, in the order of the lists.
pub(super) fn correspondents(outs: &[EdgeEnd], ins: &[EdgeEnd]) -> Vec<u32> {
    let mut ranks: Vec<u32> = Vec::new();
    for end in outs.iter().chain(ins) {
        if !ranks.contains(&end.rank) {
            ranks.push(end.rank);
        }
    }
    ranks
}

/// Opens a mailbox for each neighbour. `None`: there is not enough memory, and none is open.
fn take_boxes(
    world: &Communicator,
    outs: &[EdgeEnd],
    ins: &[EdgeEnd],
) -> Option<Vec<(MailboxId, MailboxAddress)>> {
    let mut taken = Taken::default();
    for rank in correspondents(outs, ins) {
        let room = parts(ins, rank).1;
        let open = |writer| world.engine().borrow_mut().port_mut().open_mailbox(writer, room);
        let Some(made) = world.in_job(rank).ok().and_then(|writer| open(writer).ok()) else {
            give_back(world, taken);
            return None;
        };
        taken.boxes.push(made);
    }
    Some(taken.boxes)
}

/// The parts of a letter to or from a rank, and its size in bytes.
fn parts(ends: &[EdgeEnd], rank: u32) -> (Vec<LetterPart>, u32) {
    let mut at = 0;
    let part = |run: &Range<usize>| {
        let part = LetterPart { at, span: run.clone() };
        at += run.len() as u32;
        part
    };
    let parts = runs_with(ends, rank).map(part).collect();
    (parts, at)
}

/// The ranges of this rank's buffer for the edges with a rank.
pub(super) fn runs_with(ends: &[EdgeEnd], rank: u32) -> impl Iterator<Item = &Range<usize>> {
    ends.iter().filter(move |end| end.rank == rank).flat_map(|end| &end.runs)
}

/// The queue that serves an end of an edge.
fn serving(queues: &[RoundQueue], step: QueueStep) -> &RoundQueue {
    let found = queues.iter().find(|queue| queue.program.steps.contains(&step));
    found.expect("a plan serves every edge")
}

/// This rank's announcement of its ends of edges: the queue of each, and the place of an incoming
/// edge's data; and its mailboxes. `double`: the program's incoming edges have room for two rounds.
fn tell(own: &CombinedRank, in_places: &[Places], taken: &Taken, double: bool) -> Vec<u32> {
    let mut words = vec![1];
    let mut add = |peer: u32, (channel, step): (Channel, QueueStep), places: Places| {
        let RoundQueue { address, program, .. } = serving(&taken.queues, step);
        let alone = double && channel == Channel::Direct && program.serves_one_neighbour();
        let told = ServedEnd {
            peer,
            // A second place that cannot be used before the first is free would be useless.
            at: if double && !alone { [places[0]; 2] } else { places },
            queue: *address,
            ready: program.ready,
            alone,
        };
        words.extend(told.to_words());
    };
    for out in &own.outs {
        add(out.peer, (out.channel, QueueStep::Data(out.puts.start)), [0; 2]);
    }
    for (edge, into) in own.ins.iter().enumerate() {
        let places = match edge.checked_sub(own.own.1) {
            None => in_places[edge],
            Some(relayed) => taken.relays.place(own.into[relayed]),
        };
        add(into.peer, (into.channel, QueueStep::Ready(edge)), places);
    }
    for (_, address) in &taken.boxes {
        words.extend([address.at as u32, (address.at >> 32) as u32, address.slots.count]);
    }
    words
}

/// The addresses of edge ends that all ranks have announced.
struct Addresses<'t> {
    combined: &'t [CombinedRank],
    outs: Vec<Vec<ServedEnd>>,
    ins: Vec<Vec<ServedEnd>>,
    /// For each rank, its letter peers with the addresses of their mailboxes and the slots of
    /// these.
    boxes: Vec<Vec<(u32, u64, u32)>>,
}

impl<'t> Addresses<'t> {
    fn hear(
        choice: &LetterChoice<'_>,
        combined: &'t [CombinedRank],
        shared: &[Vec<u32>],
    ) -> Result<Addresses<'t>, Error> {
        let (outs, ins, boxes) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Addresses { combined, outs, ins, boxes };
        for (rank, (edges, words)) in (0..).zip(combined.iter().zip(shared)) {
            let Ends { outs: all_outs, ins: all_ins, .. } = &choice.tables[rank as usize];
            let mut letters: Vec<u32> = Vec::new();
            for (peer, _) in all_outs.iter().chain(all_ins) {
                if choice.by_mail(rank, *peer) && !letters.contains(peer) {
                    letters.push(*peer);
                }
            }
            let told = (edges.outs.len() + edges.ins.len()) * ServedEnd::WORDS;
            let elsewhere = PersistentError::Elsewhere { rank };
            let [1, words @ ..] = &words[..] else { return Err(elsewhere.into()) };
            if words.len() != told + 3 * letters.len() {
                return Err(elsewhere.into());
            }
            let (ends, boxes) = words.split_at(told);
            let in_job = choice.world.in_job(rank)?;
            let ends =
                ends.chunks_exact(ServedEnd::WORDS).map(|words| ServedEnd::hear(in_job, words));
            let ends: Vec<ServedEnd> = ends.collect();
            // The same neighbours as before, in the same order.
            let outs = edges.outs.iter().map(|out| &out.peer);
            let peers = outs.chain(edges.ins.iter().map(|into| &into.peer));
            if !ends.iter().map(|end| &end.peer).eq(peers) {
                return Err(elsewhere.into());
            }
            let (told_outs, told_ins) = ends.split_at(edges.outs.len());
            all.outs.push(told_outs.to_vec());
            all.ins.push(told_ins.to_vec());
            let at = |words: &[u32]| u64::from(words[1]) << 32 | u64::from(words[0]);
            let boxes = letters.into_iter().zip(boxes.chunks_exact(3));
            all.boxes.push(boxes.map(|(peer, words)| (peer, at(words), words[2])).collect());
        }
        Ok(all)
    }

    /// Completes the edges of a rank that queues serve; `from` has the places of its own puts'
    /// data.
    fn wire(
        &self,
        rank: u32,
        from: &[Places],
        relays: &RelayMemory,
    ) -> (Vec<OutgoingEdge>, Vec<IncomingEdge>) {
        let own = &self.combined[rank as usize];
        let (mut outs, mut ins) = (Vec::new(), Vec::new());
        for (edge, out) in own.outs.iter().enumerate() {
            let told = &self.outs[rank as usize][edge];
            let keys = own.outs.iter().map(|end| (end.peer, end.channel));
            let others = self.combined[out.peer as usize].ins.iter();
            let others = others.map(|end| (end.peer, end.channel));
            let theirs = &self.ins[out.peer as usize][other_end(keys, edge, others, rank)];
            let ahead = told.alone && theirs.alone;
            let at = if theirs.alone && !ahead { [theirs.at[0]; 2] } else { theirs.at };
            for number in out.puts.clone() {
                let put = own.puts[number];
                let from = match put.from {
                    PutSource::Edge(_) => from[number],
                    PutSource::Relay(relay, at) => relays.place(relay).map(|place| place + at),
                };
                let at = at.map(|place| place.wrapping_add(put.into));
                let notify = number + 1 == out.puts.end;
                let release = if notify { out.channel.releases() } else { 0 };
                let (bytes, event) = (put.bytes, theirs.queue);
                outs.push(OutgoingEdge { bytes, from, at, event, ahead, notify, release });
            }
        }
        for (edge, into) in own.ins.iter().enumerate() {
            let told = &self.ins[rank as usize][edge];
            let keys = own.ins.iter().map(|end| (end.peer, end.channel));
            let others = self.combined[into.peer as usize].outs.iter();
            let others = others.map(|end| (end.peer, end.channel));
            let theirs = &self.outs[into.peer as usize][other_end(keys, edge, others, rank)];
            let ahead = told.alone && theirs.alone;
            ins.push(IncomingEdge { queue: theirs.queue, ready: theirs.ready, ahead });
        }
        (outs, ins)
    }

    /// The queues of all ranks that take part in the crossings of this rank's edges: a round here
    /// depends on them, through the representatives.
    fn watched(&self, rank: u32) -> Vec<QueueAddress> {
        let channels = |edges: &CombinedRank| {
            let outs = edges.outs.iter().map(|out| out.channel);
            outs.chain(edges.ins.iter().map(|into| into.channel)).collect::<Vec<_>>()
        };
        let own = channels(&self.combined[rank as usize]);
        let own: Vec<u32> = own.into_iter().filter_map(Channel::crossing).collect();
        let mut watched = Vec::new();
        for (number, edges) in self.combined.iter().enumerate() {
            let told = self.outs[number].iter().chain(&self.ins[number]);
            let ends = told.zip(channels(edges)).filter(|(_, channel)| {
                number as u32 != rank && channel.crossing().is_some_and(|it| own.contains(&it))
            });
            watched.extend(ends.map(|(told, _)| told.queue));
        }
        watched
    }

    /// Completes a rank's letters.
    fn mail(
        &self,
        world: &Communicator,
        (outs, ins): (&[EdgeEnd], &[EdgeEnd]),
        boxes: &[(MailboxId, MailboxAddress)],
    ) -> Result<Mail, Error> {
        let with = correspondents(outs, ins).into_iter().zip(boxes);
        let mail = with.map(|(peer, (own, _))| {
            let (outs, room) = parts(outs, peer);
            let found = self.boxes[peer as usize].iter().find(|(from, ..)| *from == world.rank());
            let (_, at, count) = *found.expect("both ends exchange letters or none");
            let rank = world.in_job(peer)?;
            let theirs = MailboxAddress { rank, at, slots: MailSlots { room, count } };
            Ok(Correspondent { rank, own: *own, theirs, outs, ins: parts(ins, peer).0 })
        });
        Ok(Mail(mail.collect::<Result<_, Error>>()?))
    }
}

/// The index in a peer's `theirs` of the other end of the edge at index `edge` of `ends`, which are
/// `rank`'s. Among several edges of one channel between the two ranks, both lists have the same
/// order.
fn other_end(
    mut ends: impl Iterator<Item = (u32, Channel)> + Clone,
    edge: usize,
    theirs: impl Iterator<Item = (u32, Channel)>,
    rank: u32,
) -> usize {
    let key = ends.clone().nth(edge).expect("it is one of them");
    let before = ends.by_ref().take(edge).filter(|end| *end == key).count();
    let mut found = theirs.enumerate().filter(|(_, end)| *end == (rank, key.1));
    found.nth(before).expect("as many edges were counted at both ends").0
}
