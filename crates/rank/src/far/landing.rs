//! Delivers data from ranks of other hosts at the receiving rank.

use std::collections::VecDeque;

use hikyaku_nic::fabric::{DropCause, DroppedPackets, Event, Granularity, PostError, Rank};
use hikyaku_nic::time::Time;
use hikyaku_ofi::link::{Acceptance, LinkArrival};

use crate::near::NearTables;

use super::SENDS;
use super::lending::Lending;
use super::memory::{Calls, ReservedPlace, Serving};
use super::peers::{FarPeer, FarPeers};
use super::wire::{self, FarPacket, SendPart};

/// The state that arrivals modify.
pub(super) struct LandingState {
    pub(super) own: Rank,
    pub(super) peers: FarPeers,
    pub(super) events: VecDeque<Event>,
    /// Answers to send, and reads to serve.
    pub(super) answers: VecDeque<(Rank, Vec<u8>)>,
    pub(super) serving: VecDeque<Serving>,
    /// The places of puts through address registers that have arrived in part.
    pub(super) reserved: Vec<ReservedPlace>,
    /// Ranks that have sent something for the first time, ranks to which a grant must be sent, and
    /// ranks that have left.
    pub(super) strangers: Vec<Rank>,
    pub(super) granting: Vec<Rank>,
    pub(super) parting: Vec<Rank>,
    /// Ranks that report that they have dropped a send of this one.
    pub(super) droppers: Vec<Rank>,
    pub(super) departures: u64,
    pub(super) lending: Lending,
    /// Malformed packets, and operations that the tables refuse: their number, and the source and
    /// reason of the last one.
    pub(super) refused: DroppedPackets,
    /// This rank is leaving, and no longer reads messages.
    pub(super) is_leaving: bool,
}

impl LandingState {
    pub(super) fn new(own: Rank, peers: FarPeers) -> LandingState {
        LandingState {
            own,
            peers,
            events: VecDeque::new(),
            answers: VecDeque::new(),
            serving: VecDeque::new(),
            reserved: Vec::new(),
            strangers: Vec::new(),
            granting: Vec::new(),
            parting: Vec::new(),
            droppers: Vec::new(),
            departures: 0,
            lending: Lending::default(),
            refused: DroppedPackets::default(),
            is_leaving: false,
        }
    }

    /// Handles an arrival.
    pub(super) fn arrive(
        &mut self,
        hosted: &mut NearTables,
        calls: &mut Calls,
        now: Time,
        arrival: LinkArrival<'_>,
    ) -> Acceptance {
        let (source, lane, payload) = match arrival {
            LinkArrival::Packet { source, lane, payload } => (source, lane, payload),
            LinkArrival::Fetched { token, error } => {
                let events = &mut self.events;
                self.lending.take_in(now, (token, error), |event| events.push_back(event));
                return Acceptance::Taken;
            }
        };
        let Some(peer) = self.peers.enter(source) else {
            self.refused.note(source, Some(DropCause::Source));
            return Acceptance::Taken;
        };
        if !std::mem::replace(&mut peer.known, true) {
            self.strangers.push(source);
            self.granting.push(source);
        }
        if lane == SENDS && peer.is_stuck {
            // Sends do not overtake packets on the other lane, which may pass them.
            return Acceptance::Full;
        }
        let Some(packet) = wire::decode(payload, source) else {
            self.refused.note(source, Some(DropCause::Content));
            return Acceptance::Taken;
        };
        match packet {
            FarPacket::Send(part) => return self.land(hosted, (source, lane), &part),
            FarPacket::Held => hosted.waits_for_credit(source),
            FarPacket::Dropped => self.droppers.push(source),
            FarPacket::Grant(messages) => {
                peer.credit = peer.credit.max(messages);
                peer.waiting = false;
            }
            FarPacket::Bye { keeps } => {
                peer.keeps = keeps;
                if peer.left.replace(now).is_none() {
                    self.departures += 1;
                    self.lending.end(source);
                }
                self.parting.push(source);
            }
            FarPacket::Put(put) => {
                let outcome = self.put(hosted, source, &put);
                self.answer(source, put.call, outcome);
            }
            FarPacket::Atomic { call, told, at, atomic } => {
                let outcome = self.change(hosted, source, (told, at), atomic);
                self.answer(source, call, outcome);
            }
            FarPacket::Get { call, from, length } => {
                self.serving.push_back(Serving { to: source, call, from, length, done: 0 });
            }
            FarPacket::Data { call, bytes } => calls.data(source, call, bytes),
            FarPacket::Answer { call, outcome } => calls.answer(source, call, outcome),
        }
        Acceptance::Taken
    }

    /// Queues the answer to an operation, if its caller waits for one.
    fn answer(&mut self, to: Rank, call: u32, outcome: Result<u64, PostError>) {
        if call != wire::UNANSWERED {
            self.answers.push_back((to, wire::answer(call, outcome)));
        } else if outcome.is_err() {
            self.refused.note(to, Some(DropCause::Refused));
        }
    }

    /// Delivers a part of a send.
    fn land(
        &mut self,
        hosted: &mut NearTables,
        (source, lane): (Rank, u8),
        part: &SendPart<'_>,
    ) -> Acceptance {
        if self.is_leaving {
            return Acceptance::Taken;
        }
        let Some(peer) = self.peers.enter(source) else { return Acceptance::Taken };
        let landed = match part.granularity {
            Granularity::PerMessage => land_as_one(hosted, peer, source, part),
            Granularity::PerPacket if lane == SENDS => {
                land_part(hosted, &mut peer.landed, source, part)
            }
            // It is short enough to be delivered completely or not at all; a send may be delivered
            // in part.
            Granularity::PerPacket => land_part(hosted, &mut 0, source, part),
        };
        let is_full = landed == Ok(false);
        if lane != SENDS {
            peer.is_stuck = is_full;
        }
        // A part that the tables refuse has no reader. Its sender is notified once.
        if landed.is_err() {
            self.refused.note(source, Some(DropCause::Refused));
            if !std::mem::replace(&mut peer.told_drop, true) {
                self.answers.push_back((source, wire::dropped()));
            }
        }
        if is_full { Acceptance::Full } else { Acceptance::Taken }
    }
}

/// Delivers the rest of a part, of which `landed` bytes are delivered. Returns whether it is
/// complete.
fn land_part(
    hosted: &mut NearTables,
    landed: &mut usize,
    source: Rank,
    part: &SendPart<'_>,
) -> Result<bool, PostError> {
    // The count is only for the first held packet.
    let from = (*landed).min(part.payload.len());
    let outcome = hosted.land_from(source, &part.command(from));
    let (next, outcome) = match outcome {
        Ok(taken) if from + taken < part.payload.len() => (from + taken, Ok(false)),
        Ok(_) => (0, Ok(true)),
        Err(PostError::Full { .. }) => (from, Ok(false)),
        Err(error) => (0, Err(error)),
    };
    *landed = next;
    outcome
}

/// Gathers a message with one record, and delivers it after all of it has arrived.
fn land_as_one(
    hosted: &mut NearTables,
    peer: &mut FarPeer,
    source: Rank,
    part: &SendPart<'_>,
) -> Result<bool, PostError> {
    let end = part.offset as usize + part.payload.len();
    if part.offset == 0 && peer.gathered.len() != end {
        peer.gathered.clear();
    }
    if peer.gathered.len() < end {
        peer.gathered.extend_from_slice(part.payload);
    }
    if (end as u64) < part.total {
        return Ok(true);
    }
    let whole = SendPart { offset: 0, payload: &peer.gathered, ..*part };
    let as_one = (peer.landed == 0).then(|| hosted.land_from(source, &whole.command(0)));
    let outcome = match as_one {
        Some(Ok(_)) => Ok(true),
        Some(Err(PostError::Full { .. })) => Ok(false),
        // Its source had a ring of its own when it sent this, and shares one now.
        None | Some(Err(PostError::SharedRing { .. })) => {
            let whole = SendPart { granularity: Granularity::PerPacket, ..whole };
            land_part(hosted, &mut peer.landed, source, &whole)
        }
        Some(Err(error)) => Err(error),
    };
    if outcome != Ok(false) {
        peer.gathered = Vec::new();
    }
    outcome
}
