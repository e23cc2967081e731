//! The records of a run: for a timeline, and as one digest that shows whether two runs are equal.

use hikyaku_nic::time::Time;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// A message was handed to the interface: `who` sender, `whom` receiver, `what` bytes.
    Send = 1,
    /// The last byte of a message left the sender.
    Depart = 2,
    /// The last byte of a message arrived: `who` receiver, `whom` sender, `what` bytes.
    Arrive = 3,
    /// A receive was completed: `who` receiver, `whom` sender, `what` bytes.
    Receive = 4,
    /// A rank computes from this time on, for a span: `who` rank, `what` picoseconds.
    Compute = 5,
    /// A rank has ended.
    End = 6,
    /// A record of a model, which defines the meaning of the words.
    Model = 7,
    /// A rank's processor is busy with a message: `who` rank, `whom` the peer, `what` picoseconds.
    Overhead = 8,
    /// A link carries bytes: `who` link, `what` picoseconds.
    Link = 9,
    /// A rank begins a named phase: `what` is its number ([`Trace::number`]).
    Enter = 10,
    /// A rank ends the phase that it began last.
    Leave = 11,
    /// A rank's processor is busy in calls of any kind: `what` picoseconds.
    Call = 12,
}

/// One line of a trace. Records are in causal order. A rank may compute ahead of the engine's time
/// and then records future times, so a timeline sorts by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// The time.
    pub time: Time,
    /// The kind.
    pub kind: RecordKind,
    /// The subject, usually a rank.
    pub who: u32,
    /// The other party, if any.
    pub whom: u32,
    /// An amount or a number.
    pub what: u64,
}

/// Collects records, or only their digest, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    digest: Option<u64>,
    records: Option<Vec<TraceRecord>>,
    limit: usize,
    dropped: u64,
    /// Names of phases, by number.
    names: Vec<&'static str>,
}

impl Trace {
    /// Keeps a digest of all later records.
    pub fn digest_on(&mut self) {
        self.digest.get_or_insert(0xCBF2_9CE4_8422_2325);
    }

    /// Keeps the first `limit` records as well, and counts the rest.
    pub fn records_on(&mut self, limit: usize) {
        self.digest_on();
        self.limit = limit;
        self.records.get_or_insert_default();
    }

    /// Whether records are kept. If not, there is no need to make them.
    pub fn is_on(&self) -> bool {
        self.digest.is_some()
    }

    /// One number for all records so far. Two runs with the same records in the same order have the
    /// same digest. Zero if the trace is off.
    pub fn digest(&self) -> u64 {
        self.digest.unwrap_or(0)
    }

    /// The kept records.
    pub fn records(&self) -> &[TraceRecord] {
        self.records.as_deref().unwrap_or_default()
    }

    /// The number for a name, for records that refer to it.
    pub fn number(&mut self, name: &'static str) -> u64 {
        let known = self.names.iter().position(|other| *other == name);
        known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }) as u64
    }

    /// The name for a number. Empty if it has none.
    pub fn name(&self, number: u64) -> &'static str {
        usize::try_from(number).ok().and_then(|n| self.names.get(n)).copied().unwrap_or_default()
    }

    /// The number of records that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a record.
    pub fn add(&mut self, record: TraceRecord) {
        let Some(digest) = &mut self.digest else { return };
        let TraceRecord { time, kind, who, whom, what } = record;
        let parties = u64::from(who) << 32 | u64::from(whom);
        for word in [time.picoseconds(), kind as u64, parties, what] {
            // FNV-1a over words, with a rotation so that high bits affect low bits.
            *digest = (*digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        }
        match &mut self.records {
            Some(records) if records.len() < self.limit => records.push(record),
            Some(_) => self.dropped += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: u64) -> TraceRecord {
        TraceRecord { time: Time::ZERO, kind: RecordKind::Send, who: 0, whom: 1, what }
    }

    #[test]
    fn order_and_content_change_the_digest() {
        let digest = |order: &[u64]| {
            let mut trace = Trace::default();
            trace.digest_on();
            order.iter().for_each(|&what| trace.add(record(what)));
            trace.digest()
        };
        assert_eq!(digest(&[1, 2, 3]), digest(&[1, 2, 3]));
        assert_ne!(digest(&[1, 2, 3]), digest(&[2, 1, 3]));
        assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2]));
    }

    #[test]
    fn dropped_records_are_counted() {
        let mut trace = Trace::default();
        trace.add(record(0));
        assert_eq!((trace.records().len(), trace.is_on()), (0, false));
        trace.records_on(2);
        (0..5).for_each(|what| trace.add(record(what)));
        assert_eq!(trace.records(), [record(0), record(1)]);
        assert_eq!(trace.dropped(), 3);
    }
}
