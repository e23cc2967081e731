//! What the cut-through model keeps of packets: flights, their copies in buffers, their requests.

use hikyaku_nic::time::Time;

use crate::network::Packet;
use crate::topology::{Branch, Channel};

/// A packet from its sending to its last delivery, with the way that it takes.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) packet: Packet,
    pub(super) way: Way,
    /// Copies that exist in buffers, or are on their way into the receivers' memory.
    pub(super) copies: u32,
    /// How long its bytes take at each link is looked up there; this is their number.
    pub(super) bytes: u64,
}

/// The way of a packet.
#[derive(Debug)]
pub(super) enum Way {
    /// To one node: the channels one after the other.
    Route(Vec<Channel>),
    /// To several: branches in preorder, the first leaves the sender.
    Tree(Vec<Branch>),
}

/// Where on its way a copy is, or where a request leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// With the sender.
    Start,
    /// In the channel of this number of the route.
    Hop(u32),
    /// In this channel of this branch of the tree.
    Branch(u32, u32),
}

impl Way {
    /// How many crossings follow after a place.
    pub(super) fn crossings(&self, place: Place) -> u32 {
        match (self, place) {
            (_, Place::Start) => 1,
            (Way::Route(route), Place::Hop(at)) => u32::from((at as usize) + 1 < route.len()),
            (Way::Tree(tree), Place::Branch(branch, channel)) => {
                tree[branch as usize].next[channel as usize].len() as u32
            }
            _ => 0,
        }
    }

    /// The crossing with this number after a place, as the place of the first copy that it makes.
    pub(super) fn crossing(&self, place: Place, number: u32) -> Place {
        match (self, place) {
            (Way::Route(_), Place::Hop(at)) => Place::Hop(at + 1),
            (Way::Route(_), _) => Place::Hop(0),
            (Way::Tree(tree), Place::Branch(branch, channel)) => {
                let next = &tree[branch as usize].next[channel as usize];
                Place::Branch(next[number as usize], 0)
            }
            (Way::Tree(_), _) => Place::Branch(0, 0),
        }
    }

    /// The channels that a crossing enters.
    pub(super) fn entered(&self, crossing: Place) -> &[Channel] {
        match (self, crossing) {
            (Way::Route(route), Place::Hop(at)) => std::slice::from_ref(&route[at as usize]),
            (Way::Tree(tree), Place::Branch(branch, _)) => &tree[branch as usize].channels,
            _ => &[],
        }
    }

    /// The place of the copy with this number among those that a crossing makes.
    pub(super) fn copy(crossing: Place, number: u32) -> Place {
        match crossing {
            Place::Branch(branch, _) => Place::Branch(branch, number),
            place => place,
        }
    }
}

/// A copy of a packet in a buffer, or with its sender.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) flight: u32,
    pub(super) place: Place,
    /// The buffer; `NONE` with the sender.
    pub(super) channel: Channel,
    /// When its last byte is there.
    pub(super) tail_at: Time,
    /// Whether its head is there.
    pub(super) arrived: bool,
    /// Crossings that are asked for and not over; the copy goes with the last of them.
    pub(super) pending: u32,
    /// The copy behind it in the buffer.
    pub(super) behind: u32,
}

/// A copy's wish to cross a link. Requests are looked through whenever a link or a buffer becomes
/// free, so what decides about most of them stands in them: who crosses into one buffer needs no
/// look at copy, flight and way.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) copy: u32,
    pub(super) crossing: Place,
    /// The request behind it at the link.
    pub(super) behind: u32,
    /// The buffer that it leads to; `NONE` if there are several.
    pub(super) channel: Channel,
    /// Bytes of the packet.
    pub(super) bytes: u64,
}
