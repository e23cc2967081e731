//! Communicators (MPI 5.0 §7.4).

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

use hikyaku_msg::MsgError;
use hikyaku_rank::{Communicator, Error, Intercommunicator};

use crate::attributes::Attributes;
use crate::buffered::Outbox;
use crate::dialect::{Dialect, Handle, Object, ROOT, UNDEFINED};
use crate::errors::{Handler, Handling};
use crate::failure::{Class, Failure};
use crate::groups::{CONGRUENT, Group, IDENT, SIMILAR, UNEQUAL};
use crate::info::Info;
use crate::messages::no_tag;
use crate::raw::{HandleAt, Out, TextAt, cut};
use crate::requests::{Request, RequestState};
use crate::runtime::Mpi;
use crate::topology::Topology;

/// MPI_COMM_TYPE_SHARED and related constants, as MPI 5.0's interface numbers them.
const TYPE_SHARED: i32 = 221;
const TYPE_HW_UNGUIDED: i32 = 222;
const TYPE_HW_GUIDED: i32 = 223;
const TYPE_RESOURCE_GUIDED: i32 = 224;

/// The info key that names a resource, and the only resource that is supported.
const RESOURCE: &str = "mpi_hw_resource_type";
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// A communicator of a program.
#[derive(Debug)]
pub struct Comm {
    /// The destinations of its messages: its ranks, or those of the remote group.
    pub(crate) inner: Communicator,
    /// The two groups of an intercommunicator.
    pub(crate) inter: Option<Intercommunicator>,
    pub(crate) handle: Cell<Handle>,
    pub(crate) name: RefCell<OsString>,
    pub(crate) handler: Cell<Handler>,
    pub(crate) attributes: Attributes,
    pub(crate) topology: OnceCell<Topology>,
    pub(crate) info: Info,
    pub(crate) buffered: Outbox,
}

/// The basis of a communicator.
#[derive(Debug)]
pub(crate) enum Inner {
    /// One group.
    Among(Communicator),
    /// Two groups.
    Between(Intercommunicator),
}

impl From<Communicator> for Inner {
    fn from(inner: Communicator) -> Inner {
        Inner::Among(inner)
    }
}

impl From<Intercommunicator> for Inner {
    fn from(inner: Intercommunicator) -> Inner {
        Inner::Between(inner)
    }
}

impl Comm {
    /// A communicator with the error handler of its parent.
    pub(crate) fn of(inner: impl Into<Inner>, name: impl AsRef<OsStr>, handler: Handler) -> Comm {
        let (inner, inter) = match inner.into() {
            Inner::Among(inner) => (inner, None),
            Inner::Between(inter) => (inter.others().clone(), Some(inter)),
        };
        Comm {
            inner,
            inter,
            handle: Cell::new(Handle::COMM_NULL),
            name: RefCell::new(name.as_ref().to_owned()),
            handler: Cell::new(handler),
            attributes: Attributes::default(),
            info: Info::default(),
            buffered: Outbox::default(),
            topology: OnceCell::new(),
        }
    }

    /// This rank's place for error messages: its rank in the communicator, and in the job if that
    /// may differ.
    pub(crate) fn own_place(&self) -> String {
        let name = self.name.borrow().display().to_string();
        let name = if name.is_empty() { "a communicator without a name" } else { &name };
        let rank = self.local().rank();
        match self.local().members().map(|members| members.rank(rank)) {
            Some(Ok(whole)) => format!("rank {rank} of {name} (rank {whole} of the job)"),
            _ => format!("rank {rank} of {name}"),
        }
    }

    /// Its handle and its error handler, for failures of its requests.
    pub(crate) fn handled(&self) -> (Handle, Handler) {
        (self.handle.get(), self.handler.get())
    }

    /// This communicator with `inner`, which its messages need. Takes its attributes.
    fn completed(&self, inner: Inner) -> Comm {
        let made = Comm::of(inner, &*self.name.borrow(), self.handler.get());
        made.handle.set(self.handle.get());
        made.info.take_from(Some(&self.info));
        made.take_topology(self);
        Comm { attributes: self.attributes.take(), ..made }
    }

    /// The communicator of this rank's local group.
    pub(crate) fn local(&self) -> &Communicator {
        self.inter.as_ref().map_or(&self.inner, Intercommunicator::local)
    }

    /// Whether it is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        self.inter.is_some()
    }

    /// The single group; an error for an intercommunicator.
    pub(crate) fn intra(&self) -> Result<&Communicator, Failure> {
        match self.inter {
            None => Ok(&self.inner),
            Some(_) => Err(Failure::new(Class::Comm, "an intercommunicator cannot do this")),
        }
    }

    /// The two groups of an intercommunicator; else an error.
    pub(crate) fn groups(&self) -> Result<&Intercommunicator, Failure> {
        let text = "the communicator has one group: an intercommunicator is needed";
        self.inter.as_ref().ok_or_else(|| Failure::new(Class::Comm, text))
    }

    /// [`Comm::groups`] within an operation that was checked.
    pub(crate) fn groups_of(&self) -> Result<&Intercommunicator, Error> {
        self.inter.as_ref().ok_or(MsgError::NoSuchRequest.into())
    }

    /// Whether this rank is the root that a collective names.
    pub fn is_root(&self, root: i32) -> bool {
        match self.is_inter() {
            true => root == ROOT,
            false => u32::try_from(root) == Ok(self.inner.rank()),
        }
    }

    /// The number of ranks in this rank's local group.
    pub fn local_size(&self) -> u32 {
        self.local().size()
    }

    /// The length of a list with one entry per rank: the size of the group with which data are
    /// exchanged.
    pub fn size(&self) -> u32 {
        self.inner.size()
    }
}

/// The ranks of a communicator, numbered as in the job.
pub(crate) fn ranks_of(inner: &Communicator) -> Vec<u32> {
    // Every rank below the size exists, so the filter drops nothing.
    (0..inner.size()).filter_map(|rank| inner.in_job(rank).ok()).collect()
}

impl<D: Dialect> Mpi<D> {
    /// The communicator of a handle.
    #[inline(always)]
    pub fn comm(&self, handle: D::Handle) -> Result<Rc<Comm>, Failure> {
        let number = D::number(Object::Comm, handle);
        if number == Handle::COMM_WORLD {
            return self.world();
        }
        self.other_comm(number)
    }

    #[inline(never)]
    fn other_comm(&self, number: Handle) -> Result<Rc<Comm>, Failure> {
        match number {
            Handle::COMM_SELF => self.own(),
            other => self.state.comms.get(other).ok_or_else(|| self.no_such(Object::Comm, other)),
        }
    }

    /// MPI_COMM_SELF. It is created at its first use.
    pub(crate) fn own(&self) -> Result<Rc<Comm>, Failure> {
        let known = self.state.own.borrow().clone();
        if let Some(own) = known {
            return Ok(own);
        }
        let world = self.world()?;
        let inner = world.inner.create_group(&[world.inner.rank()])?;
        let own = Rc::new(Comm::of(inner, "MPI_COMM_SELF", Handler::Fatal));
        own.inner.set_name("MPI_COMM_SELF");
        own.handle.set(Handle::COMM_SELF);
        self.state.own.replace(Some(Rc::clone(&own)));
        Ok(own)
    }

    /// Registers a communicator and gives it a handle.
    pub(crate) fn add_comm(
        &self,
        inner: impl Into<Inner>,
        handler: Handler,
        into: &HandleAt<D>,
    ) -> Result<Rc<Comm>, Failure> {
        let comm = Rc::new(Comm::of(inner, "", handler));
        let handle = self.state.comms.add(Rc::clone(&comm))?;
        comm.handle.set(handle);
        into.set(handle);
        Ok(comm)
    }

    /// MPI_Comm_size.
    pub fn comm_size(&self, comm: Rc<Comm>, size: Out<i32>) -> Result<(), Failure> {
        size.set(comm.local().size() as i32);
        Ok(())
    }

    /// MPI_Comm_remote_size.
    pub fn comm_remote_size(&self, comm: Rc<Comm>, size: Out<i32>) -> Result<(), Failure> {
        size.set(comm.groups()?.others().size() as i32);
        Ok(())
    }

    /// MPI_Comm_rank.
    pub fn comm_rank(&self, comm: Rc<Comm>, rank: Out<i32>) -> Result<(), Failure> {
        rank.set(comm.local().rank() as i32);
        Ok(())
    }

    /// MPI_Comm_test_inter.
    pub fn comm_test_inter(&self, comm: Rc<Comm>, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(comm.is_inter());
        Ok(())
    }

    /// MPI_Comm_compare.
    pub fn comm_compare(
        &self,
        one: Rc<Comm>,
        other: Rc<Comm>,
        result: Out<i32>,
    ) -> Result<(), Failure> {
        let group = |inner: &Communicator| Group { ranks: ranks_of(inner) };
        let alike = |of: fn(&Comm) -> &Communicator| group(of(&one)).compare(&group(of(&other)));
        result.set(D::comparison_out(match (alike(Comm::local), alike(|comm| &comm.inner)) {
            _ if Rc::ptr_eq(&one, &other) => IDENT,
            _ if one.is_inter() != other.is_inter() => UNEQUAL,
            (IDENT, IDENT) => CONGRUENT,
            (UNEQUAL, _) | (_, UNEQUAL) => UNEQUAL,
            _ => SIMILAR,
        }));
        Ok(())
    }

    /// MPI_Comm_group.
    pub fn comm_group(&self, comm: Rc<Comm>, group: HandleAt<D>) -> Result<(), Failure> {
        self.add_group(ranks_of(comm.local()), &group)
    }

    /// MPI_Comm_remote_group.
    pub fn comm_remote_group(&self, comm: Rc<Comm>, group: HandleAt<D>) -> Result<(), Failure> {
        self.add_group(ranks_of(comm.groups()?.others()), &group)
    }

    /// MPI_Comm_dup.
    pub fn comm_dup(&self, comm: Rc<Comm>, into: HandleAt<D>) -> Result<(), Failure> {
        self.comm_dup_with_info(comm, None, into)
    }

    /// MPI_Comm_dup_with_info.
    pub fn comm_dup_with_info(
        &self,
        comm: Rc<Comm>,
        info: Option<Arc<Info>>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let inner = comm.local().run(duplicate(&comm))?;
        let made = self.add_comm(inner, comm.handler.get(), &into)?;
        made.info.take_from(info.as_deref());
        made.take_topology(&comm);
        self.copy_comm_attributes(&comm, &made, &into)
    }

    /// Copies attributes to a duplicate. Removes the duplicate's handle if that fails.
    fn copy_comm_attributes(
        &self,
        from: &Comm,
        made: &Comm,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let of = |comm: &Comm| (Object::Comm, comm.handle.get());
        let copied =
            self.copy_attributes((of(from), &from.attributes), (of(made), &made.attributes));
        copied.inspect_err(|_| {
            self.state.comms.remove(made.handle.get());
            into.set_null();
        })
    }

    /// A communicator of the same ranks and name with contexts of its own. A collective call.
    pub(crate) fn apart(&self, comm: &Comm) -> Result<Rc<Comm>, Failure> {
        let inner = comm.local().run(duplicate(comm))?;
        let made = Comm::of(inner, &*comm.name.borrow(), comm.handler.get());
        made.handle.set(comm.handle.get());
        Ok(Rc::new(made))
    }

    /// MPI_Comm_idup.
    pub fn comm_idup(
        &self,
        comm: Rc<Comm>,
        into: HandleAt<D>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.comm_idup_with_info(comm, None, into, request)
    }

    /// MPI_Comm_idup_with_info. The handle is valid for messages when the request is complete.
    pub fn comm_idup_with_info(
        &self,
        comm: Rc<Comm>,
        info: Option<Arc<Info>>,
        into: HandleAt<D>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        // Until then the handle names a communicator without messages, which keeps other settings.
        let unmade = comm.local().broken(MsgError::Unmade);
        let first = self.add_comm(unmade, comm.handler.get(), &into)?;
        first.info.take_from(info.as_deref());
        first.take_topology(&comm);
        self.copy_comm_attributes(&comm, &first, &into)?;
        let (mpi, from) = (*self, Rc::clone(&comm));
        let task = comm.local().start_task(Box::pin(async move {
            let made = duplicate(&from).await?;
            let handle = first.handle.get();
            mpi.state.comms.replace(handle, Rc::new(first.completed(made)));
            Ok(())
        }));
        self.add_request(Request::new(comm, RequestState::Task(task)), &request)
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
                return Err(Failure::argument(text).named("color"));
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
        let made = comm.local().run(async {
            Ok(match &comm.inter {
                None => comm.inner.split_async(color, key).await?.map(Inner::Among),
                Some(inter) => inter.split_async(color, key).await?.map(Inner::Between),
            })
        })?;
        match made {
            Some(inner) => self.add_comm(inner, comm.handler.get(), into).map(drop),
            None => {
                into.set(Handle::COMM_NULL);
                Ok(())
            }
        }
    }

    /// MPI_Comm_split_type. Only (virtual) nodes, whose ranks share memory, are known of the
    /// machine.
    pub fn comm_split_type(
        &self,
        comm: Rc<Comm>,
        kind: i32,
        key: i32,
        info: Option<Arc<Info>>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let node = comm.local().node_of(comm.local().rank());
        let named = info.as_ref().and_then(|info| info.get(RESOURCE));
        let color = match D::split_type(kind) {
            UNDEFINED => None,
            TYPE_SHARED => Some(node),
            TYPE_HW_GUIDED | TYPE_RESOURCE_GUIDED => {
                named.filter(|name| name == SHARED_MEMORY).map(|_| node)
            }
            // The result must be smaller than the communicator.
            TYPE_HW_UNGUIDED if comm.local().nodes() > 1 => {
                if let Some(info) = &info {
                    info.set(RESOURCE.into(), SHARED_MEMORY.into());
                }
                Some(node)
            }
            TYPE_HW_UNGUIDED => None,
            other => {
                let text = format!("there is no split by type {other} here");
                return Err(Failure::argument(text).named("split_type"));
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
        numbers_in(comm.local(), &group)?;
        let own = self.rank()?.rank();
        let place = group.ranks.iter().position(|rank| *rank == own);
        // A call may create several disjoint groups: the first rank of each is its color. An
        // intercommunicator joins one group from each side.
        let color = place.and_then(|_| group.ranks.first().copied());
        let color = color.map(|first| if comm.is_inter() { 0 } else { first });
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
        let inner = comm.intra()?;
        let tag = u32::try_from(tag).map_err(|_| no_tag(tag))?;
        let numbers = numbers_in(inner, &group)?;
        if !group.ranks.contains(&self.rank()?.rank()) {
            into.set(Handle::COMM_NULL);
            return Ok(());
        }
        let inner = inner.run(inner.create_group_for(&numbers, tag))?;
        self.add_comm(inner, comm.handler.get(), &into).map(drop)
    }

    /// MPI_Comm_create_from_group. Only the ranks of the group call it.
    pub fn comm_create_from_group(
        &self,
        group: Rc<Group>,
        tag: OsString,
        info: Option<Arc<Info>>,
        handler: Rc<Handling>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        if group.ranks.is_empty() {
            into.set(Handle::COMM_NULL);
            return Ok(());
        }
        let job = self.rank()?;
        let inner = job.run(job.whole().create_group_for(&group.ranks, number_of(&tag)))?;
        let made = self.add_comm(inner, handler.of(Object::Comm)?, &into)?;
        made.info.take_from(info.as_deref());
        Ok(())
    }

    /// MPI_Comm_free.
    pub fn comm_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if [Handle::COMM_WORLD, Handle::COMM_SELF].contains(&number) {
            return Err(Failure::new(Class::Comm, "a predefined communicator cannot be freed"));
        }
        let comm = self.comm(D::handle(Object::Comm, number))?;
        self.delete_attributes((Object::Comm, number), &comm.attributes)?;
        comm.buffered.flush()?;
        self.state.comms.remove(number);
        handle.set_null();
        Ok(())
    }

    /// MPI_Comm_disconnect: the same as free, because pending operations keep it alive.
    pub fn comm_disconnect(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        self.comm_free(handle)
    }

    /// MPI_Comm_get_parent: always null, because this program was not spawned.
    pub fn comm_get_parent(&self, parent: HandleAt<D>) -> Result<(), Failure> {
        self.world()?;
        parent.set(Handle::COMM_NULL);
        Ok(())
    }

    /// MPI_Comm_set_info.
    pub fn comm_set_info(&self, comm: Rc<Comm>, info: Option<Arc<Info>>) -> Result<(), Failure> {
        comm.info.take_from(info.as_deref());
        Ok(())
    }

    /// MPI_Comm_get_info.
    pub fn comm_get_info(&self, comm: Rc<Comm>, into: HandleAt<D>) -> Result<(), Failure> {
        self.add_info(comm.info.clone(), &into)
    }

    /// MPI_Comm_set_name.
    pub fn comm_set_name(&self, comm: Rc<Comm>, name: OsString) -> Result<(), Failure> {
        let name = cut(&name, D::MAX_NAMES[1]).to_owned();
        let shown = name.to_string_lossy();
        [&comm.inner, comm.local()].iter().for_each(|inner| inner.set_name(&shown));
        comm.name.replace(name);
        Ok(())
    }

    /// MPI_Comm_get_name.
    pub fn comm_get_name(
        &self,
        comm: D::Handle,
        into: TextAt,
        length: Out<i32>,
    ) -> Result<(), Failure> {
        let name = match D::number(Object::Comm, comm) {
            Handle::COMM_NULL => "MPI_COMM_NULL".into(),
            _ => self.comm(comm)?.name.borrow().clone(),
        };
        length.set(into.set(&name, D::MAX_NAMES[1])?);
        Ok(())
    }
}

/// The numbers of a group's ranks in a communicator, which must have all of them.
fn numbers_in(inner: &Communicator, group: &Group) -> Result<Vec<u32>, Failure> {
    let all = ranks_of(inner);
    let number = |rank: &u32| all.iter().position(|other| other == rank).map(|at| at as u32);
    let numbers: Option<Vec<u32>> = group.ranks.iter().map(number).collect();
    numbers.ok_or_else(|| {
        Failure::new(Class::Group, "the group has ranks that the communicator does not have")
    })
}

/// A communicator of the same ranks with contexts of its own.
async fn duplicate(comm: &Comm) -> Result<Inner, Error> {
    Ok(match &comm.inter {
        None => comm.inner.try_duplicate_async().await?.into(),
        Some(inter) => inter.duplicate_async().await?.into(),
    })
}

/// The hash of a word, on which all ranks agree.
pub(crate) fn number_of(word: &OsStr) -> u32 {
    // FNV-1a: the same on all ranks.
    let add = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    word.as_bytes().iter().fold(0x811c_9dc5, add)
}
