//! A table whose places are used again: what is in flight, by a small number.
//!
//! Events carry one word, so everything they speak of has a number. Places freed last are used
//! first, which keeps the table small and warm.

/// Values by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    /// First of the list of free places; `NONE` if there is none.
    free: u32,
    len: usize,
}

#[derive(Debug)]
enum Place<T> {
    Full(T),
    Free { next: u32 },
}

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// The number that the next [`insert`](Slab::insert) will give.
    pub(crate) fn next_key(&self) -> u32 {
        if self.free == NONE { self.places.len() as u32 } else { self.free }
    }

    /// Keeps a value and tells its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        let key = self.next_key();
        assert!(key != NONE, "a table of the simulator is full: 2^32 - 1 things in flight");
        match self.places.get_mut(key as usize) {
            Some(place) => {
                if let Place::Free { next } = *place {
                    self.free = next;
                }
                *place = Place::Full(value);
            }
            None => self.places.push(Place::Full(value)),
        }
        key
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        match self.places.get(key as usize) {
            Some(Place::Full(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        match self.places.get_mut(key as usize) {
            Some(Place::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// Takes a value out; its number is free for another.
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let place = self.places.get_mut(key as usize)?;
        if let Place::Free { .. } = place {
            return None;
        }
        let Place::Full(value) = std::mem::replace(place, Place::Free { next: self.free }) else {
            return None;
        };
        self.free = key;
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.places).filter_map(|(key, place)| match place {
            Place::Full(value) => Some((key, value)),
            Place::Free { .. } => None,
        })
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
