//! This library's handles: numbers that contain the kind of their object, and become invalid when
//! the object is freed.
//!
//! ```text
//!   | 0 | object 5 | 1 | generation 5 | place 20 |
//!    31  30         25  24             19
//! ```
//!
//! Bit 25 is not set in any predefined handle of either binary interface, so no handle made here
//! equals one of those. Free places are reused in turn, so a freed handle stays invalid until all
//! free places have been reused 32 times.

use std::cell::RefCell;

use crate::dialect::{Handle, Object};
use crate::failure::Failure;

const PLACE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 5;
const OURS: u32 = 1 << (PLACE_BITS + GENERATION_BITS);
const OBJECT_SHIFT: u32 = PLACE_BITS + GENERATION_BITS + 1;

/// A place is reused only if more than this many are free, or no place can be added.
const REST: u32 = 64;

/// The objects of one kind that have handles. Their values are small or shared.
#[derive(Debug)]
pub(crate) struct Slots<V> {
    object: Object,
    places: RefCell<Places<V>>,
}

#[derive(Debug)]
struct Places<V> {
    all: Vec<Place<V>>,
    /// The number of free places, which form a list that starts at `longest`, the first freed.
    free: u32,
    longest: u32,
    latest: u32,
}

#[derive(Debug)]
struct Place<V> {
    generation: u32,
    /// The place that was freed after this one.
    next: u32,
    value: Option<V>,
}

impl<V> Places<V> {
    const fn new() -> Places<V> {
        Places { all: Vec::new(), free: 0, longest: 0, latest: 0 }
    }

    /// The value of a place, unless the place has been reused.
    #[inline(always)]
    fn get(&self, (at, generation): (usize, u32)) -> Option<&V> {
        self.all.get(at).filter(|place| place.generation == generation)?.value.as_ref()
    }

    /// Calls `act` on the value of a place, and frees the place if `act` returns something.
    #[inline(always)]
    fn remove_if<R>(
        &mut self,
        (at, generation): (usize, u32),
        act: impl FnOnce(&mut Option<V>) -> Option<R>,
    ) -> Option<R> {
        let place = self.all.get_mut(at).filter(|place| place.generation == generation)?;
        let found = act(&mut place.value)?;
        place.generation = (generation + 1) % (1 << GENERATION_BITS);
        self.give_back(at as u32);
        Some(found)
    }

    #[inline(always)]
    fn give_back(&mut self, at: u32) {
        match self.free {
            0 => self.longest = at,
            _ => self.all[self.latest as usize].next = at,
        }
        self.latest = at;
        self.free += 1;
    }

    /// Takes a free place.
    ///
    /// # Errors
    /// A million objects exist already.
    #[inline(always)]
    fn place(&mut self, object: Object) -> Result<u32, Failure> {
        if self.free <= REST {
            return self.grow(object);
        }
        Ok(self.take_longest())
    }

    #[inline(always)]
    fn take_longest(&mut self) -> u32 {
        let at = self.longest;
        self.longest = self.all[at as usize].next;
        self.free -= 1;
        at
    }

    #[inline(never)]
    fn grow(&mut self, object: Object) -> Result<u32, Failure> {
        let known = self.all.len();
        if known < 1 << PLACE_BITS {
            self.all.push(Place { generation: 0, next: 0, value: None });
            return Ok(known as u32);
        }
        if self.free > 0 {
            return Ok(self.take_longest());
        }
        Err(Failure::no_memory(format!("there are {known} {}s", object.name())))
    }
}

impl<V: Clone> Slots<V> {
    pub(crate) const fn new(object: Object) -> Slots<V> {
        Slots { object, places: RefCell::new(Places::new()) }
    }

    /// Gives an object a handle.
    ///
    /// # Errors
    /// A million objects exist already.
    #[inline(always)]
    pub(crate) fn add(&self, value: V) -> Result<Handle, Failure> {
        self.add_made(|| value)
    }

    /// [`Slots::add`] for an object that is constructed in its place.
    #[inline(always)]
    pub(crate) fn add_made(&self, make: impl FnOnce() -> V) -> Result<Handle, Failure> {
        let mut places = self.places.borrow_mut();
        let at = places.place(self.object)?;
        let place = &mut places.all[at as usize];
        // Without a drop here: every message in flight passes through this.
        match &mut place.value {
            Some(_) => unreachable!("a free place is empty"),
            empty => *empty = Some(make()),
        }
        let object = (self.object as u32) << OBJECT_SHIFT;
        Ok(Handle(object | OURS | place.generation << PLACE_BITS | at))
    }

    /// Replaces the object of a handle, unless the handle was freed meanwhile.
    pub(crate) fn replace(&self, handle: Handle, value: V) {
        let mut places = self.places.borrow_mut();
        let Some((at, generation)) = self.place_of(handle) else { return };
        let place = places.all.get_mut(at).filter(|place| place.generation == generation);
        if let Some(known) = place.and_then(|place| place.value.as_mut()) {
            *known = value;
        }
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<V> {
        self.with(handle, V::clone)
    }

    /// Calls `act` with the object of a handle.
    #[inline]
    pub(crate) fn with<R>(&self, handle: Handle, act: impl FnOnce(&V) -> R) -> Option<R> {
        let places = self.places.borrow();
        places.get(self.place_of(handle)?).map(act)
    }

    /// Calls `act` with the object of each handle, in order.
    ///
    /// # Errors
    /// The first error of `act`, at which it stops.
    #[inline(always)]
    pub(crate) fn each(
        &self,
        handles: impl Iterator<Item = Handle>,
        mut act: impl FnMut(Handle, Option<&V>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let places = self.places.borrow();
        for handle in handles {
            act(handle, self.place_of(handle).and_then(|place| places.get(place)))?;
        }
        Ok(())
    }

    /// Removes a handle and returns its object.
    pub(crate) fn remove(&self, handle: Handle) -> Option<V> {
        let place = self.place_of(handle)?;
        self.places.borrow_mut().remove_if(place, Option::take)
    }

    /// Calls `act` with an object, and removes its handle if `act` returns something. The object is
    /// not moved: most objects were stored in parts a moment ago.
    #[inline(always)]
    pub(crate) fn remove_if<R>(
        &self,
        handle: Handle,
        act: impl FnOnce(&V) -> Option<R>,
    ) -> Option<R> {
        let place = self.place_of(handle)?;
        self.places.borrow_mut().remove_if(place, |value| {
            let found = act(value.as_ref()?)?;
            *value = None;
            Some(found)
        })
    }

    /// All objects that have a handle.
    pub(crate) fn all(&self) -> Vec<V> {
        self.places.borrow().all.iter().filter_map(|place| place.value.clone()).collect()
    }

    /// Whether no object has a handle.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.borrow().all.iter().all(|place| place.value.is_none())
    }

    /// Removes all handles.
    pub(crate) fn clear(&self) {
        let taken = self.places.replace(Places::new());
        // Drop the objects while nothing is borrowed.
        drop(taken);
    }

    /// The place and generation in a handle, if it is of this kind.
    #[inline]
    fn place_of(&self, Handle(number): Handle) -> Option<(usize, u32)> {
        let is_ours = number >> (PLACE_BITS + GENERATION_BITS) == (self.object as u32) << 1 | 1;
        let generation = number >> PLACE_BITS & ((1 << GENERATION_BITS) - 1);
        is_ours.then_some(((number & ((1 << PLACE_BITS) - 1)) as usize, generation))
    }
}

/// The kind of object of one of our handles; `None` for other handles.
pub(crate) fn object_of(Handle(number): Handle) -> Option<Object> {
    const ALL: [Object; 11] = [
        Object::Comm,
        Object::Group,
        Object::Type,
        Object::Op,
        Object::Request,
        Object::Message,
        Object::Info,
        Object::Errhandler,
        Object::Win,
        Object::File,
        Object::Session,
    ];
    let is_of = |object: &&Object| number >> OBJECT_SHIFT == **object as u32;
    (number & OURS != 0).then(|| ALL.iter().find(is_of).copied())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_handle_names_its_object_until_it_is_freed() {
        let (slots, others) = (Slots::new(Object::Info), Slots::new(Object::Group));
        let first = slots.add(1).unwrap();
        others.add(9).unwrap();
        assert_eq!(slots.get(first), Some(1));
        assert_eq!(others.get(first), None, "it is of another kind");
        assert_eq!(object_of(first), Some(Object::Info));
        assert_eq!(slots.remove(first), Some(1));
        assert!(slots.get(first).is_none() && slots.remove(first).is_none());
        slots.clear();
        for invented in [Handle(0), Handle(0x101), Handle(u32::MAX), Handle(first.0 + 77)] {
            assert_eq!(slots.get(invented), None);
        }
    }

    #[test]
    fn objects_are_taken_where_they_fit_and_looked_at_in_order() {
        let slots = Slots::new(Object::Request);
        let handles = [3, 4, 5].map(|value| slots.add(value).unwrap());
        let twice = |wanted| move |value: &i32| (*value == wanted).then_some(2 * value);
        assert_eq!(slots.remove_if(handles[1], twice(3)), None);
        assert_eq!(slots.remove_if(handles[1], twice(4)), Some(8));
        assert_eq!(slots.remove_if(handles[1], twice(4)), None);
        let mut seen = Vec::new();
        let looked = slots.each(handles.into_iter(), |_, value| {
            seen.push(value.copied());
            Ok(())
        });
        assert!(looked.is_ok());
        assert_eq!(seen, [Some(3), None, Some(5)]);
        let failed = slots.each(handles.into_iter(), |_, value| match value {
            Some(_) => Ok(()),
            None => Err(Failure::argument("none")),
        });
        assert!(failed.is_err());
        assert!(slots.remove(handles[0]).is_some() && slots.remove(handles[2]).is_some());
        assert!(slots.is_empty(), "nothing stays in a free place");
    }

    #[test]
    fn a_number_comes_back_late() {
        let slots = Slots::new(Object::Request);
        let mut seen = BTreeSet::new();
        for turn in 0..REST as usize * 31 {
            let handle = slots.add(turn).unwrap();
            assert!(seen.insert(handle.0), "turn {turn}");
            // No predefined handle of either interface has this bit.
            assert!(handle.0 & OURS != 0 && handle.0 as i32 > 0);
            slots.remove(handle);
        }
        assert!(slots.places.borrow().all.len() <= REST as usize + 2, "places are taken again");
    }
}
