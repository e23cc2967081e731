//! What the steps of a DIMMnet-2 and of its host cost; where each number comes from stands in
//! the machine file.

use super::host::Window;
use crate::machine::{MachineError, Section};
use crate::network::Rate;
use hikyaku_nic::time::Time;

/// The unit of the controller that takes a step of the receive path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Receive Controller: headers, tables, status.
    Receive,
    /// Write Unit: the ring's pointers, the SO-DIMM.
    Write,
}

/// What a step does to memory; all others only take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// It decides that and where the packet lands, or waits for room.
    Place,
    /// It moves the payload, word by word.
    Move,
    /// It makes the packet visible to the host.
    Publish,
}

/// One row of tables 2 and 3 of paper 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Who takes it.
    pub unit: Unit,
    /// What is done, as the tables name it.
    pub what: &'static str,
    /// Whether only IPUSH has this step.
    pub ipush_only: bool,
    /// Clocks.
    pub clocks: u64,
    /// What it does besides taking time.
    pub effect: Effect,
}

/// A row without its clocks.
struct Row {
    unit: Unit,
    key: &'static str,
    what: &'static str,
    ipush_only: bool,
    effect: Effect,
}

const fn row(unit: Unit, key: &'static str, what: &'static str) -> Row {
    Row { unit, key, what, ipush_only: false, effect: Effect::None }
}

const fn only_ipush(key: &'static str, what: &'static str) -> Row {
    Row { ipush_only: true, ..row(Unit::Write, key, what) }
}

/// The rows in order.
const ROWS: [Row; 16] = [
    row(Unit::Receive, "detect", "detect arrival at SWIF"),
    row(Unit::Receive, "read_header", "request header read from SWIF"),
    row(Unit::Receive, "first_header", "receive first header"),
    row(Unit::Receive, "second_header", "receive second header"),
    row(Unit::Receive, "parse", "parse first header, start Write Unit"),
    only_ipush("pointers", "get head and tail from LLCM"),
    only_ipush("area_start", "compute start of receive area"),
    only_ipush("area_end", "compute end of receive area"),
    Row { effect: Effect::Place, ..only_ipush("judge", "judge whether there is free space") },
    row(Unit::Write, "address", "compute size and address for SO-DIMM"),
    row(Unit::Write, "read_payload", "request payload read from SWIF"),
    row(Unit::Write, "payload", "receive payload from SWIF"),
    row(Unit::Write, "request", "request SO-DIMM write right"),
    row(Unit::Write, "grant", "obtain SO-DIMM write right"),
    Row { effect: Effect::Move, ..row(Unit::Write, "write", "write data to SO-DIMM") },
    Row { effect: Effect::Publish, ..row(Unit::Receive, "status", "write packet receive status") },
];

/// The interface's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// One clock of the controller.
    pub clock: Time,
    /// Table 7 row B: a packet of 8 bytes, from the request to the cable.
    pub send: Time,
    /// Between two packets of one message, at the sending side.
    pub packet_gap: Time,
    /// Table 7 row D without the clocks of tables 2 and 3: through SWIF and its link.
    pub arrive: Time,
    /// The rows of tables 2 and 3.
    pub steps: Vec<Step>,
    /// Table 7 row I: from SO-DIMM to the Prefetch Window, 8 bytes.
    pub read_out: Time,
    /// What moving the ring's head adds to it.
    pub head_update: Time,
    /// Bytes the SO-DIMM's port moves in a clock.
    pub bytes_per_clock: u64,
    /// Bytes of the two headers.
    pub header_bytes: u64,
    /// Most payload of a packet.
    pub packet_bytes: u64,
    /// What one read-out request fetches at most.
    pub window_bytes: u64,
}

/// The host's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Row A: issue a send request.
    pub issue_send: Time,
    /// One uncached access to the board: a poll takes this long and looks at its middle.
    pub access: Time,
    /// Row G: read a status record.
    pub read_status: Time,
    /// Row H: issue a read-out request.
    pub issue_read_out: Time,
    /// Rows K and L for up to one cache line: flush, prefetch, copy.
    pub copy_first: Time,
    /// Each further line that the prefetch brought in time.
    pub copy_line: Time,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Bytes of cache that the prefetch instruction may fill.
    pub prefetch_bytes: u64,
    /// Bytes that one uncached load reads.
    pub load_bytes: u64,
    /// What a read-out takes beyond the rows of table 7.
    pub unexplained: Time,
}

/// The costs of a pair of nodes on one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The board's.
    pub interface: Interface,
    /// The host's.
    pub host: Host,
    /// Table 7 row C: through the switch.
    pub crossing: Time,
    /// What the table calls α: cables.
    pub cable: Time,
    /// What the link carries.
    pub link: Rate,
}

impl Costs {
    /// Reads `[network]`, `[interface]` and `[host]`.
    pub(crate) fn read(
        network: &Section<'_>,
        interface: &Section<'_>,
        host: &Section<'_>,
    ) -> Result<Costs, MachineError> {
        Ok(Costs {
            crossing: network.time("hop")?,
            cable: network.time("cable")?,
            link: network.rate("link_rate")?,
            interface: Interface::read(interface)?,
            host: Host::read(host)?,
        })
    }
}

impl Costs {
    /// What a program pays to receive a message by IPUSH, polling counted with its mean of one
    /// access: rows F and G, then H to L for each part that fits the window.
    pub fn receive(&self, bytes: u64) -> Time {
        let (interface, host) = (&self.interface, &self.host);
        let mut time = host.access + host.read_status + host.unexplained;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(interface.window_bytes);
            let moved = interface.read_out + interface.further_words(part) + interface.head_update;
            let copied = host.copy_time(part, Window::WriteBack);
            time = time + host.issue_read_out + moved + host.access + copied;
            left -= part;
        }
        time
    }
}

impl Interface {
    fn read(section: &Section<'_>) -> Result<Interface, MachineError> {
        let receive = section.section("receive")?;
        let step = |row: &Row| {
            let Row { unit, key, what, ipush_only, effect } = *row;
            Ok(Step { unit, what, ipush_only, effect, clocks: receive.count(key)? })
        };
        let steps = ROWS.iter().map(step).collect::<Result<_, MachineError>>()?;
        receive.finish()?;
        Ok(Interface {
            clock: section.time("clock")?,
            send: section.time("send")?,
            packet_gap: section.time("packet_gap")?,
            arrive: section.time("arrive")?,
            steps,
            read_out: section.time("read_out")?,
            head_update: section.time("head_update")?,
            bytes_per_clock: section.bytes("bytes_per_clock")?,
            header_bytes: section.bytes("header")?,
            packet_bytes: section.bytes("packet")?,
            window_bytes: section.bytes("window")?,
        })
    }

    /// Clocks as time.
    pub fn clocks(&self, clocks: u64) -> Time {
        Time::from_picoseconds(self.clock.picoseconds() * clocks)
    }

    /// How long the SO-DIMM's port takes beyond its first word.
    pub fn further_words(&self, bytes: u64) -> Time {
        self.clocks(bytes.div_ceil(self.bytes_per_clock).saturating_sub(1))
    }
}

impl Host {
    /// Rows K and L. The prefetch instruction fills one way of the cache, directly mapped, so of a
    /// larger window the lines that came first are gone when they are read; a load that misses
    /// goes to the board like an uncached one.
    pub(super) fn copy_time(&self, bytes: u64, window: Window) -> Time {
        let host = self;
        let lines = bytes.div_ceil(host.line_bytes);
        let loads = bytes.div_ceil(host.load_bytes);
        let (lost, kept) = match window {
            Window::Uncached => return times(host.access, loads),
            Window::WriteBack => {
                let room = host.prefetch_bytes / host.line_bytes;
                (lines.saturating_sub(room), lines.min(room))
            }
        };
        let missed = times(host.access, lost * (host.line_bytes / host.load_bytes));
        host.copy_first + times(host.copy_line, kept.saturating_sub(1)) + missed
    }

    fn read(section: &Section<'_>) -> Result<Host, MachineError> {
        Ok(Host {
            issue_send: section.time("issue_send")?,
            access: section.time("access")?,
            read_status: section.time("read_status")?,
            issue_read_out: section.time("issue_read_out")?,
            copy_first: section.time("copy_first")?,
            copy_line: section.time("copy_line")?,
            line_bytes: section.bytes("line")?,
            prefetch_bytes: section.bytes("prefetch_reach")?,
            load_bytes: section.bytes("load")?,
            unexplained: section.time("unexplained")?,
        })
    }
}

fn times(span: Time, count: u64) -> Time {
    Time::from_picoseconds(span.picoseconds() * count)
}
