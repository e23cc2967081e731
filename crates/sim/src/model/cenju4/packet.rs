//! Cuts a parcel into packets, and counts the memory requests of each.
//!
//! ```text
//!   destination   |..####|########|########|####....|     lines of 128 bytes
//!   packets          1       2 lines, 256 B     3          ends are line ends, at most 256 bytes
//!
//!   source        |.....###|########|########|##....|     other alignment: packet 2 touches three
//!   requests               c    c        c                 lines. The first of them was flushed
//!                          n    c        c                 before: the optimisation does not ask
//! ```
//!
//! Neither end of a packet crosses a page (paper 003 §4.3). A request is coherent, that is, the
//! processor is asked for the line's state, or it is not. The optimisation makes the first request
//! of a packet non-coherent if the previous packet has already flushed this line (§4.6).
//!
//! If an odd word goes to a double word, whole double words are read and their words rearranged.
//! The double word that holds the last word of a page then also holds the first word of the next
//! page. So a packet ends one word into it. That word comes from the *physically* next page: the
//! defect of §5.1.3.

use super::costs::{Interface, Memory};
use super::header::{DOUBLE_WORD, WORD};

/// A copy of data, as addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The source address.
    pub source: u64,
    /// The destination address.
    pub destination: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Span {
    /// Whether the words of double words are rearranged: an odd word goes to a double word.
    pub(super) fn is_rearranged(&self) -> bool {
        self.source % DOUBLE_WORD == WORD && self.destination.is_multiple_of(DOUBLE_WORD)
    }

    /// The distance in words from the destination's to the source's alignment within a line.
    fn distance(&self, line: u64) -> u64 {
        (self.source % line + line - self.destination % line) % line / WORD
    }
}

/// A packet of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelPacket {
    /// The addresses of its data.
    pub span: Span,
    /// The number of lines read after asking the processor.
    pub coherent: u64,
    /// The number of lines read from main memory without asking.
    pub plain: u64,
}

/// The packets of a parcel. `optimise` switches the read optimisation on.
pub fn packets(span: Span, optimise: bool, costs: (&Interface, &Memory)) -> Vec<ParcelPacket> {
    let (interface, memory) = costs;
    let line = memory.line_bytes;
    // At a distance of one word the line at the head of a page must be read coherently. The
    // hardware cannot distinguish the two cases, so it does not optimise then.
    let optimise = optimise && span.distance(line) != 1;
    let (mut packets, mut done, mut flushed) = (Vec::new(), 0, None);
    while done < span.bytes {
        let at = |address: u64| address + done;
        let (source, destination) = (at(span.source), at(span.destination));
        let whole = (destination + interface.packet_bytes) / line * line - destination;
        let page = |address: u64| memory.page_bytes - address % memory.page_bytes;
        let read = page(source) + if span.is_rearranged() { WORD } else { 0 };
        let room = whole.min(read).min(page(destination));
        let bytes = room.min(span.bytes - done);
        let packet = Span { source, destination, bytes };
        // Whole double words are read: one more than sent if words are rearranged.
        let (first, last) = (source / line, (source + bytes).next_multiple_of(DOUBLE_WORD) - 1);
        let last = last / line;
        let lines = last - first + 1;
        let plain = u64::from(optimise && flushed == Some(first));
        packets.push(ParcelPacket { span: packet, coherent: lines - plain, plain });
        flushed = Some(last);
        done += bytes;
    }
    packets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::costs;
    use super::*;

    fn cut(source: u64, destination: u64, bytes: u64, optimise: bool) -> Vec<ParcelPacket> {
        let costs = costs();
        let span = Span { source, destination, bytes };
        packets(span, optimise, (&costs.interface, &costs.memory))
    }

    fn requests(packets: &[ParcelPacket]) -> Vec<(u64, u64)> {
        packets.iter().map(|packet| (packet.coherent, packet.plain)).collect()
    }

    #[test]
    fn alignment_decides_the_requests_of_a_packet() {
        assert_eq!(requests(&cut(0, 0, 768, false)), [(2, 0); 3]);
        assert_eq!(requests(&cut(8, 0, 768, false)), [(3, 0); 3]);
        assert_eq!(requests(&cut(8, 0, 768, true)), [(3, 0), (2, 1), (2, 1)]);
    }

    #[test]
    fn cj_17_one_word_of_distance_prevents_optimisation() {
        assert_eq!(requests(&cut(4, 0, 512, true)), [(3, 0); 2]);
        assert_eq!(requests(&cut(12, 0, 512, true)), [(3, 0), (2, 1)]);
    }

    #[test]
    fn a_parcel_of_no_bytes_has_no_data_packet() {
        assert!(cut(0, 0, 0, true).is_empty());
    }

    proptest! {
        #[test]
        fn cj_02_packets_cover_parcels_and_cross_no_page(
            source in 0_u64..9000, destination in 0_u64..9000, bytes in 1_u64..20_000,
        ) {
            let all = cut(source, destination, bytes, true);
            let parcel = Span { source, destination, bytes };
            let (mut from, mut to) = (source, destination);
            for (index, packet) in all.iter().enumerate() {
                let Span { source, destination, bytes } = packet.span;
                prop_assert_eq!((source, destination), (from, to));
                prop_assert!((1..=256).contains(&bytes));
                // Rearranged words reach one word into the next page.
                let over = if parcel.is_rearranged() { 4 } else { 0 };
                prop_assert_eq!(destination / 4096, (destination + bytes - 1) / 4096);
                prop_assert!((source % 4096 + bytes) <= 4096 + over);
                let end = destination + bytes;
                let page_cut = (source + bytes - over) % 4096 == 0;
                prop_assert!(end % 128 == 0 || page_cut || index + 1 == all.len());
                prop_assert!(packet.coherent + packet.plain <= 4);
                from += bytes;
                to += bytes;
            }
            prop_assert_eq!(from - source, bytes);
        }
    }
}
