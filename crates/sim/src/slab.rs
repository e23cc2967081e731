//! A table with reused places: entries in flight, by a small number.
//!
//! Events carry one word, so every object that they refer to has a number. The last freed place is
//! used first, which keeps the table small and in the cache. The numbers of free places are a
//! separate list, not links through the places. In a table beyond the caches, following links would
//! cost one miss after the other. The list names the next places, so they can be prefetched.

use hikyaku_nic::sync::prefetch_for_write;

/// Values by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    /// Free places, the last freed one at the end.
    free: Vec<u32>,
}

/// The number that stands for no place.
pub(crate) const NONE: u32 = u32::MAX;

/// The number of insertions by which a free place is prefetched ahead.
const AHEAD: usize = 6;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// The size of a place: no more than a value, if its type has a spare bit pattern.
    #[cfg(test)]
    pub(crate) const PLACE_BYTES: usize = size_of::<Option<T>>();

    /// The number that the next [`insert`](Slab::insert) will return.
    pub(crate) fn next_key(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// Stores a value and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let key = self.next_key();
        assert!(key != NONE, "a table of the simulator is full: 2^32 - 1 things in flight");
        match self.free.pop() {
            Some(_) => {
                self.places[key as usize] = Some(value);
                if let Some(&soon) = self.free.iter().nth_back(AHEAD - 1) {
                    prefetch_for_write(&raw const self.places[soon as usize]);
                }
            }
            None => self.places.push(Some(value)),
        }
        key
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.places.get(key as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.places.get_mut(key as usize)?.as_mut()
    }

    /// Removes a value. Its number can be reused.
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.places.get_mut(key as usize)?.take()?;
        self.free.push(key);
        Some(value)
    }

    /// Prefetches a place that will soon be read.
    pub(crate) fn prepare(&self, key: u32) {
        if let Some(place) = self.places.get(key as usize) {
            prefetch_for_write(place);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.places).filter_map(|(key, place)| Some((key, place.as_ref()?)))
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, key: u32) -> &T {
        self.get(key).expect("a number names something that is in flight")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.get_mut(key).expect("a number names something that is in flight")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_last_freed_first() {
        let mut slab = Slab::default();
        let keys: Vec<u32> = ["a", "b", "c"].into_iter().map(|value| slab.insert(value)).collect();
        assert_eq!(keys, [0, 1, 2]);
        assert_eq!((slab.remove(0), slab.remove(0)), (Some("a"), None));
        assert_eq!(slab.remove(2), Some("c"));
        assert_eq!((slab.get(2), slab.next_key()), (None, 2));
        assert_eq!((slab.insert("d"), slab.insert("e"), slab.insert("f")), (2, 0, 3));
        let all: Vec<_> = slab.iter().collect();
        assert_eq!(all, [(0, &"e"), (1, &"b"), (2, &"d"), (3, &"f")]);
        assert_eq!((slab.len(), slab.remove(9)), (4, None));
    }
}
