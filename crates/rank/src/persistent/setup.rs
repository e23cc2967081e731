//! Making an exchange: every rank says what edges it has, then where their ends are, and the two
//! ends of each edge are put together. Addresses go round here and never again (TF-06).
//!
//! ```text
//!   1  who, how many bytes     judged by all alike: is it a topology? which neighbours exchange
//!                              letters, which edges are served by queues?
//!   2  queues, mailboxes, addresses
//! ```
//!
//! What each rank says is shared by all before anything is judged, so that a mistake, or a want of
//! memory or queues, on one rank is an error on every rank and nobody is left waiting.

use std::ops::Range;

use hikyaku_coll::persistent::{QueueLimits, QueueProgram, QueueStep, Scheme, plan};
use hikyaku_nic::fabric::{
    Activity, MailboxAddress, MailboxId, MailboxPort, Name, Port, QueueAddress, QueueCombine,
    QueueMode, QueuePort, Wait,
};
use hikyaku_nic::ring::MailSlots;

use super::error::PersistentError;
use super::mail::{Correspondent, LetterPart, MOST_FAR, MOST_SHARED, MOST_STAGED, Mail};
use super::tables::{Ends, ServedEnd, hear_ends, judge, tell_ends};
use crate::communicator::Communicator;
use crate::error::Error;

/// This rank's end of an edge, before it is known who is at the other.
#[derive(Debug, Clone)]
pub struct EdgeEnd {
    /// Who is at the other end.
    pub rank: u32,
    /// Bytes of the program's buffer, run after run. In shared memory it is one.
    pub runs: Vec<Range<usize>>,
}

impl EdgeEnd {
    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len() as u64).sum()
    }
}

/// A rank's ends of edges, those that lead away first; or why it has none.
pub type Checked<E> = Result<(Vec<EdgeEnd>, Vec<EdgeEnd>), E>;

/// Where the data of an edge is, or goes, in this rank's region, by turns.
pub type Places = [u64; 2];

/// An edge that leads away, complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingEdge {
    /// How much goes along it in a round.
    pub(super) bytes: u64,
    /// Where the data is in this rank's region.
    pub(super) from: Places,
    /// Where the data goes in the other's region.
    pub(super) at: Places,
    /// The queue that counts its arrival.
    pub(super) event: QueueAddress,
    /// Whether the other end has room for two rounds, so that this one need not wait for it.
    pub(super) ahead: bool,
    /// Slots of that queue that the data releases.
    pub(super) release: u32,
}

/// An edge that leads here, complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncomingEdge {
    /// The queue that waits for this rank's READY-TO-RECV, and how many slots that releases.
    pub(super) queue: QueueAddress,
    pub(super) ready: u32,
    /// Whether there is room for the data of two rounds.
    pub(super) ahead: bool,
}

/// How a rank's buffers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The same in every round.
    Fixed,
    /// Two in turn: what comes into one is sent from it in the next round.
    Turning,
    /// Places of the exchange's own, of which an incoming edge has two.
    Staged,
}

/// A command queue of this rank and what it does in a round.
#[derive(Debug)]
pub(super) struct RoundQueue {
    pub(super) address: QueueAddress,
    pub(super) program: QueueProgram,
    /// Arrivals of a round.
    pub(super) arrivals: u64,
}

/// Everything that a rank needs to know for its rounds. Edges are those that queues serve.
#[derive(Debug)]
pub struct ExchangeWiring {
    pub(super) queues: Vec<RoundQueue>,
    pub(super) outs: Vec<OutgoingEdge>,
    pub(super) ins: Vec<IncomingEdge>,
    /// What the queues compute.
    pub(super) combines: Vec<QueueCombine>,
    pub(super) mail: Mail,
    /// What a wait for a round is announced as.
    pub(super) wait: Wait,
    /// Rounds after which the queues' slots hold the same commands again.
    pub(super) period: u64,
}

/// What a rank takes for an exchange before others know of it.
#[derive(Debug, Default)]
struct Taken {
    queues: Vec<RoundQueue>,
    boxes: Vec<(MailboxId, MailboxAddress)>,
}

/// How an exchange may be carried out; else it is not made, on any rank.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How queues are to serve it, if it is the program's wish.
    pub scheme: Option<Scheme>,
    /// Bytes of an edge at most.
    pub most: u64,
    /// Whether all of it must go by letter.
    pub letters_alone: bool,
}

impl Terms {
    /// In any way.
    pub const ANY: Terms = Terms { scheme: None, most: u64::MAX, letters_alone: false };

    /// By letter.
    pub const LETTERS: Terms = Terms { letters_alone: true, ..Terms::ANY };
}

/// Makes an exchange of the edges `checked`, or of nothing if this rank has made a mistake. `place`
/// is told the ends that queues serve and says where their data is; `share` gives all ranks the
/// words of each, by rank of `world`. Every rank that has a part in it calls.
pub fn set_up<E: From<Error>>(
    world: &Communicator,
    (terms, buffers): (Terms, Use),
    checked: Checked<E>,
    share: impl Fn(&[u32]) -> Result<Vec<Vec<u32>>, E>,
    place: impl FnOnce(&[EdgeEnd], &[EdgeEnd]) -> Result<(Vec<Places>, Vec<Places>), E>,
) -> Result<ExchangeWiring, E> {
    let Terms { scheme, most, letters_alone } = terms;
    let letters = letters_of(world, scheme, buffers);
    let words = checked.as_ref().map_or(vec![0], |(outs, ins)| tell_ends(outs, ins, letters));
    let shared = share(&words);
    let (outs, ins) = checked?;
    let tables = hear_ends(&shared?).map_err(Error::from)?;
    judge(&tables, most).map_err(Error::from)?;
    let period = if buffers == Use::Turning { 2 } else { 1 };
    let choice = LetterChoice { world, tables: &tables };
    if letters_alone && !choice.is_all_by_mail() {
        return Err(Error::from(PersistentError::NoLetters).into());
    }
    choice.check_hosts().map_err(Error::from)?;
    let (mail_outs, outs) = choice.part(outs);
    let (mail_ins, ins) = choice.part(ins);
    let mut taken = Taken::default();
    let ours = place(&outs, &ins).and_then(|places| {
        taken.queues = take_queues(world, (&outs, &ins), scheme, period)?;
        taken.boxes = take_boxes(world, &mail_outs, &mail_ins)?;
        Ok(places)
    });
    let addresses = ours.as_ref().map_or(vec![0], |(out_places, in_places)| {
        tell((&outs, out_places), (&ins, in_places), &taken, buffers == Use::Staged)
    });
    let shared = share(&addresses);
    let wired = ours.and_then(|(places, _)| {
        let told = Addresses::hear(&choice, &shared?)?;
        let (outs, ins) = told.wire(world.rank(), &outs, &places);
        let mail = told.mail(world, (&mail_outs, &mail_ins), &taken.boxes)?;
        Ok((outs, ins, mail))
    });
    match wired {
        Ok((outs, ins, mail)) => {
            let period = period.into();
            let combines = Vec::new();
            let wait = Wait::new(Activity::Collective).named(Name::new("persistent exchange"));
            Ok(ExchangeWiring { queues: taken.queues, outs, ins, combines, mail, wait, period })
        }
        Err(error) => {
            give_back(world, taken);
            Err(error)
        }
    }
}

/// Bytes that letters of this rank may have; 0: it exchanges none.
fn letters_of(world: &Communicator, scheme: Option<Scheme>, buffers: Use) -> u32 {
    match buffers {
        _ if scheme.is_some() || !world.engine().borrow().port().capabilities().mailboxes => 0,
        Use::Staged => MOST_STAGED,
        Use::Fixed | Use::Turning => MOST_SHARED,
    }
}

/// Destroys queues in which nothing has been written, and mailboxes.
fn give_back(world: &Communicator, taken: Taken) {
    let mut engine = world.engine().borrow_mut();
    for queue in &taken.queues {
        // Nobody else knows them yet, or has written to them: it cannot be refused.
        let _ = engine.port_mut().destroy_queue(queue.address.queue);
    }
    for (id, address) in taken.boxes {
        // Nobody writes to them: they have no writer who could end them but this rank.
        engine.port_mut().end_mail(address, hikyaku_nic::fabric::MailEnd::Retired { rounds: 0 });
        engine.port_mut().close_mailbox(id);
    }
}

/// Which neighbours exchange letters: every rank comes to the same.
struct LetterChoice<'t> {
    world: &'t Communicator,
    tables: &'t [Ends],
}

impl LetterChoice<'_> {
    /// Whether two ranks do. Those of two hosts exchange nothing else: no queue reaches further.
    fn by_mail(&self, one: u32, other: u32) -> bool {
        if self.are_apart(one, other) {
            return true;
        }
        let node = |rank| self.world.node_of(rank);
        let ends = |rank: u32| &self.tables[rank as usize];
        let most = ends(one).letters.min(ends(other).letters);
        let small = |from: u32, to: u32| {
            let bytes = ends(from).outs.iter().filter(|end| end.0 == to).map(|end| end.1);
            bytes.fold(0, u64::saturating_add) <= u64::from(most)
        };
        most > 0 && node(one) == node(other) && small(one, other) && small(other, one)
    }

    /// Whether two ranks are of two hosts.
    fn are_apart(&self, one: u32, other: u32) -> bool {
        let engine = self.world.engine().borrow();
        let host = engine.port().host();
        let host_of = |rank| self.world.in_job(rank).map_or(0, |rank| host.host_of(rank));
        host.hosts().is_some() && host_of(one) != host_of(other)
    }

    /// Checks that what goes to a rank of another host fits a letter. Every rank comes to the same
    /// result.
    fn check_hosts(&self) -> Result<(), PersistentError> {
        for (one, ends) in (0..).zip(self.tables) {
            for (other, _) in &ends.outs {
                let to_it = ends.outs.iter().filter(|end| end.0 == *other);
                let bytes = to_it.map(|end| end.1).fold(0, u64::saturating_add);
                if bytes > MOST_FAR && self.are_apart(one, *other) {
                    return Err(PersistentError::Hosts { one, other: *other, most: MOST_FAR });
                }
            }
        }
        Ok(())
    }

    /// Whether all neighbours do.
    fn is_all_by_mail(&self) -> bool {
        let by_mail = |(rank, ends): (u32, &Ends)| {
            ends.outs.iter().chain(&ends.ins).all(|end| self.by_mail(rank, end.0))
        };
        (0..).zip(self.tables).all(by_mail)
    }

    /// Ends of this rank's edges to or from ranks with which it exchanges letters, and the others.
    fn part(&self, ends: Vec<EdgeEnd>) -> (Vec<EdgeEnd>, Vec<EdgeEnd>) {
        ends.into_iter().partition(|end| self.by_mail(self.world.rank(), end.rank))
    }

    /// Ranks at the other ends of a rank's edges that queues serve, in the order of its lists.
    fn by_queue(&self, rank: u32) -> (Vec<u32>, Vec<u32>) {
        let peers = |list: &[(u32, u64)]| {
            let peers = list.iter().map(|end| end.0);
            peers.filter(|peer| !self.by_mail(rank, *peer)).collect::<Vec<_>>()
        };
        let Ends { outs, ins, .. } = &self.tables[rank as usize];
        (peers(outs), peers(ins))
    }
}

fn take_queues(
    world: &Communicator,
    (outs, ins): (&[EdgeEnd], &[EdgeEnd]),
    scheme: Option<Scheme>,
    period: u32,
) -> Result<Vec<RoundQueue>, Error> {
    let ranks = |list: &[EdgeEnd]| list.iter().map(|end| end.rank).collect::<Vec<_>>();
    let (queues, slots) = world.engine().borrow().port().free_queues();
    let limits = QueueLimits { queues, slots: slots / period };
    let programs =
        plan(&ranks(ins), &ranks(outs), limits, scheme).map_err(PersistentError::Plan)?;
    let mut taken = Vec::with_capacity(programs.len());
    for program in programs {
        let mode = match program.offset {
            None => QueueMode::Normal,
            Some(offset) => QueueMode::Session { offset },
        };
        let slots = program.steps.len() as u32 * period;
        let made = world.engine().borrow_mut().port_mut().create_queue(mode, slots);
        match made {
            Ok(address) => {
                let ready = program.steps.iter().filter(|step| matches!(step, QueueStep::Ready(_)));
                taken.push(RoundQueue { address, arrivals: ready.count() as u64, program });
            }
            Err(error) => {
                give_back(world, Taken { queues: taken, boxes: Vec::new() });
                return Err(PersistentError::Queue(error).into());
            }
        }
    }
    Ok(taken)
}

/// The ranks with whom this one exchanges letters, in the order of its lists.
fn correspondents(outs: &[EdgeEnd], ins: &[EdgeEnd]) -> Vec<u32> {
    let mut ranks: Vec<u32> = Vec::new();
    for end in outs.iter().chain(ins) {
        if !ranks.contains(&end.rank) {
            ranks.push(end.rank);
        }
    }
    ranks
}

fn take_boxes(
    world: &Communicator,
    outs: &[EdgeEnd],
    ins: &[EdgeEnd],
) -> Result<Vec<(MailboxId, MailboxAddress)>, Error> {
    let mut taken = Taken::default();
    for rank in correspondents(outs, ins) {
        let room = parts(ins, rank).1;
        let writer = world.in_job(rank)?;
        let made = world.engine().borrow_mut().port_mut().open_mailbox(writer, room);
        match made {
            Ok(made) => taken.boxes.push(made),
            Err(error) => {
                give_back(world, taken);
                return Err(error.into());
            }
        }
    }
    Ok(taken.boxes)
}

/// The parts of a letter to or from a rank, and its bytes.
fn parts(ends: &[EdgeEnd], rank: u32) -> (Vec<LetterPart>, u32) {
    let mut at = 0;
    let part = |run: &Range<usize>| {
        let part = LetterPart { at, span: run.clone() };
        at += run.len() as u32;
        part
    };
    let runs = ends.iter().filter(|end| end.rank == rank).flat_map(|end| &end.runs);
    let parts = runs.map(part).collect();
    (parts, at)
}

/// The queue that serves an end of an edge.
fn serving(queues: &[RoundQueue], step: QueueStep) -> &RoundQueue {
    let found = queues.iter().find(|queue| queue.program.steps.contains(&step));
    found.expect("a plan serves every edge")
}

/// What this rank tells the others of its ends of edges: where each is and which queue serves it;
/// and its mailboxes. `double`: incoming edges have room for two rounds.
fn tell(
    outs: (&[EdgeEnd], &[Places]),
    ins: (&[EdgeEnd], &[Places]),
    taken: &Taken,
    double: bool,
) -> Vec<u32> {
    let mut words = vec![1];
    let out = (0..).zip(outs.0.iter().zip(outs.1)).map(|(edge, end)| (end, QueueStep::Data(edge)));
    let into = (0..).zip(ins.0.iter().zip(ins.1)).map(|(edge, end)| (end, QueueStep::Ready(edge)));
    for ((end, places), step) in out.chain(into) {
        let RoundQueue { address, program, .. } = serving(&taken.queues, step);
        let alone = double && program.serves_one_neighbour();
        let told = ServedEnd {
            peer: end.rank,
            bytes: end.bytes(),
            // A second place that cannot be used before the first is free would be of no use.
            at: if double && !alone { [places[0]; 2] } else { *places },
            queue: *address,
            ready: program.ready,
            alone,
        };
        words.extend(told.to_words());
    }
    for (_, address) in &taken.boxes {
        words.extend([address.at as u32, (address.at >> 32) as u32, address.slots.count]);
    }
    words
}

/// What all ranks have told of where their ends of edges are.
struct Addresses {
    outs: Vec<Vec<ServedEnd>>,
    ins: Vec<Vec<ServedEnd>>,
    /// Of each rank, with whom it exchanges letters, where the mailbox for those is, and its slots.
    boxes: Vec<Vec<(u32, u64, u32)>>,
}

impl Addresses {
    fn hear(choice: &LetterChoice<'_>, shared: &[Vec<u32>]) -> Result<Addresses, Error> {
        let mut all = Addresses { outs: Vec::new(), ins: Vec::new(), boxes: Vec::new() };
        for (rank, words) in (0..).zip(shared) {
            let (outs, ins) = choice.by_queue(rank);
            let Ends { outs: all_outs, ins: all_ins, .. } = &choice.tables[rank as usize];
            let mut letters: Vec<u32> = Vec::new();
            for (peer, _) in all_outs.iter().chain(all_ins) {
                if choice.by_mail(rank, *peer) && !letters.contains(peer) {
                    letters.push(*peer);
                }
            }
            let told = (outs.len() + ins.len()) * ServedEnd::WORDS;
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
            if !ends.iter().map(|end| &end.peer).eq(outs.iter().chain(&ins)) {
                return Err(elsewhere.into());
            }
            let (told_outs, told_ins) = ends.split_at(outs.len());
            all.outs.push(told_outs.to_vec());
            all.ins.push(told_ins.to_vec());
            let at = |words: &[u32]| u64::from(words[1]) << 32 | u64::from(words[0]);
            let boxes = letters.into_iter().zip(boxes.chunks_exact(3));
            all.boxes.push(boxes.map(|(peer, words)| (peer, at(words), words[2])).collect());
        }
        Ok(all)
    }

    /// Puts together the edges of a rank that queues serve; `from` is where its data is.
    fn wire(
        &self,
        rank: u32,
        outs: &[EdgeEnd],
        from: &[Places],
    ) -> (Vec<OutgoingEdge>, Vec<IncomingEdge>) {
        let (own_outs, own_ins) = (&self.outs[rank as usize], &self.ins[rank as usize]);
        let out = own_outs.iter().enumerate().map(|(edge, told)| {
            let theirs = other_end(own_outs, edge, &self.ins[told.peer as usize], rank);
            let ahead = told.alone && theirs.alone;
            let at = if theirs.alone && !ahead { [theirs.at[0]; 2] } else { theirs.at };
            let bytes = outs[edge].bytes();
            OutgoingEdge { bytes, from: from[edge], at, event: theirs.queue, ahead, release: 0 }
        });
        let into = own_ins.iter().enumerate().map(|(edge, told)| {
            let theirs = other_end(own_ins, edge, &self.outs[told.peer as usize], rank);
            IncomingEdge {
                queue: theirs.queue,
                ready: theirs.ready,
                ahead: told.alone && theirs.alone,
            }
        });
        (out.collect(), into.collect())
    }

    /// Puts together a rank's letters.
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

/// The other end of the edge at a place of `ends`, which are `rank`'s: of several between the two
/// ranks, the one that is as far down among the peer's.
fn other_end<'t>(
    ends: &[ServedEnd],
    edge: usize,
    theirs: &'t [ServedEnd],
    rank: u32,
) -> &'t ServedEnd {
    let peer = ends[edge].peer;
    let before = ends[..edge].iter().filter(|end| end.peer == peer).count();
    let found = theirs.iter().filter(|end| end.peer == rank).nth(before);
    found.expect("as many edges were counted at both ends")
}
