//! Counts of the ways that the long messages of a rank, or of all ranks of a job, took, with the
//! reasons: `hikyaku run --stats` prints them.

use std::fmt;

use hikyaku_nic::time::Time;

use crate::ways::{CLASSES, FIRST_CLASS, Way, class_of};

/// Why a message took its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayReason {
    /// It is the fastest of the measured ways.
    Fastest,
    /// To measure another way.
    Tried,
    /// `--long-messages` requires it, or time is virtual.
    Asked,
    /// It was put: its receiver was late to read those before it.
    Late,
    /// It was read before this rank had a receive for it, so that its sender could continue.
    Early,
    /// No other way exists: the receiver cannot reach the sender's memory.
    Only,
}

const WAYS: usize = Way::ALL.len();
const REASONS: usize = 6;

/// Counts of long messages by class of length, way and reason, at their receivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WayTally {
    classes: [ClassTally; CLASSES],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ClassTally {
    messages: [[u64; REASONS]; WAYS],
    /// The number of timed messages, and the sum of their nanoseconds.
    timed: [u64; WAYS],
    nanoseconds: [u64; WAYS],
}

/// Words of a class.
const CLASS_WORDS: usize = WAYS * (REASONS + 2);

impl WayTally {
    /// The number of words of a tally.
    pub const WORDS: usize = CLASSES * CLASS_WORDS;

    /// Counts a message.
    pub(crate) fn chose(&mut self, length: u64, way: Way, reason: WayReason) {
        self.classes[class_of(length)].messages[way as usize][reason as usize] += 1;
    }

    /// Counts the time of a message.
    pub(crate) fn took(&mut self, length: u64, way: Way, time: Time) {
        let class = &mut self.classes[class_of(length)];
        class.timed[way as usize] += 1;
        class.nanoseconds[way as usize] += time.nanoseconds();
    }

    /// All counts, in the order that [`WayTally::of_words`] reads. They may be added to those of
    /// another rank.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.classes.iter().flat_map(|class| {
            let messages = class.messages.iter().flatten();
            messages.chain(&class.timed).chain(&class.nanoseconds).copied()
        })
    }

    /// The reverse of [`WayTally::words`]. Missing words are zeros.
    pub fn of_words(words: &[u64]) -> WayTally {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let class = |class: usize| {
            let start = class * CLASS_WORDS;
            let times = start + WAYS * REASONS;
            ClassTally {
                messages: std::array::from_fn(|way| {
                    std::array::from_fn(|reason| word(start + way * REASONS + reason))
                }),
                timed: std::array::from_fn(|way| word(times + way)),
                nanoseconds: std::array::from_fn(|way| word(times + WAYS + way)),
            }
        };
        WayTally { classes: std::array::from_fn(class) }
    }
}

/// A line for each class of lengths that has messages, or one line if there were none.
impl fmt::Display for WayTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = |class: &ClassTally| class.messages.iter().flatten().any(|count| *count > 0);
        if !self.classes.iter().any(used) {
            return f.write_str("no long messages");
        }
        let mut separator = "";
        for (at, class) in self.classes.iter().enumerate().filter(|(_, class)| used(class)) {
            write!(f, "{separator}messages of {}:", lengths(at))?;
            separator = "\n";
            let mut comma = "";
            for way in Way::ALL {
                let count: u64 = class.messages[way as usize].iter().sum();
                if count > 0 {
                    write!(f, "{comma} {count} {}", way.in_words())?;
                    comma = ",";
                }
                let timed = class.timed[way as usize];
                if timed > 0 {
                    let mean = class.nanoseconds[way as usize] as f64 / timed as f64 / 1000.0;
                    write!(f, " ({mean:.1} us each)")?;
                }
            }
            let because = |reason: WayReason| -> u64 {
                class.messages.iter().map(|counts| counts[reason as usize]).sum()
            };
            let mut mark = ";";
            for (reason, why) in [
                (WayReason::Fastest, "as the fastest way known"),
                (WayReason::Tried, "to try another way"),
                (WayReason::Asked, "as asked for"),
                (WayReason::Late, "since their receiver came late to others"),
                (WayReason::Early, "before their receive, to let their sender go on"),
                (WayReason::Only, "for want of another way"),
            ] {
                if because(reason) > 0 {
                    write!(f, "{mark} {} {why}", because(reason))?;
                    mark = ",";
                }
            }
        }
        Ok(())
    }
}

/// The lengths of a class.
fn lengths(class: usize) -> String {
    let from = |class: usize| match FIRST_CLASS << class {
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", bytes >> 20),
    };
    match class {
        0 => format!("less than {}", from(1)),
        class if class + 1 == CLASSES => format!("{} and more", from(class)),
        class => format!("{} to {}", from(class), from(class + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_said_and_survives_as_words() {
        let mut tally = WayTally::default();
        assert_eq!(tally.to_string(), "no long messages");
        for _ in 0..3 {
            tally.chose(64 << 10, Way::Both, WayReason::Fastest);
            tally.took(64 << 10, Way::Both, Time::from_nanoseconds(7100));
        }
        tally.chose(100 << 10, Way::Ring, WayReason::Tried);
        tally.chose(u64::MAX, Way::Read, WayReason::Asked);
        tally.chose(0, Way::Ring, WayReason::Only);
        tally.chose(16 << 10, Way::Put, WayReason::Late);
        tally.chose(16 << 10, Way::Read, WayReason::Early);
        assert_eq!(
            tally.to_string(),
            "messages of less than 8 KiB: 1 through rings; 1 for want of another way\n\
             messages of 16 KiB to 32 KiB: 1 copied by the receiver, 1 put into rings; 1 since \
             their receiver came late to others, 1 before their receive, to let their sender go \
             on\n\
             messages of 64 KiB to 128 KiB: 1 through rings, 3 copied by both ends (7.1 us each); \
             3 as the fastest way known, 1 to try another way\n\
             messages of 128 MiB and more: 1 copied by the receiver; 1 as asked for"
        );
        let words: Vec<u64> = tally.words().collect();
        assert_eq!(words.len(), WayTally::WORDS);
        assert_eq!(WayTally::of_words(&words), tally);
        assert_eq!(WayTally::of_words(&[]), WayTally::default());
        let twice: Vec<u64> = words.iter().map(|word| 2 * word).collect();
        let twice = WayTally::of_words(&twice).to_string();
        assert!(twice.contains("6 copied by both ends (7.1 us each)"), "{twice}");
    }
}
