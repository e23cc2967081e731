//! The send and receive buffers of a rank, in both forms of [`DataReuse`].
//!
//! ```text
//!             fresh, in place         fresh, alternating         warm
//!   send      the one set, which      the set that was           the first set, which nothing
//!             was received into       received into last         writes between messages
//!   receive   the same set            the other set              the second, which nothing reads
//! ```
//!
//! So fresh data has always just been written by its sender, which received it, as in a program
//! that computes. Warm data is in the caches of both sides, if it fits.
//! peer/main.c places the sets in the same way.

use hikyaku::{Scalar, SharedBuffer, World};

use super::control::{BlockCommand, DataReuse};
use super::rank::RankError;

/// The most bytes that all buffers of a measurement may have together, as in peer/main.c.
const BUFFER_LIMIT: u64 = 4 << 30;

/// Bytes of a cache line, as in peer/main.c.
const LINE_BYTES: u64 = 64;

/// The buffer of a measurement.
pub(crate) enum MeasuredBuffer<T: Scalar = u8> {
    /// From the heap, as any program's.
    Heap(Vec<T>),
    /// From [`World::alloc`]: peers can copy from it directly.
    Allocated(SharedBuffer<T>),
}

impl<T: Scalar> MeasuredBuffer<T> {
    /// A buffer of `bytes` bytes, every element `value`. Each page has been written, so that no
    /// page fault is timed.
    pub(crate) fn new(
        world: &World,
        allocated: bool,
        bytes: u64,
        value: T,
    ) -> Result<MeasuredBuffer<T>, RankError> {
        let length = usize::try_from(bytes / size_of::<T>() as u64);
        let Some(length) = length.ok().filter(|_| bytes <= BUFFER_LIMIT) else {
            return Err(RankError::Command(format!(
                "{bytes} bytes are more than 4 GiB of buffers"
            )));
        };
        let mut buffer = match allocated {
            true => MeasuredBuffer::Allocated(world.alloc::<T>(length)?),
            false => MeasuredBuffer::Heap(vec![value; length]),
        };
        buffer.elements().fill(value);
        Ok(buffer)
    }

    #[inline]
    fn elements(&mut self) -> &mut [T] {
        match self {
            MeasuredBuffer::Heap(elements) => elements,
            MeasuredBuffer::Allocated(elements) => elements,
        }
    }
}

/// A set of blocks to send and a set to receive into, which may be the same set.
pub(crate) struct Sets<T: Scalar = u8> {
    buffer: MeasuredBuffer<T>,
    places: SetPlaces,
}

impl<T: Scalar> Sets<T> {
    /// Sets of `blocks` messages of `command`; fresh data is sent from the set that received it.
    pub(crate) fn in_place(
        world: &World,
        command: &BlockCommand,
        blocks: u32,
        value: T,
    ) -> Result<Sets<T>, RankError> {
        Sets::new(world, command, SetPlaces::new::<T>(command, blocks, 1), value)
    }

    /// The same; fresh data is received into one set and sent from the other, alternating.
    pub(crate) fn in_turns(
        world: &World,
        command: &BlockCommand,
        blocks: u32,
        value: T,
    ) -> Result<Sets<T>, RankError> {
        Sets::new(world, command, SetPlaces::new::<T>(command, blocks, 2), value)
    }

    fn new(
        world: &World,
        command: &BlockCommand,
        places: SetPlaces,
        value: T,
    ) -> Result<Sets<T>, RankError> {
        let elements = places.send.max(places.receive) + places.length;
        let bytes = (elements as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Sets { buffer: MeasuredBuffer::new(world, command.allocated, bytes, value)?, places })
    }

    /// The set to send next.
    #[inline]
    pub(crate) fn send(&mut self) -> &mut [T] {
        &mut self.buffer.elements()[self.places.send..][..self.places.length]
    }

    /// The set to receive into next.
    #[inline]
    pub(crate) fn receive(&mut self) -> &mut [T] {
        &mut self.buffer.elements()[self.places.receive..][..self.places.length]
    }

    /// Both sets: to send, and to receive into. In place, the second is empty.
    #[inline]
    pub(crate) fn both(&mut self) -> (&mut [T], &mut [T]) {
        let SetPlaces { send, receive, length, .. } = self.places;
        let (low, high) = self.buffer.elements().split_at_mut(send.max(receive));
        let kept = length.min(low.len());
        let (low, high) = (&mut low[..kept], &mut high[..length]);
        if send < receive { (low, high) } else { (high, low) }
    }

    /// Ends an exchange: received fresh data is sent next; warm data stays.
    #[inline]
    pub(crate) fn turn(&mut self) {
        self.places.turn();
    }

    /// The set that was received into before the last [`Sets::turn`].
    pub(crate) fn received(&mut self) -> &mut [T] {
        match self.places.data {
            DataReuse::Fresh => self.send(),
            DataReuse::Warm => self.receive(),
        }
    }
}

/// The positions of the sets in their buffer, and the length of each, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SetPlaces {
    data: DataReuse,
    send: usize,
    receive: usize,
    length: usize,
}

impl SetPlaces {
    /// `fresh_sets` is 1 or 2. Warm data shares no cache line with the receive set.
    fn new<T: Scalar>(command: &BlockCommand, blocks: u32, fresh_sets: u64) -> SetPlaces {
        let element = size_of::<T>() as u64;
        let bytes = command.bytes.saturating_mul(u64::from(blocks)) / element * element;
        let receive = match command.data {
            DataReuse::Fresh => bytes.saturating_mul(fresh_sets - 1),
            DataReuse::Warm => bytes.next_multiple_of(LINE_BYTES) + LINE_BYTES,
        };
        // Both are below 2^43, by the limits of a command.
        let elements = |bytes: u64| (bytes / element) as usize;
        let (receive, length) = (elements(receive), elements(bytes));
        SetPlaces { data: command.data, send: 0, receive, length }
    }

    #[inline]
    fn turn(&mut self) {
        if self.data == DataReuse::Fresh {
            std::mem::swap(&mut self.send, &mut self.receive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Verb;

    fn sets(data: DataReuse, bytes: u64, fresh_sets: u64) -> Sets {
        let command = BlockCommand { bytes, data, ..BlockCommand::plain(Verb::Latency) };
        let places = SetPlaces::new::<u8>(&command, 2, fresh_sets);
        let length = places.receive.max(places.send) + places.length;
        Sets { buffer: MeasuredBuffer::Heap(vec![1; length]), places }
    }

    #[test]
    fn fresh_data_is_sent_from_where_it_was_received() {
        let mut sets = sets(DataReuse::Fresh, 8, 1);
        sets.receive().fill(7);
        sets.turn();
        assert_eq!(sets.send(), [7; 16]);
        assert!(sets.both().1.is_empty());
    }

    #[test]
    fn fresh_data_in_turns_is_sent_next() {
        let mut sets = sets(DataReuse::Fresh, 8, 2);
        for mark in 2..6 {
            let (send, receive) = sets.both();
            assert_eq!((send.len(), send[0]), (16, mark - 1));
            receive.fill(mark);
            sets.turn();
            assert_eq!(sets.received(), [mark; 16]);
        }
    }

    #[test]
    fn warm_data_is_sent_from_an_untouched_buffer() {
        for fresh_sets in [1, 2] {
            let mut sets = sets(DataReuse::Warm, 3, fresh_sets);
            for mark in 2..6 {
                sets.both().1.fill(mark);
                sets.turn();
                sets.receive().fill(mark);
                assert_eq!(sets.send(), [1; 6]);
                assert_eq!(sets.received(), [mark; 6]);
            }
        }
    }

    #[test]
    fn warm_sets_share_no_cache_line() {
        for bytes in [0, 1, 8, 63, 64, 65, 1 << 20] {
            let command =
                BlockCommand { bytes, data: DataReuse::Warm, ..BlockCommand::plain(Verb::Latency) };
            let places = SetPlaces::new::<u8>(&command, 1, 1);
            assert!(places.receive - places.length >= LINE_BYTES as usize, "{bytes}");
            let numbers = SetPlaces::new::<f64>(&command, 1, 1);
            assert_eq!(numbers.length as u64, bytes / 8);
            assert!(8 * (numbers.receive - numbers.length) >= LINE_BYTES as usize, "{bytes}");
        }
    }
}
