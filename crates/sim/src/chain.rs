//! Lists through the places of a [`Slab`]: a queue that also lets go from its middle.
//!
//! A rank has two of them, and a hundred thousand ranks have many empty ones: 8 bytes each.

use crate::slab::{NONE, Slab};

/// The two ends of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

/// An item's neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { before: NONE, after: NONE }
    }
}

/// What can stand in a chain.
pub(crate) trait Linked {
    fn links(&mut self) -> &mut Links;
}

impl Default for Chain {
    fn default() -> Self {
        Chain { head: NONE, tail: NONE }
    }
}

impl Chain {
    /// Appends the item with number `key`, which stands in no chain.
    pub(crate) fn push<T: Linked>(&mut self, slab: &mut Slab<T>, key: u32) {
        *slab[key].links() = Links { before: self.tail, after: NONE };
        match self.tail {
            NONE => self.head = key,
            tail => slab[tail].links().after = key,
        }
        self.tail = key;
    }

    /// Takes the item with number `key` out, which stands in this chain.
    pub(crate) fn unlink<T: Linked>(&mut self, slab: &mut Slab<T>, key: u32) {
        let Links { before, after } = std::mem::take(slab[key].links());
        match before {
            NONE => self.head = after,
            before => slab[before].links().after = after,
        }
        match after {
            NONE => self.tail = before,
            after => slab[after].links().before = before,
        }
    }

    /// The first item that fits.
    pub(crate) fn find<T: Linked>(
        &self,
        slab: &mut Slab<T>,
        mut fits: impl FnMut(&T) -> bool,
    ) -> Option<u32> {
        let mut key = self.head;
        while key != NONE {
            let item = &mut slab[key];
            if fits(item) {
                return Some(key);
            }
            key = item.links().after;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(char, Links);

    impl Linked for Item {
        fn links(&mut self) -> &mut Links {
            &mut self.1
        }
    }

    fn read(chain: &Chain, slab: &mut Slab<Item>) -> String {
        let mut text = String::new();
        chain.find(slab, |item| {
            text.push(item.0);
            false
        });
        text
    }

    #[test]
    fn items_leave_from_the_ends_and_the_middle() {
        let (mut slab, mut chain) = (Slab::default(), Chain::default());
        let keys: Vec<u32> =
            "abcd".chars().map(|name| slab.insert(Item(name, Links::default()))).collect();
        keys.iter().for_each(|&key| chain.push(&mut slab, key));
        assert_eq!(read(&chain, &mut slab), "abcd");
        for (key, left) in [(keys[1], "acd"), (keys[3], "ac"), (keys[0], "c"), (keys[2], "")] {
            chain.unlink(&mut slab, key);
            assert_eq!(read(&chain, &mut slab), left);
        }
        chain.push(&mut slab, keys[2]);
        assert_eq!(chain.find(&mut slab, |item| item.0 == 'c'), Some(keys[2]));
    }
}
