//! The book and the lines without a fabric, and the effects of a peer that overwrites them.

use super::*;
use crate::table::Extent;

/// Tables as in a segment.
struct Tables {
    lines: Vec<ContextLine>,
    entries: Vec<Vec<SegmentEntry>>,
    epochs: Vec<AtomicU64>,
}

impl Tables {
    fn new(contexts: usize, segments: usize) -> Tables {
        Tables {
            lines: (0..contexts).map(|_| ContextLine::default()).collect(),
            entries: (0..contexts)
                .map(|_| (0..segments).map(|_| SegmentEntry::default()).collect())
                .collect(),
            epochs: (0..3).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn claim(&self, key: Key, length: u64) -> Result<u64, PutRefusal> {
        let entries = &self.entries[usize::from(key.context.0)];
        let line = &self.lines[usize::from(key.context.0)];
        let claimed = line.claim(key, 0, length, |index| entries.get(usize::from(index)));
        claimed.map(|place| place.in_region)
    }
}

impl SharedContexts for Tables {
    fn line(&self, context: ContextId) -> &ContextLine {
        &self.lines[usize::from(context.0)]
    }

    fn entry(&self, context: ContextId, index: u8) -> &SegmentEntry {
        &self.entries[usize::from(context.0)][usize::from(index)]
    }

    fn epoch(&self, rank: Rank) -> u64 {
        self.epochs[rank as usize].load(Ordering::Acquire)
    }

    fn ranks(&self) -> u32 {
        self.epochs.len() as u32
    }
}

const EXTENT: Extent = Extent { base: 1000, length: 100 };

#[test]
fn cj_05_a_key_tells_all_contexts_apart() {
    let tables = Tables::new(256, 1);
    let mut book = ContextBook::new(256, 1);
    let keys: Vec<Key> = (0..=255)
        .map(|number| {
            let id = book.open(&tables).unwrap();
            assert_eq!(id, ContextId(number));
            let extent = Extent { base: u64::from(number) * 100, length: 100 };
            book.register(id, extent, Rights::READ, &tables).unwrap()
        })
        .collect();
    assert_eq!(book.open(&tables), Err(ContextError::NoContextFree { contexts: 256 }));
    for key in &keys {
        let extent = tables.entry(key.context, key.index).check(*key, Rights::READ).unwrap();
        assert_eq!(extent.base, u64::from(key.context.0) * 100);
    }
}

#[test]
fn an_entry_is_reused_after_its_last_access() {
    let tables = Tables::new(1, 1);
    let mut book = ContextBook::new(1, 1);
    let id = book.open(&tables).unwrap();
    let key = book.register(id, EXTENT, Rights::ALL, &tables).unwrap();
    tables.epochs[2].store(1, Ordering::Release);
    let busy = Err(ContextError::Busy { rank: 2 });
    assert_eq!(book.deregister(key, &tables, |_| false), busy);
    let refused = tables.entry(id, 0).check(key, Rights::READ);
    assert_eq!(refused, Err(Fault::NoSuchSegment(key)), "nobody new gets in meanwhile");
    let full = ContextError::NoSegmentFree { context: id, segments: 1 };
    assert_eq!(book.register(id, EXTENT, Rights::ALL, &tables), Err(full));
    let in_use = ContextError::InUse { context: id, segments: 1 };
    assert_eq!(book.close(id, &tables), Err(in_use));
    assert_eq!(book.deregister(key, &tables, |_| false), busy);
    assert_eq!(book.deregister(key, &tables, |rank| rank == 2), Ok(()), "it died");
    assert_eq!(book.register(id, EXTENT, Rights::ALL, &tables).unwrap().generation, 2);
}

#[test]
fn a_register_reserves_until_its_segment_is_full() {
    let tables = Tables::new(1, 2);
    let mut book = ContextBook::new(1, 2);
    let id = book.open(&tables).unwrap();
    let segment = book.register(id, EXTENT, Rights::WRITE, &tables).unwrap();
    let key = book.register_key(id, 2).unwrap();
    assert_eq!(tables.claim(key, 8), Err(Fault::RegisterUnset(key).into()));
    let value = RegisterValue { segment, offset: 50, advance: Advance::ByLength };
    book.set_register(id, 2, Some(value), &tables).unwrap();
    assert_eq!(tables.claim(key, 30), Ok(1050));
    assert_eq!(tables.claim(key, 21), Err(PutRefusal::OutOfBounds(80)));
    assert_eq!(tables.claim(key, 20), Ok(1080));
    assert_eq!(tables.claim(key, 0), Ok(1100));
    assert_eq!(tables.claim(key, 1), Err(PutRefusal::OutOfBounds(100)));
    let other = Key { index: 3, ..key };
    assert_eq!(tables.claim(other, 1), Err(Fault::NoSuchRegister(other).into()));
    book.deregister(segment, &tables, |_| false).unwrap();
    assert_eq!(tables.claim(key, 0), Err(Fault::NoSuchSegment(segment).into()));
}

#[test]
fn a_scribbled_register_stays_inside_and_ends() {
    let tables = Tables::new(1, 2);
    let mut book = ContextBook::new(1, 2);
    let id = book.open(&tables).unwrap();
    book.register(id, EXTENT, Rights::WRITE, &tables).unwrap();
    let key = book.register_key(id, 0).unwrap();
    let words = [0, 1, u64::MAX, 1 << 63, 0xffff << 48, OFFSETS, 4 << 32, 3 << 32 | 1, 7 << 32 | 1];
    for (binding, cursor) in words.iter().flat_map(|a| words.map(|b| (*a, b))) {
        for serial in [0, 1 << 48] {
            let register = &tables.lines[0].registers[0];
            register.binding.store(binding, Ordering::Release);
            register.cursor.store(cursor.wrapping_add(serial), Ordering::Release);
            if let Ok(place) = tables.claim(key, 10) {
                assert!((1000..=1090).contains(&place), "{place}");
            }
            tables.lines[0].get(id, 0);
        }
    }
    // The owner's own setting repairs it.
    let segment = Key { context: id, index: 0, generation: 1 };
    let value = RegisterValue { segment, offset: 0, advance: Advance::Hold };
    book.set_register(id, 0, Some(value), &tables).unwrap();
    assert_eq!(tables.claim(key, 100), Ok(1000));
}

#[test]
fn a_scribbled_table_allocates_no_entry_twice() {
    let tables = Tables::new(2, 2);
    let mut book = ContextBook::new(2, 2);
    let id = book.open(&tables).unwrap();
    let key = book.register(id, EXTENT, Rights::ALL, &tables).unwrap();
    tables.entry(id, 0).retract(0);
    tables.line(id).close(0);
    assert_eq!(book.open(&tables), Ok(ContextId(1)), "the first is open, whatever the line says");
    assert_eq!(book.register(id, EXTENT, Rights::ALL, &tables).unwrap().index, 1);
    assert_eq!(book.deregister(key, &tables, |_| false), Ok(()));
}

#[test]
fn half_of_a_setting_reserves_no_place() {
    let tables = Tables::new(1, 1);
    let mut book = ContextBook::new(1, 1);
    let id = book.open(&tables).unwrap();
    let segment = book.register(id, EXTENT, Rights::WRITE, &tables).unwrap();
    let key = book.register_key(id, 0).unwrap();
    let binding = &tables.lines[0].registers[0].binding;
    let mut set = |offset| {
        let value = RegisterValue { segment, offset, advance: Advance::Hold };
        book.set_register(id, 0, Some(value), &tables).unwrap();
        binding.load(Ordering::Acquire)
    };
    // The serial number wraps round once.
    for _ in 0..=1 << 16 {
        let old = set(0);
        let new = set(50);
        assert_ne!(old >> OFFSET_BITS, new >> OFFSET_BITS);
    }
    let old = set(0);
    let new = set(50);
    binding.store(old, Ordering::Release);
    assert_eq!(tables.claim(key, 10), Err(PutRefusal::Contended));
    binding.store(new, Ordering::Release);
    assert_eq!(tables.claim(key, 10), Ok(1050));
}
