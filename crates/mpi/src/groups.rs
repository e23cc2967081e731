//! Groups: lists of ranks of the job (MPI 5.0 §7.3). These functions do not communicate.

use std::rc::Rc;

use crate::dialect::{Dialect, Handle, Object, PROC_NULL, UNDEFINED};
use crate::failure::{Class, Failure};
use crate::raw::{HandleAt, Numbers, NumbersAt, Out};
use crate::runtime::Mpi;

/// Results of comparisons, as MPI 5.0's interface numbers them.
pub(crate) const IDENT: i32 = 201;
pub(crate) const CONGRUENT: i32 = 202;
pub(crate) const SIMILAR: i32 = 203;
pub(crate) const UNEQUAL: i32 = 204;

/// A group: an ordered list of ranks of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub(crate) ranks: Vec<u32>,
}

impl Group {
    /// The index of a rank of the job.
    fn place(&self, rank: u32) -> Option<usize> {
        self.ranks.iter().position(|other| *other == rank)
    }

    /// The ranks with these numbers, each of which may appear once. `argument` names the list.
    fn chosen(&self, numbers: &[i64], argument: &str) -> Result<Vec<u32>, Failure> {
        let mut chosen = Vec::with_capacity(numbers.len());
        for number in numbers {
            let rank = usize::try_from(*number).ok().and_then(|at| self.ranks.get(at)).copied();
            let rank = rank.ok_or_else(|| no_rank(*number, self.ranks.len()).named(argument))?;
            if chosen.contains(&rank) {
                let text = format!("rank {number} is given twice");
                return Err(Failure::new(Class::Rank, text).named(argument));
            }
            chosen.push(rank);
        }
        Ok(chosen)
    }

    pub(crate) fn compare(&self, other: &Group) -> i32 {
        if self == other {
            return IDENT;
        }
        let sorted = |group: &Group| {
            let mut ranks = group.ranks.clone();
            ranks.sort_unstable();
            ranks
        };
        if sorted(self) == sorted(other) { SIMILAR } else { UNEQUAL }
    }
}

fn no_rank(rank: i64, size: usize) -> Failure {
    let text = format!("rank {rank} is not in the group, which has {size} ranks");
    Failure::new(Class::Rank, text)
}

impl<D: Dialect> Mpi<D> {
    /// The group of a handle.
    pub fn group(&self, handle: D::Handle) -> Result<Rc<Group>, Failure> {
        let number = D::number(Object::Group, handle);
        if number == Handle::GROUP_EMPTY {
            return Ok(Rc::new(Group { ranks: Vec::new() }));
        }
        self.state.groups.get(number).ok_or_else(|| self.no_such(Object::Group, number))
    }

    /// Gives a new group of these ranks a handle.
    pub(crate) fn add_group(&self, ranks: Vec<u32>, into: &HandleAt<D>) -> Result<(), Failure> {
        into.set(match ranks[..] {
            [] => Handle::GROUP_EMPTY,
            _ => self.state.groups.add(Rc::new(Group { ranks }))?,
        });
        Ok(())
    }

    /// MPI_Group_free.
    pub fn group_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if number != Handle::GROUP_EMPTY && self.state.groups.remove(number).is_none() {
            return Err(self.no_such(Object::Group, number));
        }
        handle.set_null();
        Ok(())
    }

    /// MPI_Group_size.
    pub fn group_size(&self, group: Rc<Group>, size: Out<i32>) -> Result<(), Failure> {
        size.set(group.ranks.len() as i32);
        Ok(())
    }

    /// MPI_Group_rank.
    pub fn group_rank(&self, group: Rc<Group>, rank: Out<i32>) -> Result<(), Failure> {
        let own = self.rank()?.rank();
        rank.set(group.place(own).map_or(UNDEFINED, |at| at as i32));
        Ok(())
    }

    /// MPI_Group_compare.
    pub fn group_compare(
        &self,
        one: Rc<Group>,
        other: Rc<Group>,
        result: Out<i32>,
    ) -> Result<(), Failure> {
        result.set(D::comparison_out(one.compare(&other)));
        Ok(())
    }

    /// MPI_Group_translate_ranks.
    pub fn group_translate_ranks(
        &self,
        one: Rc<Group>,
        count: i32,
        ranks: Numbers,
        other: Rc<Group>,
        into: NumbersAt,
    ) -> Result<(), Failure> {
        let ranks = ranks.all(crate::raw::length(count, "n")?, "ranks1")?;
        into.check(ranks.len(), "ranks2")?;
        for (at, number) in ranks.into_iter().enumerate() {
            if D::rank(number as i32) == PROC_NULL {
                into.set(at, number);
                continue;
            }
            let rank = usize::try_from(number).ok().and_then(|at| one.ranks.get(at));
            let rank = rank.ok_or_else(|| no_rank(number, one.ranks.len()).named("ranks1"))?;
            into.set(at, other.place(*rank).map_or(UNDEFINED.into(), |place| place as i64));
        }
        Ok(())
    }

    /// MPI_Group_union.
    pub fn group_union(
        &self,
        one: Rc<Group>,
        other: Rc<Group>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let more = other.ranks.iter().filter(|rank| one.place(**rank).is_none());
        self.add_group(one.ranks.iter().chain(more).copied().collect(), &into)
    }

    /// MPI_Group_intersection.
    pub fn group_intersection(
        &self,
        one: Rc<Group>,
        other: Rc<Group>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let both = one.ranks.iter().filter(|rank| other.place(**rank).is_some());
        self.add_group(both.copied().collect(), &into)
    }

    /// MPI_Group_difference.
    pub fn group_difference(
        &self,
        one: Rc<Group>,
        other: Rc<Group>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.without(&one, &other.ranks, &into)
    }

    /// MPI_Group_incl.
    pub fn group_incl(
        &self,
        group: Rc<Group>,
        count: i32,
        ranks: Numbers,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let numbers = ranks.all(crate::raw::length(count, "n")?, "ranks")?;
        self.add_group(group.chosen(&numbers, "ranks")?, &into)
    }

    /// MPI_Group_excl.
    pub fn group_excl(
        &self,
        group: Rc<Group>,
        count: i32,
        ranks: Numbers,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let numbers = ranks.all(crate::raw::length(count, "n")?, "ranks")?;
        self.without(&group, &group.chosen(&numbers, "ranks")?, &into)
    }

    fn without(&self, group: &Group, left: &[u32], into: &HandleAt<D>) -> Result<(), Failure> {
        let rest = group.ranks.iter().filter(|rank| !left.contains(rank));
        self.add_group(rest.copied().collect(), into)
    }

    /// MPI_Group_range_incl.
    pub fn group_range_incl(
        &self,
        group: Rc<Group>,
        count: i32,
        ranges: Numbers,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let numbers = in_ranges(count, ranges, group.ranks.len())?;
        self.add_group(group.chosen(&numbers, "ranges")?, &into)
    }

    /// MPI_Group_range_excl.
    pub fn group_range_excl(
        &self,
        group: Rc<Group>,
        count: i32,
        ranges: Numbers,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let numbers = in_ranges(count, ranges, group.ranks.len())?;
        self.without(&group, &group.chosen(&numbers, "ranges")?, &into)
    }
}

/// Expands ranges, each of a first number, a last number and a stride, in a group of this size.
fn in_ranges(count: i32, ranges: Numbers, size: usize) -> Result<Vec<i64>, Failure> {
    let all = ranges.all(3 * crate::raw::length(count, "n")?, "ranges")?;
    let mut numbers = Vec::new();
    for range in all.chunks_exact(3) {
        let &[first, last, step] = range else { continue };
        // All three are `int`s, so that the product fits.
        if step == 0 || (last - first) * step < 0 {
            let text = format!("the range from {first} to {last} in steps of {step} has no end");
            return Err(Failure::argument(text).named("ranges"));
        }
        // The last number that the range has. Between two ranks of the group are only others.
        let reached = last - (last - first) % step;
        for end in [first, reached] {
            if usize::try_from(end).is_ok_and(|end| end < size) {
                continue;
            }
            return Err(no_rank(end, size).named("ranges"));
        }
        numbers.extend((0..=(last - first) / step).map(|at| first + at * step));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranges_go_either_way_and_must_end() {
        let numbers = |range: [i32; 3]| in_ranges(1, Numbers::small(range.as_ptr()), 7);
        assert_eq!(numbers([1, 6, 2]).unwrap(), [1, 3, 5]);
        assert_eq!(numbers([6, 1, -3]).unwrap(), [6, 3]);
        assert_eq!(numbers([4, 4, 1]).unwrap(), [4]);
        assert_eq!(numbers([0, 7, 4]).unwrap(), [0, 4]);
        assert!(numbers([1, 6, 0]).is_err() && numbers([1, 6, -1]).is_err());
        // A step that is longer than the way back.
        assert!(numbers([5, 4, 3]).is_err() && numbers([0, 1, -5]).is_err());
        // Its list would take 16 GiB.
        assert_eq!(numbers([0, i32::MAX, 1]).unwrap_err().class, Class::Rank);
    }

    #[test]
    fn a_group_is_compared_and_chosen_from_by_place() {
        let group = |ranks: &[u32]| Group { ranks: ranks.to_vec() };
        let one = group(&[5, 3, 8]);
        assert_eq!(one.chosen(&[2, 0], "ranks").unwrap(), [8, 5]);
        for wrong in [&[3][..], &[-1], &[1, 1]] {
            assert_eq!(one.chosen(wrong, "ranks").unwrap_err().class, Class::Rank);
        }
        assert_eq!(one.compare(&group(&[5, 3, 8])), IDENT);
        assert_eq!(one.compare(&group(&[3, 5, 8])), SIMILAR);
        assert_eq!(one.compare(&group(&[3, 5])), UNEQUAL);
    }
}
