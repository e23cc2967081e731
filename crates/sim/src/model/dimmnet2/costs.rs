//! The costs of a DIMMnet-2 and of its host. The machine file states the source of each number.

use std::ops::RangeInclusive;

use super::host::PrefetchWindow;
use crate::machine::{MachineError, Section};
use crate::model::costs::costs;
use hikyaku_nic::time::Time;

/// The unit of the controller that performs a step of the receive path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerUnit {
    /// Receive Controller: headers, tables, status.
    Receive,
    /// Write Unit: the ring's pointers, the SO-DIMM.
    Write,
}

/// The effect of a step on memory. All other steps only take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryEffect {
    /// Nothing.
    None,
    /// It decides whether and where the packet lands, or waits for room.
    Place,
    /// It moves the payload, word by word.
    Move,
    /// It makes the packet visible to the host.
    Publish,
}

/// One row of tables 2 and 3 of paper 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The unit that performs it.
    pub unit: ControllerUnit,
    /// Its name in the tables.
    pub what: &'static str,
    /// Whether only IPUSH has this step.
    pub ipush_only: bool,
    /// The number of clocks.
    pub clocks: u64,
    /// Its effect, in addition to taking time.
    pub effect: MemoryEffect,
}

/// A row without its clocks.
struct UntimedRow {
    unit: ControllerUnit,
    key: &'static str,
    what: &'static str,
    ipush_only: bool,
    effect: MemoryEffect,
}

const fn row(unit: ControllerUnit, key: &'static str, what: &'static str) -> UntimedRow {
    UntimedRow { unit, key, what, ipush_only: false, effect: MemoryEffect::None }
}

const fn only_ipush(key: &'static str, what: &'static str) -> UntimedRow {
    UntimedRow { ipush_only: true, ..row(ControllerUnit::Write, key, what) }
}

/// The rows in order.
const ROWS: [UntimedRow; 16] = [
    row(ControllerUnit::Receive, "detect", "detect arrival at SWIF"),
    row(ControllerUnit::Receive, "read_header", "request header read from SWIF"),
    row(ControllerUnit::Receive, "first_header", "receive first header"),
    row(ControllerUnit::Receive, "second_header", "receive second header"),
    row(ControllerUnit::Receive, "parse", "parse first header, start Write Unit"),
    only_ipush("pointers", "get head and tail from LLCM"),
    only_ipush("area_start", "compute start of receive area"),
    only_ipush("area_end", "compute end of receive area"),
    UntimedRow {
        effect: MemoryEffect::Place,
        ..only_ipush("judge", "judge whether there is free space")
    },
    row(ControllerUnit::Write, "address", "compute size and address for SO-DIMM"),
    row(ControllerUnit::Write, "read_payload", "request payload read from SWIF"),
    row(ControllerUnit::Write, "payload", "receive payload from SWIF"),
    row(ControllerUnit::Write, "request", "request SO-DIMM write right"),
    row(ControllerUnit::Write, "grant", "obtain SO-DIMM write right"),
    UntimedRow {
        effect: MemoryEffect::Move,
        ..row(ControllerUnit::Write, "write", "write data to SO-DIMM")
    },
    UntimedRow {
        effect: MemoryEffect::Publish,
        ..row(ControllerUnit::Receive, "status", "write packet receive status")
    },
];

costs! {
    /// The interface's side.
    pub struct Interface from (section) {
        /// One clock of the controller.
        clock: section.time("clock"),
        /// Table 7 row B: a packet of 8 bytes, from the request to the cable.
        send: section.time("send"),
        /// The time between two packets of one message at the sending side.
        packet_gap: section.time("packet_gap"),
        /// Table 7 row D without the clocks of tables 2 and 3: through SWIF and its link.
        arrive: section.time("arrive"),
        /// Table 7 row I: from SO-DIMM to the Prefetch Window, 8 bytes.
        read_out: section.time("read_out"),
        /// The additional time of moving the ring's head.
        head_update: section.time("head_update"),
        /// Bytes that the SO-DIMM's port moves per clock.
        bytes_per_clock: section.bytes("bytes_per_clock"),
        /// Bytes of the two headers.
        header_bytes: section.bytes("header"),
        /// The maximum payload of a packet.
        packet_bytes: section.bytes("packet"),
        /// The maximum bytes of one read-out request.
        window_bytes: section.bytes("window");
        /// The rows of tables 2 and 3.
        steps: Vec<Step> = steps(section)?,
    }
}

costs! {
    /// The host's side.
    pub struct Host from (section) {
        /// Row A: issue a send request.
        issue_send: section.time("issue_send"),
        /// One uncached access to the board: a poll takes this long and reads at its middle.
        access: section.time("access"),
        /// Row G: read a status record.
        read_status: section.time("read_status"),
        /// Row H: issue a read-out request.
        issue_read_out: section.time("issue_read_out"),
        /// Rows K and L for up to one cache line: flush, prefetch, copy.
        copy_first: section.time("copy_first"),
        /// Each further line that the prefetch fetched in time.
        copy_line: section.time("copy_line"),
        /// Bytes of a cache line.
        line_bytes: section.bytes("line"),
        /// Bytes of cache that the prefetch instruction may fill.
        prefetch_bytes: section.bytes("prefetch_reach"),
        /// Bytes that one uncached load reads.
        load_bytes: section.bytes("load"),
        /// The time of a read-out beyond the rows of table 7.
        unexplained: section.time("unexplained"),
    }
}

costs! {
    /// The costs of a pair of nodes on one switch.
    pub struct Costs from (network, interface, host) {
        /// Table 7 row C: through the switch.
        crossing: network.time("hop"),
        /// The cables: α in the table.
        cable: network.time("cable"),
        /// The rate of the link.
        link: network.rate("link_rate");
        /// The board's.
        interface: Interface = Interface::checked(interface)?,
        /// The host's.
        host: Host = Host::read(host)?,
    }
}

impl Costs {
    /// The program's cost of receiving a message by IPUSH, with polling counted with its mean of
    /// one access: rows F and G, then H to L for each part that fits the window.
    pub fn receive(&self, bytes: u64) -> Time {
        let (interface, host) = (&self.interface, &self.host);
        let mut time = host.access + host.read_status + host.unexplained;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(interface.window_bytes);
            let moved = interface.read_out + interface.further_words(part) + interface.head_update;
            let copied = host.copy_time(part, PrefetchWindow::WriteBack);
            time = time + host.issue_read_out + moved + host.access + copied;
            left -= part;
        }
        time
    }
}

/// The sizes of a packet for which a landing ring of some packets is possible.
const PACKETS: RangeInclusive<u64> = 8..=64 << 10;

impl Interface {
    fn checked(section: &Section<'_>) -> Result<Interface, MachineError> {
        let interface = Interface::read(section)?;
        match PACKETS.contains(&interface.packet_bytes) {
            true => Ok(interface),
            false => Err(section.refuse("packet", "is not from 8 B to 64 KiB")),
        }
    }

    /// Clocks as time.
    pub fn clocks(&self, clocks: u64) -> Time {
        times(self.clock, clocks)
    }

    /// The time of the SO-DIMM's port beyond its first word.
    pub fn further_words(&self, bytes: u64) -> Time {
        self.clocks(bytes.div_ceil(self.bytes_per_clock).saturating_sub(1))
    }
}

impl Host {
    /// Rows K and L. The prefetch instruction fills one way of the cache, directly mapped. So in a
    /// larger window the lines that came first are evicted before they are read. A load that misses
    /// goes to the board like an uncached one.
    pub(super) fn copy_time(&self, bytes: u64, window: PrefetchWindow) -> Time {
        let host = self;
        let lines = bytes.div_ceil(host.line_bytes);
        let loads = bytes.div_ceil(host.load_bytes);
        let (lost, kept) = match window {
            PrefetchWindow::Uncached => return times(host.access, loads),
            PrefetchWindow::WriteBack => {
                let room = host.prefetch_bytes / host.line_bytes;
                (lines.saturating_sub(room), lines.min(room))
            }
        };
        let missed = times(host.access, lost * (host.line_bytes / host.load_bytes));
        host.copy_first + times(host.copy_line, kept.saturating_sub(1)) + missed
    }
}

/// The rows of tables 2 and 3, from `[interface.receive]`.
fn steps(section: &Section<'_>) -> Result<Vec<Step>, MachineError> {
    let receive = section.section("receive")?;
    let step = |row: &UntimedRow| {
        let UntimedRow { unit, key, what, ipush_only, effect } = *row;
        Ok(Step { unit, what, ipush_only, effect, clocks: receive.count(key)? })
    };
    let steps = ROWS.iter().map(step).collect();
    receive.finish()?;
    steps
}

fn times(span: Time, count: u64) -> Time {
    Time::from_picoseconds(span.picoseconds().saturating_mul(count))
}
