//! All-to-all in two levels: the parts from the ranks of one node to those of another are one
//! message.
//!
//! ```text
//!   collect    each rank sends each mate the part for it, and the parts for the nodes that the
//!              mate represents
//!   carry      each rank sends to each node that it represents all parts of its own node for it
//!   hand out   each rank sends each mate the parts that have arrived for it
//! ```
//!
//! Between two nodes of k ranks one message is sent each way instead of k². The ranks of a node
//! divide the other nodes among them, so that each has a share of the messages. But each part is
//! sent three times, twice within a node, so this is for parts that are short compared with the
//! cost of a message.

use std::iter::once;

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::mates::nodes;
use crate::part::{Data, Part, Place, Source};

/// A message, with its source or destination rank.
type Message<B> = (u32, Vec<B>);

/// Exchanges parts of `length` bytes.
pub(super) async fn two_level<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &S,
    into: &mut D,
    length: usize,
) -> Result<(), Failure<G>> {
    let speakers = Speakers::of(team);
    let collected = collect(team, &speakers, data, length).await?;
    for (mate, parts) in &collected {
        into.put(*mate as usize * length, &parts[..length]);
    }
    let carried = carry(team, &speakers, &collected, length).await?;
    for (place, parts) in hand_out(team, &speakers, &carried, length).await? {
        for (rank, part) in speakers.abroad(place).zip(0..) {
            into.put(rank as usize * length, &parts[part * length..][..length]);
        }
    }
    Ok(())
}

/// Collects each mate's parts for this rank and for the nodes that it represents, mate by mate.
async fn collect<G: Group, S: Source<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    speakers: &Speakers,
    data: &S,
    length: usize,
) -> Result<Vec<Message<G::Byte>>, Failure<G>> {
    let pack = |place: usize, mate: u32| {
        let ranks: Vec<u32> = once(mate).chain(speakers.abroad(place)).collect();
        let mut packed = vec![G::Byte::default(); ranks.len() * length];
        for (rank, part) in ranks.into_iter().zip(0..) {
            let start = rank as usize * length;
            packed[..].copy(part * length, data, start..start + length);
        }
        packed
    };
    let own = pack(speakers.place, team.rank());
    let goes = speakers.others().map(|(place, mate)| (mate, pack(place, mate))).collect();
    let comes = speakers.others().map(|(_, mate)| (mate, own.len())).collect();
    let mut collected = exchange(team, goes, comes).await?;
    collected.insert(speakers.place, (team.rank(), own));
    Ok(collected)
}

/// Receives each represented node's parts for this node: a part from each of its ranks for each
/// rank of this node.
async fn carry<G: Group>(
    team: &Team<'_, G>,
    speakers: &Speakers,
    collected: &[Message<G::Byte>],
    length: usize,
) -> Result<Vec<Message<G::Byte>>, Failure<G>> {
    let (mut goes, mut comes, mut start) = (Vec::new(), Vec::new(), length);
    for node in speakers.partners(speakers.place) {
        let (peer, bytes) = (speakers.speaker(node), speakers.nodes[node].len() * length);
        let parts = collected.iter().map(|(_, parts)| &parts[start..start + bytes]);
        goes.push((peer, parts.collect::<Vec<_>>().concat()));
        comes.push((peer, bytes * speakers.mates().len()));
        start += bytes;
    }
    exchange(team, goes, comes).await
}

/// Distributes the received parts. Returns this rank's parts by the place of the mate that carried
/// them, in the order of [`Speakers::abroad`].
async fn hand_out<G: Group>(
    team: &Team<'_, G>,
    speakers: &Speakers,
    carried: &[Message<G::Byte>],
    length: usize,
) -> Result<Vec<(usize, Vec<G::Byte>)>, Failure<G>> {
    let row = speakers.mates().len() * length;
    let pack = |place: usize| {
        let nodes = speakers.partners(speakers.place).zip(carried);
        let parts = nodes.flat_map(|(node, (_, bytes))| {
            let part = move |rank: usize| &bytes[rank * row + place * length..][..length];
            (0..speakers.nodes[node].len()).map(part)
        });
        parts.collect::<Vec<_>>().concat()
    };
    // If there are fewer nodes than ranks on one, some ranks represent none.
    let speaks = |place: usize| speakers.partners(place).next().is_some();
    let others = || speakers.others().filter(|_| speaks(speakers.place));
    let goes = others().map(|(place, mate)| (mate, pack(place))).collect();
    let through = || speakers.others().filter(|(place, _)| speaks(*place));
    let comes = through().map(|(place, mate)| (mate, speakers.abroad(place).count() * length));
    let handed = exchange(team, goes, comes.collect()).await?;
    let others = through().zip(handed).map(|((place, _), (_, parts))| (place, parts));
    Ok(once((speakers.place, pack(speakers.place))).chain(others).collect())
}

/// Sends messages, and receives others of these lengths, in the given order.
async fn exchange<G: Group>(
    team: &Team<'_, G>,
    goes: Vec<Message<G::Byte>>,
    comes: Vec<(u32, usize)>,
) -> Result<Vec<Message<G::Byte>>, Failure<G>> {
    let room = |(from, bytes)| (from, vec![G::Byte::default(); bytes]);
    let mut come: Vec<_> = comes.into_iter().map(room).collect();
    let places = come.iter_mut().map(|(from, bytes)| (*from, Place::Whole(&mut bytes[..])));
    let parts = goes.iter().map(|(to, bytes)| (*to, Part::Whole(&bytes[..])));
    let (places, parts) = (places.collect(), parts.collect());
    team.exchange_all(parts, places).await?;
    Ok(come)
}

/// The ranks of a node that exchange messages with each other node.
struct Speakers {
    /// The ranks of each node.
    nodes: Vec<Vec<u32>>,
    /// This rank's node, and its place there.
    node: usize,
    place: usize,
}

impl Speakers {
    fn of<G: Group>(team: &Team<'_, G>) -> Speakers {
        let (nodes, node) = nodes(team.group());
        let place = nodes[node].iter().take_while(|mate| **mate != team.rank()).count();
        Speakers { nodes, node, place }
    }

    /// The ranks of this node.
    fn mates(&self) -> &[u32] {
        &self.nodes[self.node]
    }

    /// The other ranks of this node, with their places.
    fn others(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let all = self.mates().iter().copied().enumerate();
        all.filter(|(place, _)| *place != self.place)
    }

    /// The nodes that the rank at `place` exchanges messages with, the nearest first.
    fn partners(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let distances = (place + 1..self.nodes.len()).step_by(self.mates().len());
        distances.map(|distance| (self.node + distance) % self.nodes.len())
    }

    /// The ranks of those nodes.
    fn abroad(&self, place: usize) -> impl Iterator<Item = u32> + '_ {
        self.partners(place).flat_map(|node| self.nodes[node].iter().copied())
    }

    /// The rank of another node that exchanges messages with this node.
    fn speaker(&self, node: usize) -> u32 {
        let distance = (self.node + self.nodes.len() - node) % self.nodes.len();
        self.nodes[node][(distance - 1) % self.nodes[node].len()]
    }
}
