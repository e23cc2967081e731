//! The packets of the cut-through model: flights, their copies in buffers, and their requests.

use hikyaku_nic::time::Time;

use crate::network::Packet;
use crate::topology::{Branch, Channel};

/// A packet from its sending to its last delivery, with its path.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) packet: Packet,
    pub(super) way: PacketPath,
    /// The number of copies in buffers or in flight into the receivers' memory.
    pub(super) copies: u32,
    /// The packet's bytes, the input for its times at the links.
    pub(super) bytes: u64,
}

/// The path of a packet.
#[derive(Debug)]
pub(super) enum PacketPath {
    /// To one node: the channels in order.
    Route(Vec<Channel>),
    /// To several nodes: branches in preorder. The first one leaves the sender.
    Tree(Vec<Branch>),
}

/// The place of a copy on its path, or the target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyPlace {
    /// At the sender.
    Start,
    /// In the channel with this index of the route.
    Hop(u32),
    /// In this channel of this branch of the tree.
    Branch(u32, u32),
}

impl PacketPath {
    /// The number of crossings after a place.
    pub(super) fn crossings(&self, place: CopyPlace) -> u32 {
        match (self, place) {
            (_, CopyPlace::Start) => 1,
            (PacketPath::Route(route), CopyPlace::Hop(at)) => {
                u32::from((at as usize) + 1 < route.len())
            }
            (PacketPath::Tree(tree), CopyPlace::Branch(branch, channel)) => {
                tree[branch as usize].next[channel as usize].len() as u32
            }
            _ => 0,
        }
    }

    /// The crossing with this index after a place, as the place of the first copy that it makes.
    pub(super) fn crossing(&self, place: CopyPlace, number: u32) -> CopyPlace {
        match (self, place) {
            (PacketPath::Route(_), CopyPlace::Hop(at)) => CopyPlace::Hop(at + 1),
            (PacketPath::Route(_), _) => CopyPlace::Hop(0),
            (PacketPath::Tree(tree), CopyPlace::Branch(branch, channel)) => {
                let next = &tree[branch as usize].next[channel as usize];
                CopyPlace::Branch(next[number as usize], 0)
            }
            (PacketPath::Tree(_), _) => CopyPlace::Branch(0, 0),
        }
    }

    /// The channels that a crossing enters.
    pub(super) fn entered(&self, crossing: CopyPlace) -> &[Channel] {
        match (self, crossing) {
            (PacketPath::Route(route), CopyPlace::Hop(at)) => {
                std::slice::from_ref(&route[at as usize])
            }
            (PacketPath::Tree(tree), CopyPlace::Branch(branch, _)) => {
                &tree[branch as usize].channels
            }
            _ => &[],
        }
    }

    /// The place of the copy with this index among those that a crossing makes.
    pub(super) fn copy(crossing: CopyPlace, number: u32) -> CopyPlace {
        match crossing {
            CopyPlace::Branch(branch, _) => CopyPlace::Branch(branch, number),
            place => place,
        }
    }
}

/// A copy of a packet in a buffer or at its sender.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) flight: u32,
    pub(super) place: CopyPlace,
    /// The buffer; `NONE` at the sender.
    pub(super) channel: Channel,
    /// The time when its last byte has arrived.
    pub(super) tail_at: Time,
    /// Whether its head has arrived.
    pub(super) arrived: bool,
    /// The number of requested and unfinished crossings. The copy leaves with the last of them.
    pub(super) pending: u32,
    /// The next copy behind it in the buffer.
    pub(super) behind: u32,
}

/// A copy's request to cross a link. Requests are searched whenever a link or a buffer becomes
/// free. So they hold the data that decides most cases: a request for one buffer needs no access to
/// copy, flight and path.
#[derive(Debug)]
pub(super) struct LinkRequest {
    pub(super) copy: u32,
    pub(super) crossing: CopyPlace,
    /// The next request behind it at the link.
    pub(super) behind: u32,
    /// The buffer that it requests; `NONE` if there are several.
    pub(super) channel: Channel,
    /// The packet's bytes.
    pub(super) bytes: u64,
}
