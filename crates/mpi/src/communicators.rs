//! Communicators (MPI 5.0 §7.4).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hikyaku_rank::Communicator;

use crate::attributes::Attribute;
use crate::dialect::{Dialect, Handle, Object, UNDEFINED};
use crate::errors::{Handler, first_handler};
use crate::failure::{Class, Failure};
use crate::groups::{CONGRUENT, Group, IDENT, SIMILAR, UNEQUAL};
use crate::info::Info;
use crate::raw::{HandleAt, Out, TextAt};
use crate::runtime::Mpi;

/// MPI_COMM_TYPE_SHARED, as MPI 5.0's interface numbers it.
const TYPE_SHARED: i32 = 221;

/// A communicator of a program.
#[derive(Debug)]
pub struct Comm {
    pub(crate) inner: Communicator,
    pub(crate) handle: Cell<Handle>,
    pub(crate) name: RefCell<String>,
    pub(crate) handler: Cell<Handler>,
    pub(crate) attributes: RefCell<BTreeMap<i32, Attribute>>,
}

impl Comm {
    /// A communicator, with the error handler of the one that it was made from.
    pub(crate) fn of(inner: Communicator, name: &str, from: Option<&Comm>) -> Comm {
        Comm {
            inner,
            handle: Cell::new(Handle::COMM_NULL),
            name: RefCell::new(name.to_owned()),
            handler: first_handler(from),
            attributes: RefCell::default(),
        }
    }

    /// How many ranks it has.
    pub fn size(&self) -> u32 {
        self.inner.size()
    }

    /// Its ranks in the job.
    fn ranks(&self) -> Vec<u32> {
        // Every rank below the size exists.
        (0..self.inner.size()).filter_map(|rank| self.inner.in_job(rank).ok()).collect()
    }
}

impl<D: Dialect> Mpi<D> {
    /// The communicator of a handle.
    #[inline]
    pub fn comm(&self, handle: D::Handle) -> Result<Rc<Comm>, Failure> {
        let number = D::number(Object::Comm, handle);
        match number {
            Handle::COMM_WORLD => self.world(),
            Handle::COMM_SELF => self.own(),
            other => self.state.comms.get(other).ok_or_else(|| self.no_such(Object::Comm, other)),
        }
    }

    /// MPI_COMM_SELF, which is made when it is first used.
    pub(crate) fn own(&self) -> Result<Rc<Comm>, Failure> {
        let known = self.state.own.borrow().clone();
        if let Some(own) = known {
            return Ok(own);
        }
        let world = self.world()?;
        let inner = world.inner.create_group(&[world.inner.rank()])?;
        let own = Rc::new(Comm::of(inner, "MPI_COMM_SELF", None));
        own.handle.set(Handle::COMM_SELF);
        self.state.own.replace(Some(Rc::clone(&own)));
        Ok(own)
    }

    /// Gives a communicator a handle.
    pub(crate) fn add_comm(
        &self,
        inner: Communicator,
        from: &Comm,
        into: &HandleAt<D>,
    ) -> Result<Rc<Comm>, Failure> {
        let comm = Rc::new(Comm::of(inner, "", Some(from)));
        let handle = self.state.comms.add(Rc::clone(&comm))?;
        comm.handle.set(handle);
        into.set(handle);
        Ok(comm)
    }

    /// MPI_Comm_size.
    pub fn comm_size(&self, comm: Rc<Comm>, size: Out<i32>) -> Result<(), Failure> {
        size.set(comm.inner.size() as i32);
        Ok(())
    }

    /// MPI_Comm_rank.
    pub fn comm_rank(&self, comm: Rc<Comm>, rank: Out<i32>) -> Result<(), Failure> {
        rank.set(comm.inner.rank() as i32);
        Ok(())
    }

    /// MPI_Comm_test_inter.
    pub fn comm_test_inter(&self, _: Rc<Comm>, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(false);
        Ok(())
    }

    /// MPI_Comm_compare.
    pub fn comm_compare(
        &self,
        one: Rc<Comm>,
        other: Rc<Comm>,
        result: Out<i32>,
    ) -> Result<(), Failure> {
        let (mut ours, mut theirs) = (one.ranks(), other.ranks());
        let same = ours == theirs;
        ours.sort_unstable();
        theirs.sort_unstable();
        result.set(D::comparison_out(match (Rc::ptr_eq(&one, &other), same) {
            (true, _) => IDENT,
            (_, true) => CONGRUENT,
            _ if ours == theirs => SIMILAR,
            _ => UNEQUAL,
        }));
        Ok(())
    }

    /// MPI_Comm_group.
    pub fn comm_group(&self, comm: Rc<Comm>, group: HandleAt<D>) -> Result<(), Failure> {
        self.add_group(comm.ranks(), &group)
    }

    /// MPI_Comm_dup.
    pub fn comm_dup(&self, comm: Rc<Comm>, into: HandleAt<D>) -> Result<(), Failure> {
        let inner = comm.inner.try_duplicate()?;
        let made = self.add_comm(inner, &comm, &into)?;
        self.copy_attributes(&comm, &made)
    }

    /// MPI_Comm_dup_with_info.
    pub fn comm_dup_with_info(
        &self,
        comm: Rc<Comm>,
        _: Option<Rc<Info>>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.comm_dup(comm, into)
    }

    /// MPI_Comm_split.
    pub fn comm_split(
        &self,
        comm: Rc<Comm>,
        color: i32,
        key: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let color = match color {
            UNDEFINED => None,
            0.. => Some(color as u32),
            _ => {
                let text = format!("the color {color} is negative, and not MPI_UNDEFINED");
                return Err(Failure::argument(text));
            }
        };
        self.split(&comm, color, key, &into)
    }

    fn split(
        &self,
        comm: &Comm,
        color: Option<u32>,
        key: i32,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        match comm.inner.split(color, key)? {
            Some(inner) => self.add_comm(inner, comm, into).map(drop),
            None => {
                into.set(Handle::COMM_NULL);
                Ok(())
            }
        }
    }

    /// MPI_Comm_split_type: ranks of a (virtual) node share memory.
    pub fn comm_split_type(
        &self,
        comm: Rc<Comm>,
        kind: i32,
        key: i32,
        _: Option<Rc<Info>>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let color = match D::split_type(kind) {
            UNDEFINED => None,
            TYPE_SHARED => Some(comm.inner.node_of(comm.inner.rank())),
            other => {
                let text = format!("there is no split by type {other} here");
                return Err(Failure::argument(text));
            }
        };
        self.split(&comm, color, key, &into)
    }

    /// MPI_Comm_create.
    pub fn comm_create(
        &self,
        comm: Rc<Comm>,
        group: Rc<Group>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let own = self.rank()?.rank();
        let place = group.ranks.iter().position(|rank| *rank == own);
        // Groups of different ranks may be apart from each other: their first rank names them.
        let color = place.and_then(|_| group.ranks.first().copied());
        self.split(&comm, color, place.map_or(0, |at| at as i32), &into)
    }

    /// MPI_Comm_create_group.
    pub fn comm_create_group(
        &self,
        comm: Rc<Comm>,
        group: Rc<Group>,
        tag: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let all = comm.ranks();
        let number = |rank: &u32| all.iter().position(|other| other == rank).map(|at| at as u32);
        let numbers: Option<Vec<u32>> = group.ranks.iter().map(number).collect();
        let numbers = numbers.ok_or_else(|| {
            Failure::new(Class::Group, "the group has ranks that the communicator does not have")
        })?;
        if !group.ranks.contains(&self.rank()?.rank()) {
            into.set(Handle::COMM_NULL);
            return Ok(());
        }
        let inner = comm.inner.create_group_tagged(&numbers, tag)?;
        self.add_comm(inner, &comm, &into).map(drop)
    }

    /// MPI_Comm_free.
    pub fn comm_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if [Handle::COMM_WORLD, Handle::COMM_SELF].contains(&number) {
            return Err(Failure::new(Class::Comm, "a predefined communicator cannot be freed"));
        }
        let comm = self.comm(D::handle(Object::Comm, number))?;
        self.delete_attributes(&comm)?;
        self.state.comms.remove(number);
        handle.set_null();
        Ok(())
    }

    /// MPI_Comm_disconnect: as freeing it, since what is pending keeps it alive.
    pub fn comm_disconnect(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        self.comm_free(handle)
    }

    /// MPI_Comm_get_parent: nobody has spawned this program.
    pub fn comm_get_parent(&self, parent: HandleAt<D>) -> Result<(), Failure> {
        self.world()?;
        parent.set(Handle::COMM_NULL);
        Ok(())
    }

    /// MPI_Topo_test: no communicator has a topology yet.
    pub fn topo_test(&self, _: Rc<Comm>, status: Out<i32>) -> Result<(), Failure> {
        status.set(UNDEFINED);
        Ok(())
    }

    /// MPI_Comm_set_name.
    pub fn comm_set_name(&self, comm: Rc<Comm>, name: String) -> Result<(), Failure> {
        comm.name.replace(cut(name, D::MAX_NAMES[1]));
        Ok(())
    }

    /// MPI_Comm_get_name.
    pub fn comm_get_name(
        &self,
        comm: Rc<Comm>,
        into: TextAt,
        length: Out<i32>,
    ) -> Result<(), Failure> {
        length.set(into.set(&comm.name.borrow(), D::MAX_NAMES[1]));
        Ok(())
    }
}

/// A name as far as there is room for it.
pub(crate) fn cut(name: String, room: usize) -> String {
    let fits = name.char_indices().take_while(|(at, it)| at + it.len_utf8() < room).count();
    name.chars().take(fits).collect()
}
