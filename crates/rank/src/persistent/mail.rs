//! Rounds by letter: all data between two neighbours is one letter each way.
//!
//! ```text
//!   start   each neighbour's letter: the elements of all edges to it ──► its mailbox
//!   wait    each neighbour's letter has arrived? its elements ──► the edges from it
//! ```
//!
//! A command queue moves a line between caches for the pointer that a READY-TO-RECV advances, one
//! for the count of an arrival, and one for each piece of data. With little data, these lines are
//! the cost of a round. A letter is written into the neighbour's memory when a round starts, and no
//! rank has more to do: after both have started, the round needs the processor of neither (TF-10),
//! as with queues. Only a letter to another host may wait for room there; the wait for a round
//! sends it.
//!
//! Both neighbours write in every round, even where edges lead one way only: an empty letter
//! reports "I have started", which makes room for the next letter but one. So a round is complete
//! when every neighbour has started it, as with READY-TO-RECV.
//!
//! The buffers are read at the start and written when the round is waited for. No other rank
//! accesses them, so they can be reused even when an exchange ends in flight.

use std::ops::Range;

use hikyaku_nic::fabric::{
    MailEnd, MailboxAddress, MailboxId, MailboxPort, PeerState, PostError, QueueFault,
};

use crate::port::RankPort;

/// The data that an exchange sends.
pub trait ExchangeSource {
    /// The contents of one of the byte runs of its edges.
    fn run(&self, run: &Range<usize>) -> &[u8];
}

/// The place of the data that an exchange receives.
pub trait ExchangeSink {
    /// The memory of one of the byte runs of its edges.
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8];
}

impl ExchangeSource for [u8] {
    #[inline]
    fn run(&self, run: &Range<usize>) -> &[u8] {
        &self[run.clone()]
    }
}

impl ExchangeSink for [u8] {
    #[inline]
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8] {
        &mut self[run.clone()]
    }
}

/// The maximum bytes of a letter between buffers in shared memory: larger data is copied once, by a
/// queue's command. Microseconds for a round, by letters and by queues, of two neighbours that are
/// the same rank, so that a letter has the elements of two edges:
///
/// ```text
///               an AMD EPYC, cores near      far          an Intel Xeon, a line 72 ns
///   an edge     (a line 31 ns)               (160 ns)
///    4 KiB      1.6 and  3.0
///   16 KiB      5.0 and  4.5                 4.0 and 4.6  5.8 and  9.4     this limit
///   24 KiB                                                8.1 and 12.7
///   32 KiB                                               11.0 and 11.2
///   64 KiB       17 and 12                    13 and 9.5   21 and 15
/// ```
///
/// One copy does not take half the time of two here: it overwrites lines that its reader has just
/// used.
pub(super) const MOST_SHARED: u32 = 32 << 10;

/// The maximum between buffers in ordinary memory, whose data is copied twice anyway. A mailbox has
/// room for some letters. With 16 KiB per edge 4.9 and 5.5 us, far 4.0 and 5.3 us; with 64 KiB 17
/// and 18 us, far 13 and 14 us.
pub(super) const MOST_STAGED: u32 = 1 << 20;

/// The maximum between hosts: as many bytes as a mailbox counts.
pub(super) const MOST_FAR: u64 = 2 << 30;

/// Elements of one edge in a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LetterPart {
    /// The offset in the letter.
    pub(super) at: u32,
    /// The range of the program's buffer.
    pub(super) span: Range<usize>,
}

/// A neighbour with whom this rank exchanges letters.
#[derive(Debug)]
pub(super) struct Correspondent {
    pub(super) rank: u32,
    /// The mailbox that the neighbour writes to.
    pub(super) own: MailboxId,
    /// The neighbour's mailbox, which this rank writes to.
    pub(super) theirs: MailboxAddress,
    pub(super) outs: Vec<LetterPart>,
    pub(super) ins: Vec<LetterPart>,
}

/// All neighbours that are served by letter.
#[derive(Debug, Default)]
pub(super) struct Mail(pub(super) Vec<Correspondent>);

impl Mail {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes this rank's letters of a round. The previous round is complete.
    #[inline]
    pub(super) fn post(
        &self,
        port: &mut impl MailboxPort,
        round: u64,
        data: &(impl ExchangeSource + ?Sized),
    ) -> Result<(), PostError> {
        for Correspondent { theirs, outs, .. } in &self.0 {
            for LetterPart { at, span } in outs {
                port.write_mail(*theirs, round, *at, data.run(span))?;
            }
            port.post_mail(*theirs, round)?;
        }
        Ok(())
    }

    /// Whether all letters of a round have arrived.
    #[inline]
    pub(super) fn is_there(&self, port: &mut impl MailboxPort, round: u64) -> bool {
        self.0.iter().all(|from| port.has_mail(from.own, round))
    }

    /// Whether this rank's letters have been sent. After it has waited for a round, a program may
    /// make no calls for a long time, while its neighbours wait for the letters.
    #[inline]
    pub(super) fn has_left(&self, port: &RankPort) -> bool {
        self.0.iter().all(|to| port.has_sent_mail(to.rank))
    }

    /// Copies the letters of a round, which have arrived, into `data`.
    #[inline]
    pub(super) fn take(
        &self,
        port: &impl MailboxPort,
        round: u64,
        data: &mut (impl ExchangeSink + ?Sized),
    ) -> Result<(), PostError> {
        for Correspondent { own, ins, .. } in &self.0 {
            for LetterPart { at, span } in ins {
                port.read_mail(*own, round, *at, data.run_mut(span))?;
            }
        }
        Ok(())
    }

    /// A neighbour whose letter of a round will not arrive, with the reason.
    pub(super) fn missing(
        &self,
        port: &mut impl MailboxPort,
        round: u64,
    ) -> Option<(u32, QueueFault)> {
        self.0.iter().find_map(|&Correspondent { rank, own, .. }| {
            if port.has_mail(own, round) {
                return None;
            }
            let gone = matches!(port.peer(rank), PeerState::Failed(_) | PeerState::Left);
            let fault = match port.mail_end(own) {
                // Letters that it wrote before it ended have arrived: check again.
                Some(MailEnd::Retired { rounds }) => (rounds < round).then_some(rank),
                Some(MailEnd::Abandoned { rank: missing }) => Some(missing),
                None => gone.then_some(rank),
            };
            fault.map(|missing| (rank, QueueFault::Abandoned { rank: missing }))
        })
    }

    /// Reports to the neighbours that no more letters follow.
    pub(super) fn end(&self, port: &mut impl MailboxPort, end: MailEnd) {
        self.0.iter().for_each(|to| port.end_mail(to.theirs, end));
    }

    /// Closes this rank's mailboxes, after [`Mail::end`].
    pub(super) fn close(&mut self, port: &mut impl MailboxPort) {
        self.0.drain(..).for_each(|from| port.close_mailbox(from.own));
    }
}
