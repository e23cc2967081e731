//! Contexts: the part of a rank's tables that peers can read, and the owner's book of them.
//!
//! A context is paper 003's cid: it has its own segment table and three address registers (§4.5,
//! §4.7). Peers see these words in the rank's segment of shared memory:
//!
//! ```text
//!   ContextLine   state        generation (32) | 0 (31) | open (1)
//!                 register n   binding   serial (16) | entry (8) | flags (8) | generation (32)
//!                              cursor    serial (16) | offset in that segment (48)
//!   SegmentEntry × segments
//! ```
//!
//! The rank writes them, with one exception. A sender moves the cursor of a register that advances,
//! by compare-and-swap, so that several senders reserve places side by side. Binding and cursor are
//! two words. Both contain the serial number of the setting, so no sender reserves a place by half
//! of one setting and half of the next.
//!
//! The *book* belongs to the owner, in its own memory: it records what is open, registered, or
//! being deregistered. A peer that overwrites the tables corrupts its own and others' accesses, but
//! never makes the owner allocate a place twice.

use super::NodeTable;
use super::segment::{Extent, Leaving, SegmentEntry};
use crate::fabric::{
    Advance, ContextError, ContextId, Fault, Key, REGISTERS, Rank, RegisterValue, Rights,
};
use crate::sync::{AtomicU64, Ordering, yield_now};

const OPEN: u64 = 1;
const SET: u64 = 1;
const ADVANCES: u64 = 2;
const CHANGING: u64 = 4;
const OFFSET_BITS: u32 = 48;
const OFFSETS: u64 = (1 << OFFSET_BITS) - 1;

/// Limit of a sender's attempts to reserve a place. Each failure is another sender's success or the
/// owner's setting. This many consecutive failures mean a process that overwrites the words, or an
/// owner that was stopped during a setting; the result is "full".
const TRIES: u32 = 1000;

/// The words of a context that peers can read, besides its segment table. All zero: never opened.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct ContextLine {
    state: AtomicU64,
    registers: [AddressRegister; REGISTERS as usize],
}

#[derive(Debug, Default)]
struct AddressRegister {
    binding: AtomicU64,
    cursor: AtomicU64,
}

/// The place of a put through a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedPlace {
    /// The segment to which the register points.
    pub segment: Key,
    /// The offset in that segment.
    pub offset: u64,
    /// The offset in the target's region.
    pub in_region: u64,
}

/// Why a put through a register reserved no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutRefusal {
    /// The tables do not allow it.
    Fault(Fault),
    /// The payload does not fit; the value is the offset in the segment where it would have landed.
    OutOfBounds(u64),
    /// Other senders reserved places first at each attempt.
    Contended,
    /// A nonzero offset with a register that advances.
    Displaced,
}

impl From<Fault> for PutRefusal {
    fn from(fault: Fault) -> PutRefusal {
        PutRefusal::Fault(fault)
    }
}

impl ContextLine {
    fn open(&self, generation: u32) {
        self.state.store(u64::from(generation) << 32 | OPEN, Ordering::Release);
    }

    fn close(&self, generation: u32) {
        self.state.store(u64::from(generation) << 32, Ordering::Release);
    }

    fn is_open(&self, generation: u32) -> bool {
        self.state.load(Ordering::Acquire) == u64::from(generation) << 32 | OPEN
    }

    /// Sets a register. Owner only.
    pub fn set(&self, register: u8, value: Option<RegisterValue>) {
        let AddressRegister { binding, cursor } = &self.registers[usize::from(register)];
        let serial = ((binding.load(Ordering::Relaxed) >> OFFSET_BITS) + 1) << OFFSET_BITS;
        let Some(RegisterValue { segment, offset, advance }) = value else {
            binding.store(serial, Ordering::Release);
            return;
        };
        // While the two words belong to different settings, senders retry.
        binding.store(serial | CHANGING << 32, Ordering::Release);
        // An exchange, like the senders' own: all changes of the cursor are in one order, and a
        // reservation comes before this one or not at all. (The language's memory model would allow
        // a store. Loom's does not: it lets a racing exchange come in between.)
        cursor.swap(serial | offset & OFFSETS, Ordering::AcqRel);
        let flags = SET | if advance == Advance::ByLength { ADVANCES } else { 0 };
        let entry = u64::from(segment.index) << 40 | flags << 32 | u64::from(segment.generation);
        binding.store(serial | entry, Ordering::Release);
    }

    /// The value of a register of the context with this number.
    pub fn get(&self, context: ContextId, register: u8) -> Option<RegisterValue> {
        let AddressRegister { binding, cursor } = &self.registers[usize::from(register)];
        let (segment, advance) = decode(binding.load(Ordering::Acquire), context)?;
        let offset = cursor.load(Ordering::Acquire) & OFFSETS;
        Some(RegisterValue { segment, offset, advance })
    }

    /// Where `length` bytes put through a register land. Reserves the place if the register
    /// advances. `entry` finds a segment of the same context.
    ///
    /// # Errors
    /// [`PutRefusal`]; nothing was moved.
    pub fn claim<'m>(
        &self,
        key: Key,
        displacement: u64,
        length: u64,
        entry: impl Fn(u8) -> Option<&'m SegmentEntry>,
    ) -> Result<ClaimedPlace, PutRefusal> {
        let register = self.registers.get(usize::from(key.index));
        let register = register.filter(|_| self.is_open(key.generation));
        let AddressRegister { binding, cursor } = register.ok_or(Fault::NoSuchRegister(key))?;
        let mut at = cursor.load(Ordering::Acquire);
        for _ in 0..TRIES {
            let bound = binding.load(Ordering::Acquire);
            let changing = bound >> 32 & CHANGING != 0;
            if changing || bound >> OFFSET_BITS != at >> OFFSET_BITS && bound >> 32 & SET != 0 {
                // The owner needs only a few more stores, unless it has been stopped.
                yield_now();
                at = cursor.load(Ordering::Acquire);
                continue;
            }
            let Some((segment, advance)) = decode(bound, key.context) else {
                return Err(Fault::RegisterUnset(key).into());
            };
            let table_entry = entry(segment.index).ok_or(Fault::NoSuchSegment(segment))?;
            let extent = table_entry.check(segment, Rights::WRITE)?;
            let offset = (at & OFFSETS).saturating_add(displacement);
            let in_region = extent.locate(offset, length).ok_or(PutRefusal::OutOfBounds(offset))?;
            let place = ClaimedPlace { segment, offset, in_region };
            if advance == Advance::Hold {
                return Ok(place);
            }
            if displacement != 0 {
                return Err(PutRefusal::Displaced);
            }
            let next = offset + length;
            if next > OFFSETS {
                return Err(PutRefusal::OutOfBounds(offset));
            }
            let after = at & !OFFSETS | next;
            match cursor.compare_exchange(at, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(place),
                Err(found) => at = found,
            }
        }
        Err(PutRefusal::Contended)
    }
}

/// The segment that a binding names and whether the register advances; `None` if it is unset.
fn decode(binding: u64, context: ContextId) -> Option<(Key, Advance)> {
    let flags = binding >> 32;
    let segment = Key { context, index: (binding >> 40) as u8, generation: binding as u32 };
    let advance = if flags & ADVANCES == 0 { Advance::Hold } else { Advance::ByLength };
    (flags & SET != 0).then_some((segment, advance))
}

/// Access to the lines and entries of one rank's contexts, which peers can read.
pub trait SharedContexts {
    /// A context's line. The context must exist.
    fn line(&self, context: ContextId) -> &ContextLine;

    /// An entry of its segment table. The entry must exist.
    fn entry(&self, context: ContextId, index: u8) -> &SegmentEntry;

    /// The epoch that a rank publishes at this one, loaded with acquire order.
    fn epoch(&self, rank: Rank) -> u64;

    /// The number of ranks.
    fn ranks(&self) -> u32;
}

/// The owner's book of its contexts.
#[derive(Debug)]
pub struct ContextBook {
    contexts: Vec<OwnContext>,
}

#[derive(Debug, Default)]
struct OwnContext {
    open: bool,
    /// The number of times that the context was opened.
    generation: u32,
    nodes: NodeTable,
    segments: Vec<OwnEntry>,
}

#[derive(Debug, Default)]
struct OwnEntry {
    /// The number of times that the entry was registered.
    generation: u32,
    use_: EntryUse,
}

#[derive(Debug, Default)]
enum EntryUse {
    #[default]
    Free,
    Registered {
        length: u64,
    },
    /// Closed; accesses of these ranks may still be running.
    Leaving(Leaving),
}

impl ContextBook {
    /// An empty book.
    pub fn new(contexts: u32, segments: u32) -> ContextBook {
        let entries = || (0..segments).map(|_| OwnEntry::default()).collect();
        let context = |_| OwnContext { segments: entries(), ..OwnContext::default() };
        ContextBook { contexts: (0..contexts).map(context).collect() }
    }

    /// Opens the lowest closed context.
    ///
    /// # Errors
    /// All contexts are open.
    pub fn open(&mut self, shared: &impl SharedContexts) -> Result<ContextId, ContextError> {
        let contexts = self.contexts.len() as u32;
        let free = self.contexts.iter().position(|context| !context.open);
        let index = free.ok_or(ContextError::NoContextFree { contexts })?;
        let id = ContextId(index as u8);
        let context = &mut self.contexts[index];
        (context.open, context.generation) = (true, following(context.generation));
        let line = shared.line(id);
        (0..REGISTERS).for_each(|register| line.set(register, None));
        line.open(context.generation);
        Ok(id)
    }

    /// Closes a context that has no segments.
    ///
    /// # Errors
    /// The context is not open, or has segments.
    pub fn close(
        &mut self,
        id: ContextId,
        shared: &impl SharedContexts,
    ) -> Result<(), ContextError> {
        let context = self.context_mut(id)?;
        let used =
            context.segments.iter().filter(|segment| !matches!(segment.use_, EntryUse::Free));
        let segments = used.count();
        if segments > 0 {
            return Err(ContextError::InUse { context: id, segments });
        }
        context.open = false;
        context.nodes = NodeTable::default();
        shared.line(id).close(context.generation);
        Ok(())
    }

    /// The node table of an open context.
    ///
    /// # Errors
    /// The context is not open.
    pub fn nodes(&self, id: ContextId) -> Result<&NodeTable, ContextError> {
        Ok(&self.context(id)?.nodes)
    }

    /// The node table of an open context, to fill it.
    ///
    /// # Errors
    /// The context is not open.
    pub fn nodes_mut(&mut self, id: ContextId) -> Result<&mut NodeTable, ContextError> {
        Ok(&mut self.context_mut(id)?.nodes)
    }

    /// Registers bytes that the caller has checked to be within the region.
    ///
    /// # Errors
    /// The context is not open, its table is full, or `rights` is empty.
    pub fn register(
        &mut self,
        id: ContextId,
        extent: Extent,
        rights: Rights,
        shared: &impl SharedContexts,
    ) -> Result<Key, ContextError> {
        if rights.bits() == 0 {
            return Err(ContextError::NoRights);
        }
        let context = self.context_mut(id)?;
        let free =
            context.segments.iter().position(|segment| matches!(segment.use_, EntryUse::Free));
        let segments = context.segments.len() as u32;
        let index = free.ok_or(ContextError::NoSegmentFree { context: id, segments })?;
        let segment = &mut context.segments[index];
        segment.generation = following(segment.generation);
        segment.use_ = EntryUse::Registered { length: extent.length };
        let key = Key { context: id, index: index as u8, generation: segment.generation };
        shared.entry(id, key.index).publish(extent, key.generation, rights);
        Ok(key)
    }

    /// Starts to deregister a segment, and completes it if no access is running.
    ///
    /// # Errors
    /// The key names no registered segment, or an access is still running.
    pub fn deregister(
        &mut self,
        key: Key,
        shared: &impl SharedContexts,
        dead: impl Fn(Rank) -> bool,
    ) -> Result<(), ContextError> {
        let segment = self.segment_mut(key)?;
        if matches!(segment.use_, EntryUse::Registered { .. }) {
            shared.entry(key.context, key.index).retract(key.generation);
            let leaving = Leaving::after_retract(shared.ranks(), |rank| shared.epoch(rank));
            segment.use_ = EntryUse::Leaving(leaving);
        }
        if let EntryUse::Leaving(leaving) = &mut segment.use_
            && let Some(rank) = leaving.wait_for(|rank| shared.epoch(rank), dead)
        {
            return Err(ContextError::Busy { rank });
        }
        segment.use_ = EntryUse::Free;
        Ok(())
    }

    /// The key of an address register.
    ///
    /// # Errors
    /// The context is not open, or there is no such register.
    pub fn register_key(&self, id: ContextId, register: u8) -> Result<Key, ContextError> {
        let generation = self.context(id)?.generation;
        if register >= REGISTERS {
            return Err(ContextError::NoSuchRegister(register));
        }
        Ok(Key { context: id, index: register, generation })
    }

    /// Sets a register.
    ///
    /// # Errors
    /// The context is not open, there is no such register, or the value points outside a segment of
    /// the same context.
    pub fn set_register(
        &mut self,
        id: ContextId,
        register: u8,
        value: Option<RegisterValue>,
        shared: &impl SharedContexts,
    ) -> Result<(), ContextError> {
        self.register_key(id, register)?;
        if let Some(RegisterValue { segment, offset, .. }) = value {
            let bad = ContextError::BadRegisterValue { segment, offset };
            let Ok(entry) = self.segment_mut(segment) else { return Err(bad) };
            let EntryUse::Registered { length } = entry.use_ else { return Err(bad) };
            if segment.context != id || offset > length || offset > OFFSETS {
                return Err(bad);
            }
        }
        shared.line(id).set(register, value);
        Ok(())
    }

    fn context(&self, id: ContextId) -> Result<&OwnContext, ContextError> {
        let context = self.contexts.get(usize::from(id.0));
        context.filter(|context| context.open).ok_or(ContextError::NotOpen(id))
    }

    fn context_mut(&mut self, id: ContextId) -> Result<&mut OwnContext, ContextError> {
        let context = self.contexts.get_mut(usize::from(id.0));
        context.filter(|context| context.open).ok_or(ContextError::NotOpen(id))
    }

    /// The entry that the key names, registered or being deregistered.
    fn segment_mut(&mut self, key: Key) -> Result<&mut OwnEntry, ContextError> {
        let context = self.context_mut(key.context)?;
        let segment = context.segments.get_mut(usize::from(key.index));
        let named = |segment: &&mut OwnEntry| {
            segment.generation == key.generation && !matches!(segment.use_, EntryUse::Free)
        };
        segment.filter(named).ok_or(ContextError::NoSuchSegment(key))
    }
}

/// The next generation; zero is never used.
fn following(generation: u32) -> u32 {
    generation.checked_add(1).unwrap_or(1)
}

#[cfg(all(test, not(loom)))]
mod tests;
